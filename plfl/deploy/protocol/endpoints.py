"""The two ends of the channel, and a message between them as bytes. Each side knows only what it
has received from the other.

Both sides run the same method from beginning to end. Downwards, the client's channel returns what
the server's channel sent; upwards, the server's channel returns what the clients' channels sent.
Each side also executes the steps of the method that belong to the other side. Values that only the
other side has are NaN, so an update that used them would be NaN.

Messages are in the safetensors format: named arrays, in their memory layout, little-endian, and a
few fields. Received bytes are never executed, and bytes that are not a message are refused.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, cast

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.base.errors import PlflError
from plfl.data import covariates
from plfl.federated.channel import Channel, Column, MaskedSum, sum_fields, with_check
from plfl.federated.client_data import ClientData
from plfl.federated.codecs.coder import Coder, Direction
from plfl.federated.federation import Federation
from plfl.federated.local_training import Cohort
from plfl.federated.secure.encryption import Secrets, SystemSecrets
from plfl.federated.secure.sums import SumClient
from plfl.federated.secure.updates import CROWD_BYTES, Crowd
from plfl.study import Study
from plfl.training.work import Engine

_ABOUT = "plfl"
_HEADER = 8
"""Number of bytes for the length of the safetensors header."""


RequestKind = Literal["join", "train", "exchange", "evaluate"]
"""What the server asks of a client."""
_Continued = TypedDict("_Continued", {"from": int}, total=False)


class WorkFacts(TypedDict, total=False):
    """What some messages to a client ask for in particular."""

    round: int
    """The round to train."""
    machines: tuple[int, int] | None
    """The place of the client among those that train together, and how many they are."""
    after: str
    """The answer that the message continues."""


class RequestFacts(WorkFacts, _Continued, total=False):
    """The facts of a message to a client; `from` is the round after which it continues. Those of
    answers are `plfl.deploy.protocol.answers.Facts`, or an `error` alone."""

    kind: RequestKind
    run: str
    epoch: int
    """How often the server has started in this run."""
    request: str
    """The number of the message."""
    agreement: str
    """The fingerprint of the study and the cell."""


class MessageError(PlflError):
    """Bytes that are not a message, or a message with unexpected content."""


@dataclass(frozen=True)
class Message:
    """A message from one side to the other."""

    about: Mapping[str, Any]
    """Facts, as JSON values: `RequestFacts`, or those of an answer."""
    arrays: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def request(self) -> RequestFacts:
        """The facts of a message to a client."""
        return cast(RequestFacts, self.about)

    def pack(self) -> bytes:
        """The message as bytes."""
        about = {_ABOUT: json.dumps(self.about, separators=(",", ":"))}
        arrays = {name: array.detach().cpu().contiguous() for name, array in self.arrays.items()}
        return safetensors.torch.save(arrays, about)

    @classmethod
    def unpack(cls, data: bytes) -> Message:
        """The inverse of `pack`, bit for bit.

        Raises:
            MessageError: `data` is not a message.
        """
        try:
            arrays = safetensors.torch.load(data)
            length = int.from_bytes(data[:_HEADER], "little")
            header = json.loads(data[_HEADER : _HEADER + length])
            about = json.loads(header["__metadata__"][_ABOUT])
        except Exception as error:  # arbitrary bytes can raise almost anything
            raise MessageError(f"{len(data)} bytes are not a plfl message: {error}") from None
        if not isinstance(about, dict):
            raise MessageError(f"{len(data)} bytes are not a plfl message: its facts are missing")
        return cls(about, arrays)


RowList = list[Tensor]
"""The rows that cross the channel for one client, one of each array, shared parameters first."""


class ClientSent(Exception):  # noqa: N818 - not an error
    """The client has sent its rows; the server executes the rest of the method."""

    def __init__(self, rows: RowList):
        super().__init__("the client has sent its rows")
        self.rows = rows


class ClientChannel(Channel):
    """The client's end of the channel. Its only client has the index 0."""

    sends: frozenset[Direction] = frozenset({"up"})
    receives: frozenset[Direction] = frozenset({"down"})
    inbox: RowList
    """The rows that the server sent for this round."""

    keep: Callable[[], None] = staticmethod(lambda: None)
    """Saves the client's state, before its masked numbers are sent."""

    def add_masked(
        self,
        purpose: str,
        clients: Tensor,
        weight: float,
        numbers: Callable[[Crowd], NDArray[np.int64]],
        width: int,
    ) -> MaskedSum:
        """Send the whole numbers (1, width) of this client, masked, and raise `ClientSent`."""
        if not self.sends:  # `expected_messages`; they are checked one by one
            raise ClientSent([])
        assert self.secrets is not None
        self._commit("sender", clients)
        member, fields = SumClient(self.secrets, purpose, 0), sum_fields(width)

        def ask(message: bytes) -> bytes:
            self.send_messages("up", clients, [message], _no_check)
            return self.send_messages("down", clients, [b""], _no_check)[0]

        crowd_message = ask(member.introduce())
        crowd = Crowd.unpack(crowd_message)
        sealed = ask(member.share(crowd_message[CROWD_BYTES:]))
        self.keep()
        arrival_bits = ask(member.hide(sealed, fields, with_check(numbers(crowd))[0]))
        raise ClientSent([as_row(member.reveal_shares(arrival_bits))])

    def carry(self, direction: Direction, clients: Tensor, rows: list[Column]) -> list[Column]:
        """Down: the rows that arrived, in place of `rows`. Up: raise `ClientSent`."""
        if direction == "up":
            raise ClientSent([row[0].clone() for row in rows])
        check("the server's message", self.inbox[:1], rows[:1])
        return [row[None].to(clients.device) for row in self.inbox]


class ServerChannel(Channel):
    """The server's end of the channel: sends to the outbox and receives from the inbox.

    Both hold one entry per client, by index.
    """

    sends: frozenset[Direction] = frozenset({"down"})
    receives: frozenset[Direction] = frozenset({"up"})

    def __init__(
        self,
        shared_count: int,
        client_count: int,
        coder: Coder | None = None,
        secrets: Secrets | None = None,
    ):
        super().__init__(shared_count, client_count, coder, secrets)
        self.outbox: dict[int, RowList] = {}
        self.inbox: dict[int, RowList] = {}
        self.masked_sum: MaskedSum | None = None
        """The sum of the round, with `channel.secure`."""

    def add_masked(
        self,
        purpose: str,
        clients: Tensor,
        weight: float,
        numbers: Callable[[Crowd], NDArray[np.int64]],
        width: int,
    ) -> MaskedSum:
        """The sum that the server has made of the clients' messages."""
        assert self.masked_sum is not None
        self._commit("receiver", clients)
        return self.masked_sum

    def carry(self, direction: Direction, clients: Tensor, rows: list[Column]) -> list[Column]:
        """Down: put `rows` in the outbox and return unknown values. Up: the rows in the inbox."""
        numbers = clients.tolist()
        if direction == "down":
            self.outbox |= {i: [r[n].clone() for r in rows] for n, i in enumerate(numbers)}
            return [_unknown(row) if isinstance(row, Tensor) else row for row in rows]
        received_rows = zip(rows, zip(*(self.inbox[i] for i in numbers), strict=True), strict=True)
        return [
            torch.stack(parts) if isinstance(row, Tensor) else [*parts]
            for row, parts in received_rows
        ]


def check(subject: str, arrays: Sequence[Tensor], expected: Sequence[Column]) -> None:
    """Check that the received rows have the shapes and types of the expected ones, (1, ...) each.

    The lengths of coded messages are checked when they are decoded.
    """
    forms = [(tuple(row.shape), row.dtype) for row in arrays]
    expected_forms = [(tuple(row[0].shape), row[0].dtype) for row in expected]
    for n, (row, array) in enumerate(zip(expected, arrays, strict=False)):
        if not isinstance(row, Tensor) and array.dim() == 1:
            expected_forms[n] = (forms[n][0], torch.uint8)
    if forms != expected_forms:
        raise MessageError(
            f"{subject} does not fit the method: found {forms}, expected {expected_forms}"
        )


@dataclass(frozen=True)
class NoEngine:
    """The engine of a server, which neither trains nor forecasts."""

    device = torch.device("cpu")
    dtype = torch.float32
    is_random = False


class Roster(ClientData):
    """The server's knowledge of the clients: their names and their numbers of training windows.

    `window_counts` (N,) is NaN for a client that has not joined yet.
    """

    def __init__(self, names: Sequence[str], study: Study, seed: int):
        self.engine = cast(Engine, NoEngine())
        self.settings, self.seed, self.task = study.federation, seed, study.task
        self.names, self._study = list(names), study
        self.window_counts = torch.full((len(self.names),), torch.nan, dtype=torch.float64)

    def public_values(self, row_count: int) -> NDArray[np.float64]:
        data = self._study.data
        return covariates.public_values(self._study.windows, len(data.inputs), row_count)

    def gradients(
        self, rows: Tensor, clients: Tensor, t: int, steps: int | Tensor, skip: int = 0
    ) -> Tensor:
        return _unknown(rows)


def remove_client_knowledge(f: Federation) -> ServerChannel:
    """Turn a federation into the server's: remove everything that only clients know.

    Returns:
        The server's end of the channel.
    """
    secrets = None if f.channel.secrets is None else SystemSecrets()
    clients = len(f.client_data.names)
    f.channel = channel = ServerChannel(f.channel.shared_count, clients, f.channel.coder, secrets)
    f.local.fill_(torch.nan)
    f.moments.rows.clear()
    f.average = None
    return channel


def reported_part(cohort: Cohort, loss_and_steps: Mapping[int, tuple[float, float]]) -> Cohort:
    """The clients of a cohort that have `loss_and_steps` their mean loss and their steps, by index.

    Their other results are unknown; the server receives them when the cohort is closed.
    """
    reported_cohort = copy.copy(cohort)
    reported_cohort.clients = torch.tensor([*loss_and_steps])
    losses, steps = zip(*loss_and_steps.values(), strict=True)
    reported_cohort.losses = torch.tensor(losses, dtype=torch.float64)
    reported_cohort.steps = torch.tensor(steps, dtype=cohort.steps.dtype) - cohort.instructions.skip
    reported_cohort.update = _unknown(cohort.update[: len(loss_and_steps)])
    if cohort.gradients is not None:
        reported_cohort.gradients = reported_cohort.update.clone()
    return reported_cohort


def expected_messages(
    act: Callable[[Channel], object],
    shared_count: int,
    client_count: int,
    coder: Coder | None = None,
) -> RowList:
    """Shapes and types of the rows that each client has to send when `act` runs on the clients' end
    of a channel with this number of shared parameters and clients.

    For coded parameters it is the longest message.
    """
    end = ClientChannel(shared_count, client_count, coder)
    end.sends = frozenset()
    try:
        act(end)
    except ClientSent as sent:
        return sent.rows
    return []


def rows_as_arrays(rows: Sequence[Tensor]) -> dict[str, Tensor]:
    """Rows as the arrays of a message, named by their numbers."""
    return {str(n): row for n, row in enumerate(rows)}


def arrays_as_rows(arrays: Mapping[str, Tensor]) -> RowList:
    """The inverse of `rows_as_arrays`; ignores arrays with other names."""
    return [arrays[name] for name in sorted((n for n in arrays if n.isdigit()), key=int)]


def _no_check(_client: int, _message: bytes) -> None:
    """Of messages that the server checks."""


def as_row(data: bytes) -> Tensor:
    """Bytes as a row."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def as_bytes(row: Tensor) -> bytes:
    """The inverse of `as_row`."""
    return row.numpy().tobytes()


def _unknown(rows: Tensor) -> Tensor:
    """Rows of the same shape without information: NaN, or −1 for integers."""
    return torch.full_like(rows, torch.nan if rows.is_floating_point() else -1)
