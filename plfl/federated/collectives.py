"""The messages between a server and clients whose LightGBMs grow the same trees.

LightGBM's data-parallel learner (`tree_learner: data`) asks for two operations among its machines,
which may be functions of the caller (`LGBM_NetworkInitWithFunctions`). Each client is a thread with
a LightGBM of its own. The server adds the clients' histograms and picks the best of their splits.
The channel of the federation carries what it gets from each client and what it returns.

A message that cannot be completed, because a client is gone, is answered with zeros: LightGBM finds
no split in them and ends the tree, which the caller throws away.
"""

import ctypes
import math
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import POINTER, c_int, c_int32, c_void_p, memmove, memset, string_at
from functools import lru_cache
from itertools import count as numbered
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from plfl.federated.bounds import Bounds
from plfl.federated.channel import Channel

Floats: TypeAlias = NDArray[np.float64]
Combine: TypeAlias = Callable[[Sequence[bytes]], Sequence[bytes]]
"""What the server makes of a message of each client: an answer for each."""

SPLITS = 2 * (94 + 4)
"""Bytes of two `SplitInfo` of LightGBM with `max_cat_threshold: 1`, one for each new leaf."""
SPLIT = np.dtype(
    {
        "names": ["feature", "left", "right", "gain", "threshold", "values", "sums", "categories"],
        "formats": ["i4", "i4", "i4", "f8", "u4", "4f8", "2f8", "i4"],
        "offsets": [0, 4, 8, 12, 20, 24, 64, 90],
        "itemsize": 98,
    }
)
"""What is read of a `SplitInfo`, and where it is there."""
ROOT = np.dtype(
    {"names": ["hessian", "gradient", "count"], "formats": ["f8", "f8", "i4"], "itemsize": 24}
)
"""What LightGBM sends of all windows of a client before it grows a tree."""
WIDTHS = ("i1", "i2", "i4", "i8", "f8")
"""Types of numbers in messages, the shortest first."""
ABOVE = (2**7, 2**15, 2**31, 2**53)
"""The least numbers that are too large for those of whole numbers."""

_SIZES = POINTER(c_int32)
_REDUCER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int, c_int32)
_SCATTER = ctypes.CFUNCTYPE(
    *(None, c_void_p, c_int32, c_int, _SIZES, _SIZES, c_int, c_void_p, c_int32, POINTER(_REDUCER))
)
_GATHER = ctypes.CFUNCTYPE(None, c_void_p, c_int32, _SIZES, _SIZES, c_int, c_void_p, c_int32)
"""The functions that LightGBM calls, as its `meta.h` declares them."""


class GoneError(Exception):
    """Another client is gone."""


class Packed(bytes):
    """Numbers as bytes, with the numbers for those on the machine that packed them."""

    numbers: NDArray[Any]
    """(N,), in the type in which they are sent."""


class Noise(NamedTuple):
    """Gaussian noise on the sums over clients, as in `plfl.federated.privacy.accounting`."""

    multiplier: float
    """z: its standard deviation as a multiple of the most, in norm, that a window adds to a sum."""
    draws: np.random.Generator

    def on(self, total: Floats, most: float) -> Floats:
        """Whole numbers near a sum of such, to which a window adds `most`."""
        deviation = self.multiplier * most
        return np.rint(total + deviation * self.draws.standard_normal(total.shape))


class Server:
    """Combines the messages of clients, which are threads of their own."""

    def __init__(
        self,
        channel: Channel,
        clients: Sequence[int],
        bins: Sequence[int] = (),
        noise: Noise | None = None,
        bounds: Bounds | None = None,
    ):
        """`clients`: their numbers on the channel; here they are numbered from 0. `bins`: how many
        each input has. `noise`: only for gradients that are whole numbers of at most 1. `bounds`:
        of messages from other machines, if there are any."""
        self.channel, self.numbers = channel, torch.tensor(clients)
        self.bins, self.noise, self.bounds = np.array(bins), noise, bounds
        self.first, self.clients = (channel.others or (0, len(clients)))[:2]
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
        self._arrivals = numbered(1)
        self._gates: list[SimpleQueue[None]] = [SimpleQueue() for _ in clients]

    def _combine_all(self) -> None:
        # One client does this while the others wait.
        arrived = self.channel.send_messages("up", self.numbers, self._messages, self._check)
        self._are_counts = False
        answers = self._combine(arrived)
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

    def add(self, client: int, numbers: Floats) -> Floats:
        """The sum of the clients' counts, in the order of clients."""

        def combine(messages: Sequence[bytes]) -> list[bytes]:
            return [packed(self._released(unpacked(*messages), 1))] * self.clients

        self._are_counts = True
        return unpacked(self.exchange(client, packed(numbers), combine))

    def _check(self, client: int, message: bytes) -> None:
        """Check the message of a client on another machine, of this number, against that of one
        here, and against what its windows allow.

        Raises:
            ValueError: it has another size, or numbers that no windows have.
        """
        assert self.bounds is not None
        kind, mine = message[:1], self._messages[0]
        if mine[0] < len(WIDTHS):
            if not kind or kind[0] >= len(WIDTHS):
                raise ValueError("it has no numbers")
            width = np.dtype(WIDTHS[kind[0]])
            content = _inflated(message[1:], len(unpacked(mine)) * width.itemsize)
            numbers = _stored(content, kind[0]).astype(float)
            if self._are_counts:
                is_sound = self.bounds.hold_for_counts(client, numbers)
            else:
                pairs = numbers.reshape(-1, 2)
                is_sound = self.bounds.hold_for_sums(client, pairs, len(self.bins))
        elif len(content := _inflated(message, len(zlib.decompress(mine)))) == ROOT.itemsize:
            is_sound = self.bounds.hold_for_root(client, np.frombuffer(content, ROOT)[0])
        else:
            is_sound = bool(self._are_sound(np.frombuffer(content, SPLIT)).all())
        if not is_sound:
            raise ValueError("it has implausible numbers")

    def _are_sound(self, splits: Any) -> NDArray[np.bool_]:
        """Which splits are none, or divide some windows at a bin that an input has."""
        feature, bins = splits["feature"], self.bins
        exists = (feature >= 0) & (feature < len(bins))
        fits = splits["threshold"] < bins[np.where(exists, feature, 0)]
        assert self.bounds is not None and self.channel.others is not None
        divides = self.bounds.hold_for_splits(self.channel.others.clients.numpy(), splits)
        none = splits["gain"] == -np.inf
        return np.asarray((splits["categories"] == 0) & (none | exists & fits & divides))

    def _released(self, total: Floats, most: float) -> Floats:
        return total if self.noise is None else self.noise.on(total, most)

    def _root(self, messages: Sequence[bytes]) -> list[bytes]:
        """The sum of all clients' numbers in the place of the first one's, since each client adds
        them up; zeros in those of the others."""
        roots = np.frombuffer(b"".join(map(zlib.decompress, messages)), ROOT)
        total = np.zeros(self.clients, ROOT)
        for name in total.dtype.fields or ():
            for number in roots[name]:  # as LightGBM adds them
                total[name][0] += number
        if self.noise is not None:
            sums = np.array([total["gradient"][0], total["count"][0]], float)
            total["gradient"][0], count = self.noise.on(sums, math.sqrt(2))
            total["hessian"][0] = total["count"][0] = max(count, 1)
        return [compressed(total.tobytes())] * self.clients

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
                # A window adds a gradient and 1 to one bin of each feature.
                total = self._released(unpacked(*messages), math.sqrt(2 * len(self.bins)))
                begins = [starts[k] // 8 for k in range(count)]
                parts = [total[b : b + lengths[k] // 8] for k, b in enumerate(begins)]
                return [packed(part) if len(part) else NOTHING for part in parts]

            try:
                message = packed(np.frombuffer(string_at(data, size), np.float64))
                part = unpacked(self.exchange(client, message, combine))
                memmove(out, part.tobytes(), lengths[self.first + client])
            except Exception as error:
                self._give_up(client, error)
                memset(out, 0, out_size)

        def gather(
            data: int, size: int, _starts: Any, _lengths: Any, _count: int, out: int, out_size: int
        ) -> None:
            """The messages of all clients; of splits, the best in the place of each, and of numbers
            of windows the sum."""
            combine = {SPLITS: _best_splits, ROOT.itemsize: self._root}.get(size, _joined)
            try:
                message = compressed(string_at(data, size))
                answer = _contents(self.exchange(client, message, combine))
                memmove(out, answer * (out_size // len(answer)), out_size)
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


@lru_cache(256)  # in the simulation many clients send the same, such as that they have no split
def compressed(message: bytes) -> bytes:
    """A message in the format of zlib."""
    # Looking only for repeated bytes, mostly zeros, is faster, and these messages become shorter.
    compressor = zlib.compressobj(strategy=zlib.Z_RLE)
    return compressor.compress(message) + compressor.flush()


def packed(numbers: Floats) -> Packed:
    """An even number of numbers as bytes, without loss: whole ones in the shortest type, and
    compressed.

    Pairs of a histogram, a sum of gradients and one of weights, are stored one kind after the
    other. Whole sums of gradients, which may be negative, are stored as 0, −1, 1, −2, … and then
    the first bytes of all numbers, the second ones, and so on: zeros stand together.
    """
    largest = max(numbers.max(initial=0), -numbers.min(initial=0))
    kind = bisect_right(ABOVE, largest)
    short = numbers.astype(WIDTHS[kind])
    if not (short == numbers).all():
        kind, short = len(ABOVE), numbers
    stored = short.reshape(-1, 2).T.copy()
    if kind < len(ABOVE):
        stored[0] = (stored[0] << 1) ^ (stored[0] >> (8 * short.itemsize - 1))
    by_place = stored.reshape(-1).view(np.uint8).reshape(-1, short.itemsize).T
    message = Packed(bytes([kind]) + compressed(by_place.tobytes()))
    message.numbers = short
    return message


def _stored(content: bytes, kind: int) -> NDArray[Any]:
    """The numbers (N,) in the content of a message of this kind."""
    width = np.dtype(WIDTHS[kind])
    by_place = np.frombuffer(content, np.uint8).reshape(width.itemsize, -1)
    stored = by_place.T.copy().view(width).reshape(2, -1)
    if kind < len(ABOVE):
        unsigned = stored[0].view(f"u{width.itemsize}")
        stored[0] = (unsigned >> 1).view(width) ^ -(stored[0] & 1)
    return stored.T.ravel()


def unpacked(*messages: bytes) -> Floats:
    """The numbers of `packed`, or the sum of those of several, one by one."""
    first, *others = (
        message.numbers
        if isinstance(message, Packed)
        else _stored(zlib.decompress(message[1:]), message[0])
        for message in messages
    )
    total: Floats = 0.0 + first
    for numbers in others:
        total += numbers
    return total


NOTHING = packed(np.empty(0))


def _inflated(message: bytes, size: int) -> bytes:
    """The content of a compressed message of another machine, which should have this `size`.

    Raises:
        ValueError: it has not.
    """
    reader, content = zlib.decompressobj(), b""
    with suppress(zlib.error):
        content = reader.decompress(message, size + 1)
    if len(content) != size or not reader.eof or reader.unused_data:
        raise ValueError(f"it does not have {size} bytes, compressed")
    return content


def _joined(messages: Sequence[bytes]) -> list[bytes]:
    return [b"".join(messages)] * len(messages)


@lru_cache(1)  # in the simulation all clients get the same
def _contents(message: bytes) -> bytes:
    """What is in compressed messages that stand one after the other."""
    contents = b""
    while message:
        reader = zlib.decompressobj()
        contents += reader.decompress(message)
        message = reader.unused_data
    return contents


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
    return [compressed(best)] * len(messages)
