"""The server, which combines the messages of clients, and the operations of their LightGBMs."""

import math
import zlib
from collections.abc import Callable, Sequence
from ctypes import memmove, memset, string_at
from itertools import count as numbered
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from plfl.federated.channel import Channel
from plfl.federated.collectives.bounds import Bounds
from plfl.federated.collectives.interface import GATHER, SCATTER
from plfl.federated.collectives.masked import MaskedSums
from plfl.federated.collectives.message_layout import ROOT_TYPE, SPLIT, SPLITS_BYTES
from plfl.federated.collectives.messages import (
    EMPTY,
    NUMBER_TYPES,
    Floats,
    add_up_packed,
    compress,
    contents_of,
    inflate,
    pack,
    stored_numbers,
)

Combine: TypeAlias = Callable[[Sequence[bytes]], Sequence[bytes]]
"""What the server makes of a message of each client: an answer for each."""


class GoneError(Exception):
    """Another client is gone."""


class SumNoise(NamedTuple):
    """Gaussian noise on the sums over clients, as in `plfl.federated.privacy.accounting`."""

    multiplier: float
    """z: its standard deviation as a multiple of the most, in norm, that a window adds to a sum."""
    draws: np.random.Generator

    def add_to(self, total: Floats, largest_sum: float) -> Floats:
        """Whole numbers near a sum of such, to which a window adds `largest_sum`."""
        deviation = self.multiplier * largest_sum
        return np.rint(total + deviation * self.draws.standard_normal(total.shape))


class Server:
    """Combines the messages of clients, which are threads of their own."""

    def __init__(
        self,
        channel: Channel,
        clients: Sequence[int],
        bins: Sequence[int] = (),
        noise: SumNoise | None = None,
        bounds: Bounds | None = None,
        masked: MaskedSums | None = None,
    ):
        """`clients`: their numbers on the channel; here they are numbered from 0. `bins`: how many
        each input has. `noise`: only for gradients that are whole numbers of at most 1. `bounds`:
        of messages from other machines, if there are any. `masked`: hides the numbers of single
        clients."""
        self.channel, self.numbers = channel, torch.tensor(clients)
        self.bins, self.noise, self.bounds = np.array(bins), noise, bounds
        self.masked = masked
        self.first, self.clients = (channel.other_machines or (0, len(clients)))[:2]
        """The place of the first client here among all that grow the tree, and their number."""
        self.failed: dict[int, Exception] = {}
        """What went wrong in the operations of a client: LightGBM cannot pass it on."""
        self.is_left = False
        """Whether a client is gone, so that no exchange is completed any more."""
        self.tree: Any = None
        """What the clients have grown, as soon as the first of them has read it."""
        self._messages = [b""] * len(clients)
        self._combine: Combine = list
        self._are_counts = False
        """Whether the numbers of the next messages are counts, and not pairs of a sum and one."""
        self._are_splits = False
        """Whether the next messages are splits, which follow from sums alone."""
        self._arrivals = numbered(1)
        self._gates: list[SimpleQueue[None]] = [SimpleQueue() for _ in clients]

    def _combine_all(self) -> None:
        # One client does this while the others wait.
        messages = self.channel.send_messages("up", self.numbers, self._messages, self._check)
        self._are_counts = self._are_splits = False
        # Only the server has the messages of all.
        is_server = "up" in self.channel.receives
        answers = self._combine(messages) if is_server else [b""] * len(messages)
        self._messages = self.channel.send_messages("down", self.numbers, answers, self._check)

    def exchange(self, client: int, message: bytes, combine: Combine) -> bytes:
        """Send a message, wait for those of all other clients, and return the answer.

        Raises:
            GoneError: a client is gone.
        """
        if self.is_left:
            raise GoneError
        # No client sends its next message before all have sent this one, and none is combined
        # before all clients have read the last answer.
        self._messages[client], self._combine = message, combine
        if next(self._arrivals) % len(self._gates) == 0:
            self._combine_all()
            self._gates[0].put(None)
        # Each wakes the next one: if all woke at once, they would fight for the interpreter.
        self._gates[client].get()
        if client + 1 < len(self._gates):
            self._gates[client + 1].put(None)
        if self.is_left:
            raise GoneError
        return self._messages[client]

    def agree(self, client: int) -> None:
        """Agree on keys with other clients, if messages are masked."""
        if self.masked is not None:
            key = self.masked.introduce(client)
            self.masked.meet(client, self.exchange(client, key, self.masked.pass_on))

    def add(self, client: int, numbers: Floats) -> Floats:
        """The sum of the clients' counts, in the order of clients."""

        def combine(messages: Sequence[bytes]) -> list[bytes]:
            total = self._noisy(self._sum(messages, len(numbers), are_counts=True), 1)
            return self._close([pack(total)] * self.clients)

        self._are_counts = True
        message = self._pack(client, numbers, are_counts=True)
        return add_up_packed(self._open(client, self.exchange(client, message, combine)))

    def _pack(self, client: int, numbers: Floats, *, are_counts: bool = False) -> bytes:
        if self.masked is not None:
            return self.masked.hide(client, numbers, are_counts=are_counts)
        return pack(numbers)

    def _sum(self, messages: Sequence[bytes], count: int, *, are_counts: bool = False) -> Floats:
        if self.masked is not None:
            total: Floats = self.masked.add(messages, count, are_counts=are_counts)
            return total
        return add_up_packed(*messages)

    def _open(self, client: int, answer: bytes) -> bytes:
        return answer if self.masked is None else self.masked.open(client, answer)

    def _close(self, answers: Sequence[bytes], *, has_bits: bool = True) -> list[bytes]:
        """Answers with what the clients need to know for masked messages, if these are."""
        if self.masked is None:
            return [*answers]
        return self.masked.close(answers, has_bits=has_bits)

    def _check(self, client: int, message: bytes) -> None:
        """Check the message of a client on another machine, of this number, against that of one
        here, and against what its windows allow.

        Raises:
            ValueError: it has another size, or numbers that no windows have.
        """
        assert self.bounds is not None
        kind, mine = message[:1], self._messages[0]
        if self.masked is not None and not self._are_splits:
            if len(message) != len(mine):  # all else is hidden
                raise ValueError(f"it does not have {len(mine)} bytes")
            return
        if mine[0] < len(NUMBER_TYPES):
            if not kind or kind[0] >= len(NUMBER_TYPES):
                raise ValueError("it has no numbers")
            width = np.dtype(NUMBER_TYPES[kind[0]])
            content = inflate(message[1:], len(add_up_packed(mine)) * width.itemsize)
            numbers = stored_numbers(content, kind[0]).astype(float)
            if self._are_counts:
                is_sound = self.bounds.hold_for_counts(client, numbers)
            else:
                pairs = numbers.reshape(-1, 2)
                is_sound = self.bounds.hold_for_sums(client, pairs, len(self.bins))
        elif len(content := inflate(message, len(zlib.decompress(mine)))) == ROOT_TYPE.itemsize:
            is_sound = self.bounds.hold_for_root(client, np.frombuffer(content, ROOT_TYPE)[0])
        else:
            is_sound = bool(self._are_sound(np.frombuffer(content, SPLIT)).all())
        if not is_sound:
            raise ValueError("it has implausible numbers")

    def _are_sound(self, splits: Any) -> NDArray[np.bool_]:
        """Which splits are none, or divide some windows at a bin that an input has."""
        feature, bins = splits["feature"], self.bins
        exists = (feature >= 0) & (feature < len(bins))
        fits = splits["threshold"] < bins[np.where(exists, feature, 0)]
        assert self.bounds is not None and self.channel.other_machines is not None
        divides = self.bounds.hold_for_splits(self.channel.other_machines.clients.numpy(), splits)
        has_no_split = splits["gain"] == -np.inf
        return np.asarray((splits["categories"] == 0) & (has_no_split | exists & fits & divides))

    def _noisy(self, total: Floats, largest_sum: float) -> Floats:
        return total if self.noise is None else self.noise.add_to(total, largest_sum)

    def _root(self, messages: Sequence[bytes]) -> list[bytes]:
        """The sum of all clients' numbers in the place of the first one's, since each client adds
        them up; zeros in those of the others."""
        total = np.zeros(self.clients, ROOT_TYPE)
        if self.masked is not None:
            total[0] = self.masked.add_roots(messages)
            return self._close([compress(total.tobytes())] * self.clients)
        roots = np.frombuffer(b"".join(map(zlib.decompress, messages)), ROOT_TYPE)
        for name in total.dtype.fields or ():
            for number in roots[name]:  # as LightGBM adds them
                total[name][0] += number
        if self.noise is not None:
            sums = np.array([total["gradient"][0], total["count"][0]], float)
            total["gradient"][0], count = self.noise.add_to(sums, math.sqrt(2))
            total["hessian"][0] = total["count"][0] = max(count, 1)
        return [compress(total.tobytes())] * self.clients

    def _splits(self, messages: Sequence[bytes]) -> list[bytes]:
        """The best of the splits of each of two leaves, in the place of each."""
        best = best_splits(messages)
        if self.masked is not None:
            self.masked.growth.add_splits(np.frombuffer(best, SPLIT))
        return self._close([compress(best)] * len(messages))

    def leave(self) -> None:
        """A client is gone: every exchange from now on fails."""
        self.is_left = True
        for gate in self._gates:
            gate.put(None)

    def check(self, client: int) -> None:
        """After LightGBM has grown a tree, raise what went wrong in its operations.

        Raises:
            GoneError: another client is gone.
            Exception: this client failed.
        """
        if client in self.failed:
            raise self.failed[client]
        if self.is_left:
            raise GoneError

    def _give_up(self, client: int, error: Exception) -> None:
        if not isinstance(error, GoneError):
            self.failed[client] = error
            self.leave()

    def functions(self, client: int) -> tuple[Any, Any]:
        """The reduce-scatter and the all-gather of a client's LightGBM."""

        def scatter(
            data: int, size: int, _width: int, starts: Any, lengths: Any, *arguments: Any
        ) -> None:
            """The sum of all histograms; a client needs the features that it searches."""
            count, target, out_size = arguments[:3]

            def combine(messages: Sequence[bytes]) -> list[bytes]:
                # A window adds a gradient and 1 to one bin of each feature.
                largest_sum = math.sqrt(2 * len(self.bins))
                total = self._noisy(self._sum(messages, size // 8), largest_sum)
                begins = [starts[k] // 8 for k in range(count)]
                parts = [total[b : b + lengths[k] // 8] for k, b in enumerate(begins)]
                answers = [pack(part) if len(part) else EMPTY for part in parts]
                return self._close(answers, has_bits=False)

            try:
                message = self._pack(client, np.frombuffer(string_at(data, size), np.float64))
                part = add_up_packed(self._open(client, self.exchange(client, message, combine)))
                memmove(target, part.tobytes(), lengths[self.first + client])
            except Exception as error:
                self._give_up(client, error)
                memset(target, 0, out_size)

        def gather(
            data: int,
            size: int,
            _starts: Any,
            _lengths: Any,
            _count: int,
            target: int,
            out_size: int,
        ) -> None:
            """The messages of all clients; of splits, the best in the place of each, and of numbers
            of windows the sum."""
            combine = {SPLITS_BYTES: self._splits, ROOT_TYPE.itemsize: self._root}.get(
                size, _join_messages
            )
            try:
                content = string_at(data, size)
                if self.masked is None or size == SPLITS_BYTES:
                    message = compress(content)
                    self._are_splits = size == SPLITS_BYTES
                elif size == ROOT_TYPE.itemsize:
                    message = self.masked.hide_root(client, np.frombuffer(content, ROOT_TYPE)[0])
                else:
                    raise ValueError(f"a message of {size} bytes cannot be masked")
                answer = self._open(client, self.exchange(client, message, combine))
                answer = contents_of(answer)
                memmove(target, answer * (out_size // len(answer)), out_size)
            except Exception as error:
                self._give_up(client, error)
                memset(target, 0, out_size)

        return SCATTER(scatter), GATHER(gather)


def _join_messages(messages: Sequence[bytes]) -> list[bytes]:
    return [b"".join(messages)] * len(messages)


def best_splits(messages: Sequence[bytes]) -> bytes:
    """The best of the splits of each of two leaves, as LightGBM compares them: the larger gain, or
    else the first feature."""
    split = [zlib.decompress(message) for message in messages]
    best = b""
    for leaf in (slice(0, SPLIT.itemsize), slice(SPLIT.itemsize, None)):
        best_of_leaves = b"".join(own_split[leaf] for own_split in split)
        keys = np.frombuffer(best_of_leaves, SPLIT)
        feature = np.where(keys["feature"] < 0, np.iinfo("i4").max, keys["feature"])
        first = np.lexsort((feature, -np.nan_to_num(keys["gain"], nan=-np.inf)))[0]
        best += split[first][leaf]
    return best
