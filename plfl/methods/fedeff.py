"""FedEff: local epochs that fit each client's speed, so that nobody waits for the slowest.

Once, before round 1: each client trains an epoch from the initial parameters and reports the model,
its seconds σ_i per epoch, and β_i and δ_i to download and upload; x ← Σ_i (n_i/n) LW_i.
In every round, with E = τ E_b (at least 1), and σ̄, β̄, δ̄ the means over all clients:
    `EC`:   E_i = ⌊E⌋, the same for all
    `UEC`:  T = ⌈E σ̄ + β̄ + δ̄⌉ seconds for everybody; E_i = max(1, ⌊(T − β_i − δ_i) / σ_i⌋)
    `EIC`, `UEIC`: as those, with τ shrinking from round to round
down: x and E_i;  client: E_i epochs;  up: D_i;  server: the ServerOpt along Σ_S (n_i/n_S) D_i

`UEC` is what is called FedEff. Its source says that E_i may differ between rounds but not how:
the geometric decay of τ is an adaptation, as is that E_i is at least 1. Times come from
`federation.simulation`; without any all clients count as equally fast. T is in whole seconds, so
an epoch should take some. Fast clients count for more in the mean, as in the source: it does not
divide by the steps.
"""

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from plfl.methods import Done, Local
from plfl.methods.fedopt import FedOpt
from plfl.servers import weighted_sum

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation


class FedEff(FedOpt):
    """FedAvg with as many local epochs for each client as its speed allows."""

    name = "fedeff"

    schedule: Literal["EC", "UEC", "EIC", "UEIC"] = "UEC"
    """Epochs: equal or unequal (U) for all clients, constant (C) or shrinking from round to round
    (IC)."""
    epochs: float = Field(10.0, gt=0)
    """Base epochs E_b (the specification's example: 10)."""
    tau: float = Field(0.5, gt=0, le=1)
    """Share τ of the base epochs (the specification's example: 0.5)."""
    decay: float = Field(0.95, gt=0, le=1)
    """Factor of τ from one round to the next in `EIC` and `UEIC` (ours)."""
    epoch_steps: int | None = Field(None, ge=1)
    """Local steps that count as an epoch; none: ⌈n_i / batch_size⌉, a pass over all training
    windows. To compare methods at like steps make epochs · tau · epoch_steps the study's
    `federation.local_steps`."""

    @property
    def simulation_only(self) -> str | None:
        return "all clients train before round 1"

    def begin(self, f: "Federation") -> None:
        everyone, epoch = f.everyone, self._epoch(f)
        for steps in epoch.unique().tolist():
            some = everyone[epoch == steps]
            rows = f.local[some]
            f.local[some] = f.fleet.train(rows, some, f.client_opt, 0, steps, f.shared)
        f.clock.work(everyone.cpu().numpy(), epoch.cpu().double().numpy())
        D = f.local[:, f.columns] - f.x0
        D, _ = f.channel.send("up", everyone, D, [1.0, 1.0, 1.0])
        f.server_state["x"] += self._mean(f, everyone, D)

    def _epoch(self, f: "Federation") -> "Tensor":
        """Local steps (N,) of an epoch of each client."""
        if self.epoch_steps is not None:
            return f.everyone * 0 + self.epoch_steps
        passes = f.fleet.windows / f.fleet.settings.batch_size
        return passes.ceil().to(f.everyone.dtype)

    def _mean(self, f: "Federation", clients: "Tensor", rows: "Tensor") -> "Tensor":
        windows = f.fleet.windows[clients].double()
        return weighted_sum(windows / windows.sum(), rows)

    def epochs_of(self, f: "Federation", t: int) -> "Tensor":
        """Epochs E_i (N,) of all clients in round `t`."""
        tau = self.tau * self.decay ** (t - 1) if "IC" in self.schedule else self.tau
        E = max(1.0, tau * self.epochs)
        message = f.channel.shared * f.x0.element_size()
        sigma = f.clock.step_seconds * self._epoch(f).cpu().numpy()
        links = (message + 4) * f.clock.down_seconds + message * f.clock.up_seconds
        if "U" not in self.schedule or not sigma.any():
            return f.everyone * 0 + math.floor(E)
        # What is a whole number but for round-off shall count as one.
        T = math.ceil(round(E * sigma.mean() + links.mean(), 9))
        fitting = np.floor(np.round((T - links) / sigma, 9))
        return f.everyone.new_tensor(np.maximum(1, fitting).astype(np.int64))

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        x, epochs = f.server_opt.send(f.server_state, clients), self.epochs_of(f, t)[clients].int()
        x, (epochs,) = f.channel.send("down", clients, x, [epochs])
        return Local(x, steps=epochs * self._epoch(f)[clients])

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        D, _ = f.channel.send("up", clients, done.displacement)
        weights = f.fleet.windows[clients] / f.fleet.windows[clients].sum()
        f.server_opt.receive(f.server_state, clients, D, weights, t)
