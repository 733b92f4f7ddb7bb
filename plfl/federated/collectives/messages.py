"""Messages: numbers in the shortest type, compressed, and their content."""

import zlib
from bisect import bisect_right
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.array_types import Floats as Floats

NUMBER_TYPES = ("i1", "i2", "i4", "i8", "f8")
"""Types of numbers in messages, the shortest first."""
ABOVE = (2**7, 2**15, 2**31, 2**53)
"""The least numbers that are too large for those of whole numbers."""


class PackedNumbers(bytes):
    """Numbers as bytes, with the numbers for those on the machine that packed them."""

    numbers: NDArray[Any]
    """(N,), in the type in which they are sent."""


@lru_cache(256)  # in the simulation many clients send the same, such as that they have no split
def compress(message: bytes) -> bytes:
    """A message in the format of zlib."""
    # Looking only for repeated bytes, mostly zeros, is faster, and these messages become shorter.
    compressor = zlib.compressobj(strategy=zlib.Z_RLE)
    return compressor.compress(message) + compressor.flush()


def pack(numbers: Floats) -> PackedNumbers:
    """An even number of numbers as bytes, without loss: whole ones in the shortest type, and
    compressed.

    Pairs of a histogram, a sum of gradients and one of weights, are stored one kind after the
    other. Whole sums of gradients, which may be negative, are stored as 0, −1, 1, −2, … and then
    the first bytes of all numbers, the second ones, and so on: zeros stand together.
    """
    largest = max(numbers.max(initial=0), -numbers.min(initial=0))
    kind = bisect_right(ABOVE, largest)
    short = numbers.astype(NUMBER_TYPES[kind])
    if not (short == numbers).all():
        kind, short = len(ABOVE), numbers
    stored = short.reshape(-1, 2).T.copy()
    if kind < len(ABOVE):
        stored[0] = (stored[0] << 1) ^ (stored[0] >> (8 * short.itemsize - 1))
    by_place = stored.reshape(-1).view(np.uint8).reshape(-1, short.itemsize).T
    message = PackedNumbers(bytes([kind]) + compress(by_place.tobytes()))
    message.numbers = short
    return message


def stored_numbers(content: bytes, kind: int) -> NDArray[Any]:
    """The numbers (N,) in the content of a message of this kind."""
    width = np.dtype(NUMBER_TYPES[kind])
    by_place = np.frombuffer(content, np.uint8).reshape(width.itemsize, -1)
    stored = by_place.T.copy().view(width).reshape(2, -1)
    if kind < len(ABOVE):
        unsigned = stored[0].view(f"u{width.itemsize}")
        stored[0] = (unsigned >> 1).view(width) ^ -(stored[0] & 1)
    return stored.T.ravel()


def add_up_packed(*messages: bytes) -> Floats:
    """The numbers of `pack`, or the sum of those of several, one by one."""
    first, *other_arrays = (
        message.numbers
        if isinstance(message, PackedNumbers)
        else stored_numbers(zlib.decompress(message[1:]), message[0])
        for message in messages
    )
    total: Floats = 0.0 + first
    for numbers in other_arrays:
        total += numbers
    return total


EMPTY = pack(np.empty(0))


def inflate(message: bytes, size: int) -> bytes:
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


@lru_cache(1)  # in the simulation all clients get the same
def contents_of(message: bytes) -> bytes:
    """What is in compressed messages that stand one after the other."""
    contents = b""
    while message:
        reader = zlib.decompressobj()
        contents += reader.decompress(message)
        message = reader.unused_data
    return contents
