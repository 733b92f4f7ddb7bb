"""The only connection between clients and server, which counts the bytes that cross it."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.federated.codecs.coder import Coder, Direction, End
from plfl.federated.secure.encryption import Secrets
from plfl.federated.secure.masks import CHECK_BYTES, Fields, Lanes, check_number
from plfl.federated.secure.sums import SumClient, SumServer
from plfl.federated.secure.updates import BITS, CROWD_BYTES, Crowd

Column = Tensor | list[Tensor]
"""An array with one row per client, or the coded message of each client, of type uint8."""
Traffic = dict[str, NDArray[np.int64]]
"""Bytes (N,) that each client received and sent, `bytes_down` and `bytes_up`, and how many of them
were extras, `extras_down` and `extras_up`."""
Check = Callable[[int, bytes], None]
"""Raises `ValueError` for a message of the client with this number that must not be used."""


LOWEST_LEVEL = -(2 ** (BITS - 1))
"""The least number that a sum of masked numbers can be."""


class MaskedSum(NamedTuple):
    """A sum of clients' whole numbers, which were masked."""

    numbers: NDArray[np.int64]
    """The sum (width,)."""
    crowd: Crowd
    """Those who began it."""
    clients: Tensor
    """Those whose numbers are in it (n,)."""


def sum_fields(width: int) -> Fields:
    """The fields of this many numbers of a masked sum, and of their check number."""
    return Fields(np.array([BITS] * width + [CHECK_BYTES], np.uint8))


def with_check(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers (n, width) of clients, with the check number of each."""
    return np.column_stack([numbers, [check_number(row) for row in numbers]])


def read_sum(fields: Fields, lanes: Lanes) -> NDArray[np.int64]:
    """The numbers (width,) of a masked sum.

    Raises:
        ValueError: they do not fit their check number.
    """
    numbers = fields.decode(lanes, LOWEST_LEVEL)[:-1]
    if check_number(numbers) != int(lanes[-1]):
        raise ValueError("the sums of clients do not fit their check number")
    return numbers


class OtherMachines(NamedTuple):
    """The machines of other clients that grow a tree with those of this one, as this one sees them.
    It is a client's, or the server's, which takes the place of the first one."""

    place: int
    """The place of the machine among those of the clients."""
    client_count: int
    """Number of all clients."""
    clients: Tensor
    """Those whose messages pass this machine (n,)."""
    exchange: Callable[[Direction, Sequence[bytes], Check], list[bytes]]
    """Carries the messages of this side to the other one; returns those that arrive here."""


class Channel:
    """Carries messages of one federation and counts their bytes, per client and direction.

    A message is one row of shared parameters per client, plus extras: further arrays or scalars
    that an algorithm sends. The receiver gets a copy and may use nothing else. Here both sides are
    in one process; the channels of `plfl.deploy` connect different machines. A coder codes the
    shared parameters within the rounds (docs/channel.md).
    """

    sends: frozenset[Direction] = frozenset(("down", "up"))
    """Directions whose sender is on this side."""
    receives: frozenset[Direction] = frozenset(("down", "up"))
    """Directions whose receiver is on this side."""

    other_machines: OtherMachines | None = None
    """The machines of the clients, if these grow a tree on several ones."""

    def __init__(
        self,
        shared_count: int,
        client_count: int,
        coder: Coder | None = None,
        secrets: Secrets | None = None,
    ):
        self.shared_count, self.client_count, self.coder = shared_count, client_count, coder
        self.secrets = secrets
        """Where random numbers of secure aggregation come from; None without it."""
        self._traffic = self._blank()

    def _blank(self) -> Traffic:
        kinds = ("bytes_down", "bytes_up", "extras_down", "extras_up")
        return {kind: np.zeros(self.client_count, dtype=np.int64) for kind in kinds}

    def send(
        self,
        direction: Direction,
        clients: Tensor,
        parameters: Tensor,
        extras: Sequence[Tensor | float] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Carry `parameters` (n, d_s) and `extras` to or from `clients` (n,). `extras` go with
        every one of these messages: arrays with one row per client, or scalars.

        Returns the parameters and the extras as they arrive; a scalar becomes (n,), in float32.
        ValueError: `parameters` is not one row of d_s shared parameters per client, so that
        personal parameters, or those of another client, would have crossed.
        """
        if parameters.shape != (len(clients), self.shared_count):
            raise ValueError(
                f"cannot send parameters of shape {tuple(parameters.shape)} {direction}: the "
                f"channel carries {self.shared_count} shared parameters for each of {len(clients)} "
                "clients"
            )
        rows = [_rows(extra, clients) for extra in extras]
        # Nothing is coded before round 1.
        coder = self.coder if self.coder is not None and self.coder.round else None
        is_coded = coder is not None and coder.codes(direction)
        column: Column = parameters
        if coder is not None and is_coded:
            # An end that only receives passes a placeholder through the steps of the sender.
            if direction in self.sends:
                column = coder.encode(direction, clients, parameters)
            else:
                column = coder.blank(direction, clients)
        # The memories of both directions follow the uploads, coded or not.
        if direction == "up":
            self._commit("sender", clients)
        received_column, *extras_arrived = self.carry(direction, clients, [column, *rows])
        counted = received_column if is_coded and direction not in self.sends else column
        self._count(direction, clients, [counted, *rows], rows)
        if coder is not None and is_coded:
            if direction in self.receives:
                received_column = coder.decode(
                    direction, clients, received_column, template=parameters
                )
            else:
                received_column = torch.full_like(parameters, torch.nan)
        if direction == "up":
            self._commit("receiver", clients)
        assert isinstance(received_column, Tensor)
        return received_column, _tensors(extras_arrived)

    def parameter_bytes(self, direction: Direction, parameters: Tensor) -> int:
        """The most bytes of the shared `parameters` (d_s,) in a message of a round."""
        if self.coder is not None and self.coder.codes(direction):
            return self.coder.most_bytes(direction)
        return parameters.nbytes

    def send_extras(
        self, direction: Direction, clients: Tensor, extras: Sequence[Tensor | float]
    ) -> list[Tensor]:
        """Carry and count `extras`, as `send` does, without parameters."""
        rows = [_rows(extra, clients) for extra in extras]
        self._count(direction, clients, rows, rows)
        return _tensors(self.carry(direction, clients, [*rows]))

    def send_messages(
        self, direction: Direction, clients: Tensor, messages: Sequence[bytes], check: Check
    ) -> list[bytes]:
        """Count messages of any length, one for each of `clients`; return those that arrive, in a
        simulation the same. `check`: of messages from other machines."""
        if self.other_machines is not None:
            clients = self.other_machines.clients
            messages = self.other_machines.exchange(direction, messages, check)
        self.count_messages(direction, clients, messages)
        return [*messages]

    def count_messages(
        self, direction: Direction, clients: Tensor, messages: Sequence[bytes]
    ) -> None:
        """Count messages of any length, one for each of `clients` (n,)."""
        sizes = np.array([len(message) for message in messages], dtype=np.int64)
        for kind in ("bytes", "extras"):
            self._traffic[f"{kind}_{direction}"][clients.cpu().numpy()] += sizes

    def add_masked(
        self,
        purpose: str,
        clients: Tensor,
        weight: float,
        numbers: Callable[[Crowd], NDArray[np.int64]],
        width: int,
    ) -> MaskedSum:
        """Add whole numbers (n, width) of `clients` (n,), masked, and count what that takes.

        `weight`: of all clients of the federation. `numbers`: theirs, for a crowd of this size and
        weight.
        """
        assert self.secrets is not None
        self._commit("sender", clients)
        places = clients.tolist()
        crowd = Crowd(len(places), weight)
        server = SumServer(self.secrets, purpose, len(places))
        sum_clients = [SumClient(self.secrets, purpose, place) for place in places]
        fields = sum_fields(width)

        def carry(direction: Direction, messages: Sequence[bytes]) -> list[bytes]:
            return self.send_messages(direction, clients, messages, lambda client, message: None)

        publics = carry("up", [sum_client.introduce() for sum_client in sum_clients])
        introductions = carry(
            "down", [crowd.pack() + neighbour_keys for neighbour_keys in server.pass_on(publics)]
        )
        public_keys = [message[CROWD_BYTES:] for message in introductions]
        share_messages = carry(
            "up",
            [
                m.share(neighbour_keys)
                for m, neighbour_keys in zip(sum_clients, public_keys, strict=True)
            ],
        )
        sealed = carry("down", server.deliver(share_messages))
        rows = zip(sum_clients, sealed, with_check(numbers(crowd)), strict=True)
        masked_rows = carry(
            "up", [member.hide(sealed_shares, fields, row) for member, sealed_shares, row in rows]
        )
        bits_of_place = server.add(dict(enumerate(masked_rows)), fields)
        arrival_bits = carry("down", [bits_of_place[n] for n in range(len(places))])
        answers = carry(
            "up", [m.reveal_shares(bits) for m, bits in zip(sum_clients, arrival_bits, strict=True)]
        )
        lanes = server.unmask(dict(enumerate(answers)), fields)
        self._commit("receiver", clients)
        return MaskedSum(read_sum(fields, lanes), crowd, clients)

    def _commit(self, end: End, clients: Tensor) -> None:
        """Let an end's memory follow the uploads of `clients`, if messages are coded."""
        if self.coder is not None and self.coder.round:
            self.coder.commit(end, clients)

    def count_exchanging(self, clients: Sequence[int]) -> int:
        """How many clients exchange messages while `clients` do, those on other machines
        included."""
        return len(clients) if self.other_machines is None else self.other_machines.client_count

    def crowd_numbers(self, clients: Sequence[int]) -> tuple[int, ...]:
        """The numbers of those who exchange messages while `clients` do, those on other machines
        included as far as their messages pass this one."""
        if self.other_machines is None:
            return tuple(clients)
        return tuple(self.other_machines.clients.tolist())

    def carry(self, direction: Direction, clients: Tensor, rows: list[Column]) -> list[Column]:
        """Carry `rows`, columns with one row per client of `clients`; return what arrives."""
        return [_copy(row) for row in rows]

    def _count(
        self,
        direction: Direction,
        clients: Tensor,
        rows: Sequence[Column],
        extras: Sequence[Column],
    ) -> None:
        for kind, kind_rows in (("bytes", rows), ("extras", extras)):
            size = sum((_sizes(row) for row in kind_rows), np.zeros(len(clients), dtype=np.int64))
            self._traffic[f"{kind}_{direction}"][clients.cpu().numpy()] += size

    @property
    def traffic(self) -> Traffic:
        """What has crossed since `close_round` was last called; a copy."""
        return {kind: counts.copy() for kind, counts in self._traffic.items()}

    def close_round(self) -> Traffic:
        """What has crossed since the last call; the counts start again from zero."""
        traffic, self._traffic = self._traffic, self._blank()
        return traffic


def _sizes(rows: Column) -> NDArray[np.int64]:
    """Bytes (n,) of the row of each client."""
    if isinstance(rows, Tensor):
        return np.full(len(rows), math.prod(rows.shape[1:]) * rows.element_size())
    return np.array([row.nbytes for row in rows], dtype=np.int64)


def _tensors(columns: list[Column]) -> list[Tensor]:
    """Columns without coded messages."""
    return [column for column in columns if isinstance(column, Tensor)]


def _copy(rows: Column) -> Column:
    """A copy of rows; a row that is the same for all clients is stored once."""
    if not isinstance(rows, Tensor):
        return [row.clone() for row in rows]
    if len(rows) > 1 and rows.stride(0) == 0:
        return rows[:1].clone().expand_as(rows)
    return rows.clone(memory_format=torch.contiguous_format)


def _rows(extra: Tensor | float, clients: Tensor) -> Tensor:
    """One row of `extra` for each client."""
    if isinstance(extra, Tensor):
        return extra
    return torch.full((len(clients),), extra, dtype=torch.float32, device=clients.device)
