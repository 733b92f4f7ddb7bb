"""FedDyn gives each client a regulariser that changes from round to round such that the minima of
the clients' losses agree with the minimum of the common loss. FedAvg lacks this: with several local
steps its fixed point is a compromise that depends on the number of steps.

Source: Durmus Alp Emre Acar, Yue Zhao, Ramon Matas Navarro, Matthew Mattina, Paul N. Whatmough and
Venkatesh Saligrama, "Federated Learning Based on Dynamic Regularization", ICLR 2021,
https://arxiv.org/abs/2111.04263.

Client i keeps h_i, the server keeps h, all 0 at first.

down: x;  client: K steps of its ClientOpt along g − h_i + α (y − x);  h_i ← h_i − α D;
up: D = y − x
server: h ← h − (α/N) Σ_S D_i;  x ← x + η_g (D̄ − h/α), as published with η_g = 1

h remains the mean of all h_i, whichever clients take part, and the only fixed points are those of
the common objective. The paper assumes that a client nearly minimises its regularised loss in a
round. With few local steps x oscillates slowly, because h/α sums all updates so far, and the h_i
correct only a fraction of about K η α of the clients' drift in a round.

Deviations: where clients are weighted by their training windows, so is the mean over all N. A
deployed server counts a client that has never joined as one of average size.
"""

from dataclasses import dataclass

from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Sizes
from plfl.methods.fedopt import FedOpt
from plfl.methods.scaffold import MeanState, reweigh_mean
from plfl.optimizers.server import weighted_sum


@dataclass
class FedDynState(MeanState):
    h: Tensor
    """Mean (d_s,) of all h_i."""
    h_i: Tensor
    """Linear term (N, d_s) of each client's regulariser."""


class FedDyn(FedOpt):
    """FedAvg with dynamic regularisation."""

    name = "feddyn"
    sends = Sizes()
    no_coded_update = "h is the mean of the h_i only as long as both ends add the same updates"
    own_server = "it has its own server step"
    server_lr = "η_g"

    alpha: float = Field(0.01, gt=0)
    """Strength α of the regulariser, in loss per parameter² (FedADC's baselines: 0.1, 0.01 or
    0.001)."""

    def init(self, f: Federation) -> FedDynState:
        zero = f.x0.new_zeros(f.x0.shape)
        return FedDynState(h=zero, h_i=zero.expand(len(f.everyone), -1).clone())

    def broadcast(
        self, f: Federation, state: FedDynState, t: int, clients: Tensor
    ) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        instructions.pull, instructions.constant = self.alpha, state.h_i[clients].neg_()
        return instructions

    def aggregate(
        self, f: Federation, state: FedDynState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        state.h_i[clients] -= self.alpha * result.update
        D, _ = f.channel.send("up", clients, result.update)
        weights = reweigh_mean(f, state, clients, state.h)
        share = weighted_sum(weights, D)
        h = state.h.sub_(share, alpha=self.alpha)
        mean = (share.double() / weights.sum()).to(h)
        f.server.step(mean - h / self.alpha)
