"""FedADC keeps momentum at the server and lets all clients follow it in every local step. This
accelerates training, and it keeps the clients together because all of them move in the same
direction besides their own gradients.

Source: Emre Ozfatura, Kerem Ozfatura and Deniz Gündüz, "FedADC: Accelerated Federated Learning with
Drift Control", ISIT 2021, https://arxiv.org/abs/2012.09102, Algorithm 3.

The server keeps m, 0 at first, in units of a gradient.

down: x, m;  client: m̄ = β_l m / K, then K steps of its ClientOpt with its gradients g,
    `heavy_ball` (blue):  y ← y − η g(y), then y ← y − η m̄
    `nesterov` (red):     y ← y − η m̄, then y ← y − η g(y)
up: D = y − x
server: m ← −D̄/η + (β_g − β_l) m;  x ← x − α η m,  where α is the learning rate η_g of `fedavg`
and η that of the round (`federation.schedule`)

With β_l = β_g, as published, x ← x + α D̄. FedADC accelerates and regularises; its fixed points are
those of FedAvg.

Deviations: the offset −η m̄ is not part of the gradient that the ClientOpt sees, which differs from
the paper where the ClientOpt is not SGD. `downlink: tracking` saves bytes: a client that received x
both before and after its last change computes m = (x_before − x_after) / (α η), and m is sent only
to clients that missed it. `downlink: overlapped` saves time (section II-A): while the clients of a
round compute, the server sends its present x and m to those of the next round. When that begins,
they receive only D̄ and take the server's step themselves. So they wait for d_s numbers instead of
2 d_s, and receive 3 d_s in total. They also wait for the part of the early transfer that takes
longer than the computation. The paper's other way, D̄ to all clients in every round, is not here:
`tracking` computes the same m and sends less.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.server import weighted_sum


@dataclass
class FedADCState(MethodState):
    m: Tensor
    """The server's momentum (d_s,)."""
    server_steps: Tensor
    """Number () of steps that the server has taken."""
    last_eta: Tensor
    """The clients' η () in the round of its last step."""
    known: Tensor | None = None
    """x (N, d_s) as each client last received it, with `downlink: tracking`."""
    known_steps: Tensor | None = None
    """Steps (N,) that the server had taken at that time; −1 for the initial x."""
    last_step: Tensor | None = None
    """x and m before the server's last step, and D̄ (3, d_s), with `downlink: overlapped`."""


class FedADC(FedOpt):
    """Accelerated federated learning with drift control: clients follow the server's momentum."""

    name = "fedadc"
    sends = Sizes("2 d_s")
    own_server = "it has its own server step"
    server_lr = "α"

    beta_l: float = Field(0.9, ge=0, lt=1)
    """Momentum β_l that the clients follow (the paper: 0.6 to 0.9)."""
    beta_g: float | None = Field(0.9, ge=0, lt=1)
    """Total momentum β_g, which the server completes; null (the paper): β_l."""
    variant: Literal["heavy_ball", "nesterov"] = "heavy_ball"
    """Whether a local step begins with the gradient (`heavy_ball`) or the momentum."""
    downlink: Literal["momentum", "tracking", "overlapped"] = "momentum"
    """How clients get the server's momentum: with the model (`momentum`), by computing it where
    they can (`tracking`), or with the model, while the round before computes (`overlapped`)."""

    @property
    def no_codec(self) -> str | None:  # type: ignore[override]
        momentum = "clients compute the momentum from several messages, whose errors would add up"
        return None if self.downlink == "momentum" else momentum

    @property
    def simulation_only(self) -> str | None:  # type: ignore[override]
        if self.downlink == "momentum":
            return None
        if self.downlink == "tracking":
            return "with downlink 'tracking' the server must know which messages arrived"
        return "with downlink 'overlapped' a round begins before the one before has ended"

    def init(self, f: Federation) -> FedADCState:
        state = FedADCState(
            m=f.x0.new_zeros(f.x0.shape),
            server_steps=f.everyone.new_zeros(()),
            last_eta=torch.tensor(f.client_opt.lr, dtype=torch.float64),
        )
        if self.downlink == "tracking":
            # Before the first step every client knows x and m = 0.
            state.known = f.x0.expand(len(f.everyone), -1).clone()
            state.known_steps = f.everyone * 0 - 1
        return state

    def broadcast(
        self, f: Federation, state: FedADCState, t: int, clients: Tensor
    ) -> TrainInstructions:
        x, m = self._send_state(f, state, clients)
        eta = f.client_opt.lr
        K = self._steps(f, clients).double()[:, None]
        step_offset = (-eta * self.beta_l / K).to(m.dtype) * m
        first = self.variant == "nesterov"
        return TrainInstructions(x, step_offset=step_offset, offset_first=first)

    def _steps(self, f: Federation, clients: Tensor) -> Tensor:
        """Local steps K (n,) of a round of `clients`."""
        return f.client_data.steps(clients)

    def _send_state(
        self, f: Federation, state: FedADCState, clients: Tensor
    ) -> tuple[Tensor, Tensor]:
        """x and m (n, d_s) of `clients`, after the server has sent them what they lack."""
        server_rows = f.server.send(clients)
        m = state.m.expand(len(clients), -1)
        if state.last_step is not None:
            last_steps = [row.expand(len(clients), -1) for row in state.last_step]
            mean, (x, m) = f.channel.send("down", clients, last_steps[2], last_steps[:2])
            size = 2 * x.shape[1] * x.element_size()
            f.clock.send_ahead(clients.cpu().numpy(), size)
            return self._step(f, x, m, mean, float(state.last_eta))
        if self.downlink != "tracking":
            x, (m,) = f.channel.send("down", clients, server_rows, [m])
            return x, m
        assert state.known is not None
        assert state.known_steps is not None
        known_rows = state.known[clients]
        knows_last = state.known_steps[clients] == state.server_steps - 1
        rate = f.server.opt.lr * float(state.last_eta)
        x, m = server_rows.clone(), m.clone()
        for recipients, extras in ((knows_last, []), (~knows_last, [m[~knows_last]])):
            if recipients.any():
                x[recipients], extras_received = f.channel.send(
                    "down", clients[recipients], server_rows[recipients], extras
                )
                m[recipients] = (
                    extras_received[0]
                    if extras_received
                    else (known_rows[recipients] - x[recipients]) / rate
                )
        state.known[clients], state.known_steps[clients] = x, state.server_steps
        return x, m

    def aggregate(
        self, f: Federation, state: FedADCState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        D, _ = f.channel.send("up", clients, result.update)
        mean = weighted_sum(f.weights_of(clients), D)
        x = f.server.x
        if self.downlink == "overlapped":
            state.last_step = torch.stack([x, state.m, mean])
        eta = f.client_opt.lr
        f.server.x, state.m = self._step(f, x, state.m, mean, eta)
        state.server_steps += 1
        state.last_eta.fill_(eta)

    def _step(
        self, f: Federation, x: Tensor, m: Tensor, mean: Tensor, eta: float
    ) -> tuple[Tensor, Tensor]:
        """x and m after the server's step along D̄, given those before it and the clients' η."""
        remaining_beta = 0.0 if self.beta_g is None else self.beta_g - self.beta_l
        m = (m * remaining_beta).sub_(mean, alpha=1 / eta)
        stepped = {"x": x.clone()}
        f.server.opt.step(stepped, -eta * m)
        return stepped["x"], m
