"""FedOpt (Reddi et al., ICLR 2021), the plain round: also FedAvg, and the paper's P1 and P2.

down: x;  client: K steps of its ClientOpt from x;  up: D = y − x;  server: x ← ServerOpt(x, D̄)
"""

from typing import TYPE_CHECKING

from plfl.methods import Done, Local, Method

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation


class FedOpt(Method):
    """The ServerOpt along the clients' mean displacement. It has no parameters of its own."""

    name = "fedopt"

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        x, _ = f.channel.send("down", clients, f.server_opt.send(f.server_state, clients))
        return Local(x)

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        D, _ = f.channel.send("up", clients, done.displacement)
        f.server_opt.receive(f.server_state, clients, D, f.weights_of(clients), t)

    def held(self, f: "Federation") -> "Tensor":
        return f.server_opt.send(f.server_state, f.everyone)
