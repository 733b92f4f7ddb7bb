"""FedGKD guards against forgetting by distillation: the mean of the latest global models is a
teacher, and each client's loss contains the difference between its own forecasts and the teacher's.
Local training therefore stays closer to what the clients have learned together.

Source: Dezhong Yao, Wanning Pan, Yutong Dai, Yao Wan, Xiaofeng Ding, Hai Jin, Zheng Xu and Lichao
Sun, "Local-Global Knowledge Distillation in Heterogeneous Federated Learning with Non-IID Data",
2021, https://arxiv.org/abs/2107.00051; authors' code: https://github.com/CGCL-codes/FedGKD.

down: x, and the teacher unless it is x itself
client: its ClientOpt on MSE(ŷ, y) + λ · MSE(ŷ, ŷ_T)
up: D = y − x;  server: x ← ServerOpt(x, D̄)

The teacher is the mean of the global models x after the last `buffer` rounds, the latest one
included. In round 1 there is no teacher. It forecasts with the client's own personal part.

For classifiers the loss is CE + λ T² KL(softmax(z_T / T) ‖ softmax(z / T)) with logits z; FedADC,
which compares itself with FedGKD, does not print T².

Deviations: for forecasts the squared error replaces the divergence, as in the authors' code for
`loss_type mse`.
"""

from dataclasses import dataclass

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.interfaces.terms import Distillation
from plfl.methods.fedopt import FedOpt


@dataclass
class FedGKDState(MethodState):
    models: Tensor
    """The latest global models (at most `buffer`, ...), oldest first; none before round 1."""


class FedGKD(FedOpt):
    """Distillation from the latest global models."""

    name = "fedgkd"
    has_teacher = True

    lam: float = Field(0.1, ge=0)
    """λ of the distillation (FedADC, its baseline of this name: 0.1)."""
    temperature: float = Field(0.5, gt=0)
    """Temperature T of a classifier's distillation (FedADC, its baseline of this name: 0.5);
    forecasts have none."""
    buffer: int = Field(1, ge=1)
    """Largest number of global models whose mean is the teacher (FedGKD's authors: 1)."""

    @property
    def sends(self) -> Sizes:  # type: ignore[override]
        return Sizes("2 d_s" if self.buffer > 1 else "d_s")

    def init(self, f: Federation) -> FedGKDState:
        return FedGKDState(models=f.server.x[None][:0])

    def broadcast(
        self, f: Federation, state: FedGKDState, t: int, clients: Tensor
    ) -> TrainInstructions:
        if t == 1:
            return super().broadcast(f, state, t, clients)
        stored_models = state.models
        # If no round has had participants yet, x is still the initial model.
        models = stored_models if len(stored_models) else f.server.x[None]
        mean = models.double().mean(0).to(models.dtype)
        teacher = f.server.opt.send({**f.server.state, "x": mean}, clients)
        x = f.server.send(clients)
        x, extras_received = f.channel.send(
            "down", clients, x, [teacher] if len(models) > 1 else []
        )
        return TrainInstructions(
            start=x,
            teacher=extras_received[0] if extras_received else x,
            term=Distillation(self.lam, self.temperature),
        )

    def aggregate(
        self, f: Federation, state: FedGKDState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        super().aggregate(f, state, t, clients, result)
        state.models = torch.cat([state.models, f.server.x[None]])[-self.buffer :]
