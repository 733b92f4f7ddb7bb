"""FedOpt is the plain round of federated learning: the server sends its parameters, clients train
for some local steps, and the server treats the mean of their updates as a gradient, which any
server optimiser may use. With the server optimiser `fedavg` this is FedAvg. It is also the method
of the PL-FL paper's P1 and P2.

Source: Sashank J. Reddi, Zachary Charles, Manzil Zaheer, Zachary Garrett, Keith Rush, Jakub
Konečný, Sanjiv Kumar and H. Brendan McMahan, "Adaptive Federated Optimization", ICLR 2021,
https://arxiv.org/abs/2003.00295.

down: x;  client: K steps of its ClientOpt from x;  up: D = y − x;  server: x ← ServerOpt(x, D̄)
"""

from typing import Any

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Method, Sizes


class FedOpt(Method):
    """A step of the ServerOpt along the clients' mean update, without hyperparameters."""

    name = "fedopt"
    sends = Sizes()
    uses_updates_only = True

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        return TrainInstructions(f.send_parameters(clients))

    def aggregate(
        self, f: Federation, state: Any, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        D, _ = f.channel.send("up", clients, result.update)
        f.server.receive(clients, D, f.weights_of(clients), t)
