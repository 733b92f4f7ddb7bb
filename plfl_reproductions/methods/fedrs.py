"""FedRS restricts the softmax of each client: the logits of classes that a client does not have are
multiplied by α < 1. Local steps then change the weights of these classes less.

Source: Xin-Chun Li and De-Chuan Zhan, "FedRS: Federated Learning with Restricted Softmax for Label
Distribution Non-IID Data", KDD 2021, https://doi.org/10.1145/3447548.3467254.

down: x
client: its ClientOpt on −log softmax(s · z)_y with s = 1 for its own classes, α for others
up: D = y − x;  server: x ← ServerOpt(x, D̄)
"""

from dataclasses import dataclass, replace

from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.interfaces.terms import Restriction
from plfl.methods.fedopt import FedOpt


@dataclass
class FedRSState(MethodState):
    present: Tensor
    """Mask (N, classes) of the classes that each client has; its own knowledge, never sent."""


class FedRS(FedOpt):
    """Rounds with a restricted softmax."""

    name = "fedrs"
    sends = Sizes()
    only_task = "classify"

    alpha: float = Field(0.5, ge=0, le=1)
    """α, by which the logits of missing classes are multiplied (the paper and FedADC's baseline:
    0.5)."""

    def init(self, f: Federation) -> FedRSState:
        _, ratios = f.client_data.agreed_bins(bins=0)
        return FedRSState(present=ratios > 0)

    def broadcast(
        self, f: Federation, state: FedRSState, t: int, clients: Tensor
    ) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        return replace(instructions, term=Restriction(self.alpha, state.present))
