"""FedProx adds a proximal term to each client's loss. It pulls local steps back to the server's
parameters, so that clients with unusual data do not drift far away in a round.

Source: Tian Li, Anit Kumar Sahu, Manzil Zaheer, Maziar Sanjabi, Ameet Talwalkar and Virginia Smith,
"Federated Optimization in Heterogeneous Networks", MLSys 2020, https://arxiv.org/abs/1812.06127.

down: x;  client: K steps of its ClientOpt along g + μ (y − x);  up: D = y − x;
server: x ← ServerOpt(x, D̄)

The term is the gradient of μ/2 ‖y_shared − x‖² and is part of the gradient that the ClientOpt sees.
With `sgd` this is the same as the ClientOpt `prox`, with `adam` the same as `proxadam`, and with
μ = 0 the same as `fedopt`.
"""

from typing import Any

from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Sizes
from plfl.methods.fedopt import FedOpt


class FedProx(FedOpt):
    """The plain round with a proximal term in the clients' gradients, for any ClientOpt."""

    name = "fedprox"
    sends = Sizes()
    uses_updates_only = True
    no_proximal = "the proximal term would be added twice"

    mu: float = Field(0.01, ge=0)
    """Strength μ of the proximal term, in loss per parameter² (FedADC's baselines: 0.1, 0.01 or
    0.001)."""

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        instructions.pull = self.mu
        return instructions
