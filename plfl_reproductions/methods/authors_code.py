"""The program that the authors of the PL-FL paper published deviates from the algorithm in the
paper. This method reproduces that program. Each deviation has a switch, so that its effect can be
measured. It is meant for audits only.

Source: Shourya Bose, Yu Zhang and Kibaek Kim, "Addressing Heterogeneity in Federated Load
Forecasting with Personalization Layers", 2024, https://arxiv.org/abs/2404.01517, and its program,
https://github.com/shourya01/FederatedPersonalizedLoadForecasting (train.py, ClientOptimizers.py and
ServerOptimizers.py).

With every switch at its second value this method is the paper's Algorithm 2, `fedopt`.

- `iterate: kept`: client i steps from an iterate z_i of its own, which is never set to the server's
  parameters. Adam and AdamAMS only take the first gradient of a round at [x where shared; z_i].
  Prox and ProxAdam use x only as the anchor of their proximal term.
- `anchor: all`: that term acts on all parameters, personal ones included.
- `moments: kept`: the moments of the local optimiser persist. Only the step counter of their bias
  correction restarts in each round; with nothing shared it does not restart either.
- `v0`: the second moment starts at one.
- `server: twice`: FedAdagrad, FedAdam and FedYogi apply their learning rate twice and start from
  v = 1.
- `initial: apart`: the copies of FedAvgAdaptive start from different random parameters.

Every message carries all parameters in double precision, in P1, P2 and P3 alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.base.errors import ConfigError
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation, FederationSettings
from plfl.interfaces.method import Method, MethodState, Sizes
from plfl.interfaces.model import Model
from plfl.interfaces.task import Task
from plfl.layout import ParameterLayout
from plfl.optimizers.server import weighted_sum
from plfl.optimizers.server.fedadagrad import FedAdagrad


@dataclass
class AuthorsCodeState(MethodState):
    before: Tensor
    """Models (n, P) from which the update of the current round is measured."""


class AuthorsCode(Method):
    """The program of the PL-FL paper's authors, with all its deviations from the paper."""

    name = "authors_code"
    label = "Authors' code"
    sends = Sizes("2 d_s", "2 d_s")
    ignores_sharing = True
    no_buffers = "the authors' program sends whole models, and buffers are never sent"
    no_codec = "the authors' program sends all numbers in double precision"
    simulation_only = "it is an audit of a program that sends whole models"

    iterate: Literal["kept", "loaded"] = "kept"
    """Whether clients step from their own iterate or from the server's parameters."""
    anchor: Literal["all", "shared"] = "all"
    """Parameters on which the proximal term acts."""
    moments: Literal["kept", "reset"] = "kept"
    """Whether local moments are kept between rounds, or reset."""
    v0: float = Field(1.0, ge=0)
    """Initial second moment of the local optimiser; 0 is Adam's."""
    server: Literal["twice", "once"] = "twice"
    """How often an adaptive server applies its learning rate."""
    initial: Literal["apart", "common"] = "apart"
    """Whether FedAvgAdaptive's copies start from different random parameters, or from the same."""

    def shared_mask(self, study_mask: Tensor, layout: ParameterLayout) -> Tensor:
        return torch.ones_like(study_mask)

    def reasons_against_settings(
        self, model: Model, task: Task, federation: FederationSettings
    ) -> Iterator[str]:
        if federation.start is not None and self.initial == "apart":
            yield (
                "draws the copies of fedavgadaptive, which would all be that of federation.start; "
                "set its initial to common, or remove federation.start"
            )

    def init(self, f: Federation) -> AuthorsCodeState:
        if self.iterate == "kept" and (f.client_data.steps(f.everyone) < 2).any():
            raise ConfigError.at_key(
                "federation.local_steps",
                "is 1, but under authors_code the first step is taken elsewhere",
                "set it to 2 or more",
            )
        f.moments.mode = "keep"
        self._renew_moments(f, f.everyone)
        if self.initial == "apart" and f.server.opt.name == "fedavgadaptive":
            copies = f.server.x
            for i in range(len(copies)):
                copies[i] = f.draw(f.seed + i)
        if self.server == "twice" and isinstance(f.server.opt, FedAdagrad):
            f.server.state["v"].fill_(1)
        return AuthorsCodeState(before=f.local)

    def _renew_moments(self, f: Federation, clients: Tensor) -> None:
        fresh = f.client_opt.init(f.local[clients])
        for name, rows in fresh.items():
            if name == "v":
                rows.fill_(self.v0)
            if name in f.moments.rows:
                f.moments.rows[name][clients] = rows
            else:
                f.moments.rows[name] = rows

    def broadcast(
        self, f: Federation, state: AuthorsCodeState, t: int, clients: Tensor
    ) -> TrainInstructions:
        x = f.server.send(clients).double()
        server_rows = f.channel.send("down", clients, x)[0].to(f.local.dtype)
        local = f.local[clients]
        loaded = torch.where(f.study_mask, server_rows, local)
        if self.moments == "reset":
            self._renew_moments(f, clients)
        if self.moments == "reset" or f.study_mask.any():
            f.moments.steps[clients] = 0
        if self.iterate == "loaded":
            state.before = loaded
            return self._anchored_steps(f, loaded, server_rows)
        proximal = f.client_opt.proximal
        state.before = local if proximal else loaded
        if proximal:
            return self._anchored_steps(f, local, server_rows)
        return self._first_step_elsewhere(f, t, clients, local, loaded)

    def _anchored_steps(
        self, f: Federation, start: Tensor, server_rows: Tensor
    ) -> TrainInstructions:
        """Steps from `start` with the proximal term towards what was received.

        The optimiser's own term would pull all parameters that cross the channel to their start.
        """
        mu = f.client_opt.proximal
        if not mu:
            return TrainInstructions(start)
        if self.anchor == "all":
            return TrainInstructions(start, constant=mu * (start - server_rows))
        constant = mu * torch.where(f.study_mask, start - server_rows, 0)
        return TrainInstructions(
            start, pull=-mu * (~f.study_mask).to(start.dtype), constant=constant
        )

    def _first_step_elsewhere(
        self, f: Federation, t: int, clients: Tensor, own_rows: Tensor, loaded: Tensor
    ) -> TrainInstructions:
        g = f.client_data.gradients(loaded, clients, t, 1)
        moments = {name: rows[clients] for name, rows in f.moments.rows.items()}
        stepped = own_rows.clone()
        f.client_opt.step(
            stepped, f.client_opt.decay_weights(own_rows, g), moments, f.moments.steps[clients] + 1
        )
        f.moments.steps[clients] += 1
        for name, rows in moments.items():
            f.moments.rows[name][clients] = rows
        return TrainInstructions(stepped, skip=1)

    def aggregate(
        self, f: Federation, state: AuthorsCodeState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        D = (f.local[clients] - state.before).double()
        D = f.channel.send("up", clients, D)[0].to(f.local.dtype)
        weights, opt = f.weights_of(clients), f.server.opt
        if self.server == "once" or not isinstance(opt, FedAdagrad):
            f.server.receive(clients, D, weights, t)
            return
        mean = weighted_sum(weights, D)
        server_state, rates = f.server.state, opt.model_dump()
        lr, b1, b2, tau = (rates[name] for name in ("lr", "beta1", "beta2", "tau"))
        m, v = server_state["m"], server_state["v"]
        m.mul_(b1).add_(mean, alpha=(1 - b1) * lr)
        square = mean * mean
        if opt.name == "fedadagrad":
            v += square
        elif opt.name == "fedadam":
            v.mul_(b2).add_(square, alpha=(1 - b2) * lr)
        else:
            v.copy_(b2 * v - (1 - b2) * lr * square * torch.sign(v - square))
        server_state["x"].addcdiv_(m, v.sqrt() + tau, value=lr)

    def global_parameters(self, f: Federation, state: AuthorsCodeState) -> Tensor:
        return torch.where(f.study_mask, f.server.send(f.everyone), f.local)
