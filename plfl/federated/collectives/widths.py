"""How many bits the masked numbers of the next histogram have, which the server tells the clients.

The server knows how large both numbers of each bin can be (`growth`). To tell all of their bits
would take more bytes than it saves. So it tells one width for each bin, that of the longer number,
and by how much a number is shorter in this leaf in general. Widths are told as what is less than
those of the leaf's parent, without changes of fewer than `RUN` bins, and compressed.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
"""Numbers of bits."""
RUN = 4
"""Bins in a row that become shorter together at least."""
NOWHERE = 2**16 - 1
"""The place of the widths before any have been told."""


def bits_of(largest: object) -> Bits:
    """How many bits whole numbers from 0 to `largest` need, for each."""
    # float64 is exact here: no count of windows exceeds 2⁵³.
    return np.frexp(np.asarray(largest, np.float64))[1].astype(np.uint8)


class LeafLimits(NamedTuple):
    """What the pairs of numbers (`slopes`) of the bins of a leaf have in common."""

    first: int
    """Bits of the sum of the first numbers over all windows of the leaf."""
    second: int
    """Bits of the sum of the second numbers; 0 if all counts are known."""
    less_first: int
    """Bits by which the first numbers of bins are shorter than the widths."""
    less_second: int
    """Bits by which the second numbers of bins are shorter than the widths."""
    has_flat: bool = True
    """Whether any window is at the target."""

    def bits(self, widths: Bits) -> NDArray[np.uint8]:
        """The bits (2, n) of both numbers of bins (n,)."""
        width = widths.astype(np.int64)
        first = np.clip(width - self.less_first, 0, self.first)
        return np.stack([first, np.clip(width - self.less_second, 0, self.second)]).astype(np.uint8)

    @classmethod
    def of_leaf(
        cls, largest: NDArray[np.int64], parent: NDArray[np.int64], has_flat: bool
    ) -> LeafLimits:
        """Those of a leaf whose numbers are at most `largest` (2,), those of its `parent` (2,)."""
        longest = bits_of(parent)
        less_first, less_second = (int(longest.max()) - longest).tolist()
        first, second = bits_of(largest).tolist()
        return cls(first, second, less_first, less_second, has_flat)

    def widths(self, largest: NDArray[np.int64]) -> Bits:
        """The widths (n,) with which numbers of at most these (2, n) fit."""
        surplus = np.array([[self.less_first], [self.less_second]], np.uint8)
        bits = bits_of(largest)
        return np.asarray(np.where(bits > 0, bits + surplus, 0).max(axis=0), np.uint8)


WIDTHS_HEADER = struct.Struct("<HBBBB?")
"""The place of the parent's widths, and the limits."""


@dataclass(frozen=True, eq=False)
class LeafWidths:
    """What clients know of the numbers of the next leaf."""

    widths: Bits
    """The widths of its bins (n,); one for all before the first histogram."""
    limits: LeafLimits

    def bits(self, count: int) -> NDArray[np.uint8]:
        """The bits (2, count) of both numbers of so many bins."""
        return self.limits.bits(np.broadcast_to(self.widths, count))


def encode_widths(next_leaf: LeafWidths, place: int, former: Bits | None) -> bytes:
    """What tells a client widths that are at least these, if it knows the `former` widths."""
    widths = next_leaf.widths
    head = WIDTHS_HEADER.pack(place, *next_leaf.limits)
    if former is None:
        return head + zlib.compress(widths.tobytes())
    former = np.broadcast_to(former, widths.shape)
    is_used = former > 0
    decrease = former[is_used].astype(np.int16) - widths[is_used]
    return head + zlib.compress(_remove_short_runs(decrease).astype(np.int8).tobytes(), 9)


@lru_cache(1)  # in the simulation all clients get the same
def decode_widths(message: bytes, former: bytes | None) -> LeafWidths:
    """What a message of `encode_widths` tells those who know the `former` widths."""
    limits = LeafLimits(*WIDTHS_HEADER.unpack(message[: WIDTHS_HEADER.size])[1:])
    content = zlib.decompress(message[WIDTHS_HEADER.size :])
    if former is None:
        return LeafWidths(np.frombuffer(content, np.uint8), limits)
    decrease = np.frombuffer(content, np.int8)
    widths = np.frombuffer(former, np.uint8).astype(np.int16)
    if len(widths) == 1 and len(decrease):  # one for all bins
        widths = np.repeat(widths, len(decrease))
    widths[widths > 0] -= decrease
    return LeafWidths(widths.astype(np.uint8), limits)


def place_of(message: bytes) -> int:
    """The place of the widths to which a message of `encode_widths` refers."""
    return int(WIDTHS_HEADER.unpack(message[: WIDTHS_HEADER.size])[0])


def _remove_short_runs(numbers: NDArray[np.int16]) -> NDArray[np.int16]:
    """Numbers (n,) without larger ones of fewer than `RUN` in a row (the opening of mathematical
    morphology)."""
    if len(numbers) < RUN:
        return np.full_like(numbers, numbers.min(initial=2**7))
    windows = np.lib.stride_tricks.sliding_window_view
    minima = windows(numbers, RUN).min(axis=1)
    ends = np.full(RUN - 1, -(2**7), np.int16)
    return np.asarray(windows(np.concatenate([ends, minima, ends]), RUN).max(axis=1), np.int16)
