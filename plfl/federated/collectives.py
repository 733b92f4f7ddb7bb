"""The messages between a server and clients whose LightGBMs grow the same trees.

LightGBM's data-parallel learner (`tree_learner: data`) asks for two operations among its machines,
which may be functions of the caller (`LGBM_NetworkInitWithFunctions`). Each client is a thread with
a LightGBM of its own. The server adds the clients' histograms and picks the best of their splits.
The channel of the federation carries what it gets from each client and what it returns.

A message that cannot be completed, because a client is gone, is answered with zeros: LightGBM finds
no split in them and ends the tree, which the caller throws away.
"""

import ctypes
import zlib
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_int, c_int32, c_void_p, memmove, memset, string_at
from itertools import count as numbered
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from plfl.federated.channel import Channel

Floats: TypeAlias = NDArray[np.float64]
Combine: TypeAlias = Callable[[Sequence[bytes]], Sequence[bytes]]
"""What the server makes of a message of each client: an answer for each."""

SPLITS = 2 * (94 + 4)
"""Bytes of two `SplitInfo` of LightGBM with `max_cat_threshold: 1`, one for each new leaf. Messages
of another size are passed on unread."""
SPLIT = np.dtype(
    {"names": ["feature", "gain"], "formats": ["i4", "f8"], "offsets": [0, 12], "itemsize": 98}
)
"""What decides between splits, and where it is in a `SplitInfo`."""
LEVEL = 6
"""Of zlib's compression."""
WIDTHS = ("i1", "i2", "i4", "i8", "f8")
"""Types of numbers in messages, the shortest first."""

_SIZES = POINTER(c_int32)
_REDUCER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int, c_int32)
_SCATTER = ctypes.CFUNCTYPE(
    *(None, c_void_p, c_int32, c_int, _SIZES, _SIZES, c_int, c_void_p, c_int32, POINTER(_REDUCER))
)
_GATHER = ctypes.CFUNCTYPE(None, c_void_p, c_int32, _SIZES, _SIZES, c_int, c_void_p, c_int32)
"""The functions that LightGBM calls, as its `meta.h` declares them."""


class GoneError(Exception):
    """Another client is gone."""


class Server:
    """Combines the messages of clients, which are threads of their own."""

    def __init__(self, channel: Channel, clients: Sequence[int]):
        """`clients`: their numbers on the channel; here they are numbered from 0."""
        self.channel, self.numbers = channel, torch.tensor(clients)
        self.clients = len(clients)
        self.failed: dict[int, Exception] = {}
        """What went wrong in the operations of a client: LightGBM cannot pass it on."""
        self.is_left = False
        """Whether a client is gone, so that no exchange is completed any more."""
        self._messages = [b""] * self.clients
        self._combine: Combine = list
        self._arrivals = numbered(1)
        self._gates: list[SimpleQueue[None]] = [SimpleQueue() for _ in clients]

    def _combine_all(self) -> None:
        # One client does this while the others wait.
        arrived = self.channel.send_messages("up", self.numbers, self._messages)
        answers = self._combine(arrived)
        self._messages = self.channel.send_messages("down", self.numbers, answers)

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
        if next(self._arrivals) % self.clients == 0:
            self._combine_all()
            self._gates[0].put(None)
        # Each wakes the next one: if all woke at once, they would fight for the interpreter.
        self._gates[client].get()
        if client + 1 < self.clients:
            self._gates[client + 1].put(None)
        if self.is_left:
            raise GoneError
        return self._messages[client]

    def add(self, client: int, numbers: Floats) -> Floats:
        """The sum of the clients' arrays, in the order of clients."""
        return unpacked(self.exchange(client, packed(numbers), _sum_for_all))

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
            data: int, size: int, _width: int, starts: Any, lengths: Any, *rest: Any
        ) -> None:
            """The sum of all histograms; a client needs the features that it searches."""
            count, out, out_size = rest[:3]

            def combine(messages: Sequence[bytes]) -> list[bytes]:
                total = _summed(messages)
                begins = [starts[k] // 8 for k in range(count)]
                parts = [total[b : b + lengths[k] // 8] for k, b in enumerate(begins)]
                return [packed(part) if len(part) else NOTHING for part in parts]

            try:
                message = packed(np.frombuffer(string_at(data, size), np.float64))
                part = unpacked(self.exchange(client, message, combine))
                memmove(out, part.tobytes(), lengths[client])
            except Exception as error:
                self._give_up(client, error)
                memset(out, 0, out_size)

        def gather(
            data: int, size: int, _starts: Any, _lengths: Any, count: int, out: int, out_size: int
        ) -> None:
            """The messages of all clients; of splits, the best in the place of each."""
            combine = _best_splits if size == SPLITS else _joined
            try:
                message = zlib.compress(string_at(data, size), LEVEL)
                blocks = _blocks(self.exchange(client, message, combine))
                everything = b"".join(blocks) * (count // len(blocks))
                memmove(out, everything, len(everything))
            except Exception as error:
                self._give_up(client, error)
                memset(out, 0, out_size)

        return _SCATTER(scatter), _GATHER(gather)


def connect(count: int, client: int, functions: tuple[Any, Any]) -> None:
    """Let the LightGBM of this thread be one of `count` machines."""
    pointers = [ctypes.cast(function, c_void_p) for function in functions]
    call("LGBM_NetworkInitWithFunctions", count, client, *pointers)


def silence() -> None:
    """Let the LightGBM of this thread report errors only."""
    # Each thread has a level of its own, which is set wherever LightGBM reads parameters.
    call("LGBM_GetSampleCount", 1, b"verbosity=-1", ctypes.byref(c_int()))


def disconnect() -> None:
    """Let the LightGBM of this thread be alone."""
    call("LGBM_NetworkFree")


def call(function: str, *arguments: Any) -> None:
    """Call a function of LightGBM's C interface.

    Raises:
        lightgbm.basic.LightGBMError: it failed.
    """
    from lightgbm import basic  # here, because it takes a second to load

    library: Any = basic
    library._safe_call(getattr(library._LIB, function)(*arguments))


def packed(numbers: Floats) -> bytes:
    """Numbers as bytes, without loss: whole numbers in the shortest type, and compressed.

    Pairs of a histogram, a sum of gradients and one of weights, are stored one kind after the
    other.
    """
    whole = np.rint(numbers)
    kind = len(WIDTHS) - 1
    if np.array_equal(whole, numbers) and np.abs(whole).max(initial=0) < 2**53:
        most = int(np.abs(whole).max(initial=0))
        kind = next(k for k, width in enumerate(WIDTHS) if most <= np.iinfo(width).max)
    split = np.concatenate([numbers[::2], numbers[1::2]]).astype(WIDTHS[kind])
    return bytes([kind]) + zlib.compress(split.tobytes(), LEVEL)


def unpacked(message: bytes) -> Floats:
    """The numbers of `packed`."""
    split = np.frombuffer(zlib.decompress(message[1:]), WIDTHS[message[0]])
    numbers = np.empty(len(split))
    half = -(-len(split) // 2)
    numbers[::2], numbers[1::2] = split[:half], split[half:]
    return numbers


NOTHING = packed(np.empty(0))


def _summed(messages: Sequence[bytes]) -> Floats:
    total = unpacked(messages[0])
    for message in messages[1:]:
        total = total + unpacked(message)
    return total


def _sum_for_all(messages: Sequence[bytes]) -> list[bytes]:
    return [packed(_summed(messages))] * len(messages)


def _joined(messages: Sequence[bytes]) -> list[bytes]:
    return [b"".join(messages)] * len(messages)


def _blocks(message: bytes) -> list[bytes]:
    """The contents of compressed messages that stand one after the other."""
    blocks = []
    while message:
        reader = zlib.decompressobj()
        blocks.append(reader.decompress(message))
        message = reader.unused_data
    return blocks


def _best_splits(messages: Sequence[bytes]) -> list[bytes]:
    """The best of the splits of each of two leaves, as LightGBM compares them: the larger gain, or
    else the first feature."""
    split = [zlib.decompress(message) for message in messages]
    best = b""
    for leaf in (slice(0, SPLIT.itemsize), slice(SPLIT.itemsize, None)):
        every = b"".join(candidate[leaf] for candidate in split)
        keys = np.frombuffer(every, SPLIT)
        feature = np.where(keys["feature"] < 0, np.iinfo("i4").max, keys["feature"])
        first = np.lexsort((feature, -np.nan_to_num(keys["gain"], nan=-np.inf)))[0]
        best += split[first][leaf]
    return [zlib.compress(best, LEVEL)] * len(messages)
