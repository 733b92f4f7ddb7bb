"""What the program of the PL-FL paper's authors does, for audit only.

Source: github.com/shourya01/FederatedPersonalizedLoadForecasting (train.py, ClientOptimizers.py,
ServerOptimizers.py). It departs from the paper's Algorithm 2 in ways that each have a switch here;
with all of them on their second value it is `fedopt`.

- `iterate: kept`: a client steps from an iterate z_i of its own that never takes in the server's
  parameters. Adam and AdamAMS only take the first gradient of a round at [x on the split; z_i];
  Prox and ProxAdam never see x but as the anchor of their proximal term.
- `anchor: all`: that anchor acts on all parameters, personal ones too.
- `moments: kept`: the moments of the local optimiser stay; only the step counter of their bias
  correction begins anew in each round, and with nothing shared not even that.
- `v0`: the second moment begins at one.
- `server: twice`: FedAdagrad, FedAdam and FedYogi apply their learning rate twice, from v = 1 on.
- `initial: apart`: the copies of FedAvgAdaptive start from different random parameters.

Every message carries all parameters in double precision, in P1, P2 and P3 alike.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from plfl.errors import ConfigError
from plfl.methods import Done, Local, Method
from plfl.servers import weighted_sum
from plfl.servers.fedadagrad import FedAdagrad

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation


class AuthorsCode(Method):
    """The paper's program as it ran, quirk by quirk."""

    name = "authors_code"
    label = "Authors' code"
    ignores_split = True

    iterate: Literal["kept", "loaded"] = "kept"
    """Whether clients step from their own iterate or from the server's parameters."""
    anchor: Literal["all", "shared"] = "all"
    """Parameters on which the proximal term acts."""
    moments: Literal["kept", "reset"] = "kept"
    """What becomes of the local moments between rounds."""
    v0: float = Field(1.0, ge=0)
    """Initial second moment of the local optimiser; 0 is Adam's."""
    server: Literal["twice", "once"] = "twice"
    """How often an adaptive server applies its learning rate."""
    initial: Literal["apart", "common"] = "apart"
    """What FedAvgAdaptive's copies start from."""

    @property
    def simulation_only(self) -> str | None:
        return "it is an audit of a program that sends whole models"

    def crosses(self, split: "Tensor") -> "Tensor":
        import torch

        return torch.ones_like(split)

    def begin(self, f: "Federation") -> None:
        if self.iterate == "kept" and f.fleet.settings.local_steps < 2:
            problem = "must be at least 2 under authors_code, which takes the first step elsewhere"
            raise ConfigError("federation.local_steps", [problem])
        f.opt_state = "keep"
        self._renew_moments(f, f.everyone)
        if self.initial == "apart" and f.server_opt.name == "fedavgadaptive":
            copies = f.server_state["x"]
            for i in range(len(copies)):
                copies[i] = f.draw(f.seed + i)
        if self.server == "twice" and isinstance(f.server_opt, FedAdagrad):
            f.server_state["v"].fill_(1)

    def _renew_moments(self, f: "Federation", clients: "Tensor") -> None:
        fresh = f.client_opt.init(f.local[clients])
        for name, rows in fresh.items():
            if name == "v":
                rows.fill_(self.v0)
            if name in f.moments:
                f.moments[name][clients] = rows
            else:
                f.moments[name] = rows

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        import torch

        x = f.server_opt.send(f.server_state, clients).double()
        received = f.channel.send("down", clients, x)[0].to(f.local.dtype)
        own = f.local[clients]
        loaded = torch.where(f.split, received, own)
        if self.moments == "reset":
            self._renew_moments(f, clients)
        if self.moments == "reset" or f.split.any():
            f.steps[clients] = 0
        if self.iterate == "loaded":
            f.memory["before"] = loaded
            return self._anchored(f, loaded, received)
        proximal = f.client_opt.proximal
        f.memory["before"] = own if proximal else loaded
        if proximal:
            return self._anchored(f, own, received)
        return self._first_step_elsewhere(f, t, clients, own, loaded)

    def _anchored(self, f: "Federation", start: "Tensor", received: "Tensor") -> Local:
        """Steps from `start` with the proximal term towards what was received.

        By itself the optimiser's term pulls everything that crosses to where it started.
        """
        import torch

        mu = f.client_opt.proximal
        if not mu:
            return Local(start)
        if self.anchor == "all":
            return Local(start, constant=mu * (start - received))
        constant = mu * torch.where(f.split, start - received, 0)
        return Local(start, pull=-mu * (~f.split).to(start.dtype), constant=constant)

    def _first_step_elsewhere(
        self, f: "Federation", t: int, clients: "Tensor", own: "Tensor", loaded: "Tensor"
    ) -> Local:
        g = f.fleet.gradients(loaded, clients, t, 1)
        state = {name: rows[clients] for name, rows in f.moments.items()}
        stepped = own.clone()
        f.client_opt.step(stepped, g, state, f.steps[clients] + 1)
        f.steps[clients] += 1
        for name, rows in state.items():
            f.moments[name][clients] = rows
        return Local(stepped, skip=1)

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        import torch

        D = (f.local[clients] - f.memory["before"]).double()
        D = f.channel.send("up", clients, D)[0].to(f.local.dtype)
        weights, opt = f.weights_of(clients), f.server_opt
        if self.server == "once" or not isinstance(opt, FedAdagrad):
            opt.receive(f.server_state, clients, D, weights, t)
            return
        mean = weighted_sum(weights, D)
        state, rates = f.server_state, opt.model_dump()
        lr, b1, b2, tau = (rates[name] for name in ("lr", "beta1", "beta2", "tau"))
        m, v = state["m"], state["v"]
        m.mul_(b1).add_(mean, alpha=(1 - b1) * lr)
        square = mean * mean
        if opt.name == "fedadagrad":
            v += square
        elif opt.name == "fedadam":
            v.mul_(b2).add_(square, alpha=(1 - b2) * lr)
        else:
            v.copy_(b2 * v - (1 - b2) * lr * square * torch.sign(v - square))
        state["x"].addcdiv_(m, v.sqrt() + tau, value=lr)

    def held(self, f: "Federation") -> "Tensor":
        import torch

        return torch.where(f.split, f.server_opt.send(f.server_state, f.everyone), f.local)
