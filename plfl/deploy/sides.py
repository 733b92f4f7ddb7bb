"""The two ends of the channel, and what each side knows of the other: nothing.

Both sides run the same method. A client's `down` receives what the server's `down` sent, the
server's `up` receives what the client's `up` sent. Before and after that each side also walks
through the other's part of the method, on values that are not a number wherever only the other
side has them. So if any update used what it cannot have, its result would show it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plfl.calibration import calibrate
from plfl.channel import Channel, Direction
from plfl.deploy.wire import WireError
from plfl.federation import Federation
from plfl.fleet import Fleet
from plfl.methods import Done, Local
from plfl.study import Federation as Settings
from plfl.training import LocalTask

Rows = list[Tensor]
"""What crosses for one client: its row of every array, shared parameters first."""


class Sent(Exception):  # noqa: N818 - it is no error
    """A client has sent what it had to; what follows is the server's part."""

    def __init__(self, rows: Rows):
        super().__init__("a client has sent what it had to")
        self.rows = rows


class ClientChannel(Channel):
    """The client's end. It has one client, which has the index 0."""

    inbox: Rows
    """What the server has sent for this round."""

    def carry(self, direction: Direction, clients: Tensor, rows: Rows) -> Rows:
        """Down: what has arrived, whatever this side would have sent. Up: raise `Sent`."""
        if direction == "up":
            raise Sent([row[0].clone() for row in rows])
        check("what the server sent", self.inbox[:1], rows[:1])
        return [row[None].to(clients.device) for row in self.inbox]


class ServerChannel(Channel):
    """The server's end: down into the outbox, up from the inbox, in the order of the clients."""

    def __init__(self, shared: int, names: Sequence[str]):
        super().__init__(shared, len(names))
        self.names = names
        self.outbox: dict[int, Rows] = {}
        self.inbox: dict[int, Rows] = {}

    def carry(self, direction: Direction, clients: Tensor, rows: Rows) -> Rows:
        """Down: post `rows`, and return what nobody on this side can know. Up: what arrived."""
        numbers = clients.tolist()
        if direction == "down":
            self.outbox |= {i: [r[n].clone() for r in rows] for n, i in enumerate(numbers)}
            return [_unknown(row) for row in rows]
        for n, i in enumerate(numbers):
            check(
                f"what client {self.names[i]} sent", self.inbox[i], [row[n : n + 1] for row in rows]
            )
        return [
            torch.stack(of_all) for of_all in zip(*(self.inbox[i] for i in numbers), strict=True)
        ]


def check(what: str, found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Make sure that the rows found have the form of those expected, (1, ...) each.

    Raises:
        WireError: they have not.
    """
    forms = [(tuple(row.shape), row.dtype) for row in found]
    if forms != (wanted := [(tuple(row.shape[1:]), row.dtype) for row in expected]):
        raise WireError(f"{what} does not fit the method: {forms} instead of {wanted}")


@dataclass(frozen=True)
class Nowhere:
    """The engine of a server: nothing is trained or forecast there."""

    device = torch.device("cpu")
    dtype = torch.float32
    block = 1

    def train(self, task: LocalTask) -> Tensor:
        raise AssertionError("a server trains nothing")

    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        raise AssertionError("a server forecasts nothing")


class Roll(Fleet):
    """What the server knows of the clients: their names and how many training windows they have."""

    def __init__(self, names: Sequence[str], settings: Settings, seed: int):
        self.engine, self.settings, self.seed = Nowhere(), settings, seed
        self.names = list(names)
        self.windows = torch.full((len(self.names),), torch.nan, dtype=torch.float64)

    def gradients(self, rows: Tensor, clients: Tensor, t: int, steps: int) -> Tensor:
        return _unknown(rows)


def forget_clients(f: Federation) -> None:
    """Leave of a federation what a server has, and give it the server's end of the channel."""
    f.channel = ServerChannel(f.channel.shared, f.fleet.names)
    f.local.fill_(torch.nan)
    f.moments.clear()


def done_elsewhere(f: Federation, clients: Tensor, local: Local) -> Done:
    """What a server knows of what the `clients` did: only its form."""
    unknown = f.local.new_full((len(clients), f.channel.shared), torch.nan)
    return Done(
        local=local,
        steps=torch.zeros_like(clients),
        displacement=unknown,
        gradients=None if local.gradients == "none" else unknown.clone(),
    )


def alone(f: Federation) -> Federation:
    """Give the federation of a single client the client's end of the channel."""
    f.channel = ClientChannel(f.channel.shared, 1)
    return f


def calibrated(f: Federation, shared: Tensor, epochs: int) -> Tensor:
    """Models (N, P) with which clients begin late: the server's shared part, as it is, and personal
    parts (initially those of the initial model) that some passes over their own data have trained.

    Args:
        f: the federation.
        shared: shared parameters (N, d_s) as the server has sent them.
        epochs: number of passes.
    """
    models = f.models(f.everyone, shared)
    return calibrate(models, f.fleet, ~f.shared, f.client_opt, epochs=epochs)


def rows_as_arrays(rows: Sequence[Tensor]) -> dict[str, Tensor]:
    """Rows as the arrays of a message, numbered."""
    return {str(n): row for n, row in enumerate(rows)}


def arrays_as_rows(arrays: Mapping[str, Tensor]) -> Rows:
    """The rows that `rows_as_arrays` has numbered; other arrays of the message are left out."""
    return [arrays[name] for name in sorted((n for n in arrays if n.isdigit()), key=int)]


def _unknown(rows: Tensor) -> Tensor:
    return torch.full_like(rows, torch.nan if rows.is_floating_point() else -1)
