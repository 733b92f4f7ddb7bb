"""FedSplit applies Peaceman–Rachford operator splitting to min Σ_i f_i. FedAvg and FedProx with
several local steps stop at points that are not minima of the common loss; FedSplit stops only where
Σ_i ∇f_i(x) = 0.

Source: Reese Pathak and Martin J. Wainwright, "FedSplit: an algorithmic framework for fast
federated optimization", NeurIPS 2020, https://arxiv.org/abs/2005.05238.

Client i keeps z_i, x_0 at first, and uses prox_i(v) = argmin_u f_i(u) + ‖u − v‖² / (2s):

down: x;  client: v = 2x − z_i;  u ≈ prox_i(v) by its local steps from u = x;
    U_i = 2 (u − x);  z_i ← z_i + U_i;  up: U_i
server: x ← x + (1/N) Σ_S U_i

x remains the mean of all z_i, whichever clients take part. Local steps that start at v instead of x
would end at a different fixed point. The paper's guarantees are for convex f_i.

Deviations: personal parameters take ordinary local steps. All clients have the same weight,
whatever `federation.weighting` is.
"""

from dataclasses import dataclass

from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt


@dataclass
class FedSplitState(MethodState):
    z: Tensor
    """z_i (N, d_s) of each client."""


class FedSplit(FedOpt):
    """Operator splitting, which has exact fixed points with any number of local steps."""

    name = "fedsplit"
    sends = Sizes()
    no_proximal = "the proximal term would be added twice"
    no_coded_update = "x is the mean of the z_i only as long as both ends add the same updates"
    own_server = "its server holds the mean of the z_i"

    s: float = Field(1.0, gt=0)
    """Step size s of the proximal operator; in theory 1/√(ℓL) for ℓ-strongly convex, L-smooth
    losses."""

    def init(self, f: Federation) -> FedSplitState:
        return FedSplitState(z=f.x0.expand(len(f.everyone), -1).clone())

    def broadcast(
        self, f: Federation, state: FedSplitState, t: int, clients: Tensor
    ) -> TrainInstructions:
        x, _ = f.channel.send("down", clients, f.server.send(clients))
        # (u − v) / s is the sum of a pull towards the start x and a constant.
        constant = (state.z[clients] - x) / self.s
        return TrainInstructions(x, pull=1 / self.s, constant=constant)

    def aggregate(
        self, f: Federation, state: FedSplitState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        U = 2 * result.update
        state.z[clients] += U
        U, _ = f.channel.send("up", clients, U)
        # Summed in double precision, so that the order of the clients does not matter.
        mean = (U.double().sum(0) / len(f.everyone)).to(U.dtype)
        f.server.step(mean)
