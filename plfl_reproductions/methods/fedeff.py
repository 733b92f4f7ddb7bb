"""FedEff gives fast clients more local epochs than slow ones, so that all clients finish a round at
about the same time and nobody waits for the slowest.

Source: "FedEff: efficient federated learning with optimal local epochs for heterogeneous clients"
(only the abstract and a secondary summary of the equations were available).

Once, before round 1: each client trains for an epoch from the initial parameters and reports its
model LW_i, its seconds σ_i per epoch, and β_i and δ_i to download and upload; x ← Σ_i (n_i/n) LW_i.
In every round, with E = τ E_b (at least 1), and σ̄, β̄, δ̄ the means over all clients:
    `EC`:   E_i = ⌊E⌋, the same for all
    `UEC`:  T = ⌈E σ̄ + β̄ + δ̄⌉ seconds for everybody; E_i = max(1, ⌊(T − β_i − δ_i) / σ_i⌋)
    `EIC`, `UEIC`: as `EC` and `UEC`, with τ shrinking from round to round
down: x and E_i;  client: E_i epochs;  up: D_i;  server: the ServerOpt along Σ_S (n_i/n_S) D_i

`UEC` is the schedule that the source calls FedEff.

Deviations: the source says that E_i may differ between rounds but not how; the geometric decay of τ
and the minimum of one epoch are ours. σ_i, β_i and δ_i follow from the speeds of
`federation.simulation`, which may be those of single clients (a list, or a column of a file);
without any, all clients count as equally fast. T is a whole number of seconds, so an epoch should
take several seconds. As in the source, updates are not divided by their number of steps: fast
clients have more influence on the mean.
"""

import math
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.base.rounding import decimal, snap_to_whole
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.server import weighted_sum


class FedEff(FedOpt):
    """FedAvg with as many local epochs per client as its speed allows."""

    name = "fedeff"
    sends = Sizes("d_s + 1", before_up="d_s + 3")
    simulation_only = "all clients train before round 1"

    schedule: Literal["EC", "UEC", "EIC", "UEIC"] = "UEC"
    """Epochs: equal or unequal (U) between clients, constant (C) or shrinking from round to round
    (IC)."""
    epochs: float = Field(10.0, gt=0)
    """Base epochs E_b (ours; the source names none)."""
    tau: float = Field(0.5, gt=0, le=1)
    """Fraction τ of the base epochs (ours; the source names none)."""
    decay: float = Field(0.95, gt=0, le=1)
    """Factor of τ from one round to the next in `EIC` and `UEIC` (ours)."""
    epoch_steps: int | None = Field(None, ge=1)
    """Local steps that count as an epoch; null: one pass over the training windows. For a fair
    comparison make epochs · tau · epoch_steps equal to `federation.local_steps`."""

    def init(self, f: Federation) -> MethodState:
        everyone, epoch = f.everyone, self._epoch(f)
        for steps in epoch.unique().tolist():
            fast_clients = everyone[epoch == steps]
            rows = f.local[fast_clients]
            f.local[fast_clients] = f.client_data.train(
                rows, fast_clients, f.client_opt, 0, steps, f.shared_mask
            )
        f.charge(everyone, epoch)
        D = f.local[:, f.columns] - f.x0
        D, _ = f.channel.send("up", everyone, D, [1.0, 1.0, 1.0])
        f.server.x += weighted_sum(self._weights(f, everyone), D)
        return MethodState()

    def _epoch(self, f: Federation) -> Tensor:
        """Local steps (N,) of an epoch of each client."""
        if self.epoch_steps is not None:
            return f.everyone * 0 + self.epoch_steps
        passes = f.client_data.window_counts / f.settings.batch_size
        return passes.ceil().to(f.everyone.dtype)

    def _weights(self, f: Federation, clients: Tensor) -> Tensor:
        """Weights n_i / n (n,) of `clients`, by their training windows."""
        windows = f.client_data.window_counts[clients]
        return windows / windows.sum()

    def common_epochs(self, t: int) -> Fraction:
        """E in round `t`, computed exactly from the decimal values of the hyperparameters."""
        E = decimal(self.tau) * decimal(self.epochs)
        if "IC" in self.schedule:
            E *= decimal(self.decay) ** (t - 1)
        return max(Fraction(1), E)

    def epochs_of(self, f: Federation, t: int) -> Tensor:
        """Epochs E_i (N,) of all clients in round `t`."""
        E = self.common_epochs(t)
        bytes_down = f.channel.parameter_bytes("down", f.x0) + 4
        bytes_up = f.channel.parameter_bytes("up", f.x0)
        sigma = f.clock.step_seconds * self._epoch(f).cpu().numpy()
        links = bytes_down * f.clock.down_seconds + bytes_up * f.clock.up_seconds
        if "U" not in self.schedule or not sigma.any():
            return f.everyone * 0 + math.floor(E)
        T = math.ceil(snap_to_whole(float(E) * sigma.mean() + links.mean()))
        pairs = zip((T - links).tolist(), sigma.tolist(), strict=True)
        # T does not limit a client whose steps take no time.
        fitting = [math.floor(snap_to_whole(free / s) if s else E) for free, s in pairs]
        return f.everyone.new_tensor(fitting).clamp(min=1)

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        x, epochs = f.server.send(clients), self.epochs_of(f, t)[clients].int()
        x, (epochs,) = f.channel.send("down", clients, x, [epochs])
        return TrainInstructions(x, steps=epochs * self._epoch(f)[clients])

    def aggregate(
        self, f: Federation, state: Any, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        D, _ = f.channel.send("up", clients, result.update)
        f.server.receive(clients, D, self._weights(f, clients), t)
