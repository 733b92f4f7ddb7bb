"""The stage `rc`: a range coder over the whole numbers of a message.

The coded numbers follow the frequency of each number, as a byte, and a checksum of both. The coder
works with integers and its frequencies are ratios of integers, so both ends agree on every
platform. A message that would not become shorter stays as it is.

Source: G. Nigel N. Martin, "Range encoding: an algorithm for removing redundancy from a digitised
message", Video & Data Recording Conference 1979; here as in Robert Bamler, "Understanding Entropy
Coding With Asymmetric Numeral Systems (ANS): a Statistician's Perspective", 2022,
https://arxiv.org/abs/2201.01741 (package `constriction`).
"""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.extras import require
from plfl.base.lazy import constriction
from plfl.federated.codecs.packing import Bytes, pack, unpack
from plfl.interfaces.codec import CodecError, Field

_PACKED, _CODED = 0, 1
_CHECKSUM = 2
"""Bytes of the checksum."""


def check_installed() -> None:
    """Check that the range coder is installed."""
    require("rc", "channel: rc")


def most_bytes(field: Field) -> int:
    """Largest number of bytes of the codes of a message."""
    return 1 + field.size


def shorten(field: Field, codes: NDArray[np.uint8]) -> Bytes:
    """The `codes` (count,) of one message as bytes."""
    counts = np.bincount(codes, minlength=field.levels)
    # 255 for the most frequent number, 0 for those that do not occur; rounded upwards, so that no
    # other becomes 0.
    table = -(-255 * counts // counts.max())
    coder = constriction.stream.queue.RangeEncoder()
    coder.encode(codes.astype(np.int32), _frequencies(table))
    frequencies, words = table.astype(np.uint8).tobytes(), coder.get_compressed().astype("<u4")
    coded = [bytes([_CODED]), frequencies, _checksum(frequencies, words.tobytes()), words.tobytes()]
    if sum(map(len, coded)) < most_bytes(field):
        return np.frombuffer(bytearray().join(coded), dtype=np.uint8)
    return np.concatenate([[np.uint8(_PACKED)], pack((field,), [codes[None]])[0]])


def lengthen(field: Field, message: Bytes) -> NDArray[np.uint8]:
    """The inverse of `shorten`; CodecError if the bytes are damaged."""
    if not len(message) or message[0] not in (_PACKED, _CODED):
        raise CodecError("the coded update says no form of its codes")
    if message[0] == _PACKED:
        codes: NDArray[np.uint8] = unpack((field,), message[None, 1:])[0][0]
        return codes
    table, coded = message[1 : 1 + field.levels], message[1 + field.levels :]
    checksum, words = coded[:_CHECKSUM], coded[_CHECKSUM:]
    if len(words) % 4 or len(message) > most_bytes(field) or not table.any():
        raise CodecError(f"the coded update has {len(message)} bytes of codes, which cannot be")
    if _checksum(table.tobytes(), words.tobytes()) != checksum.tobytes():
        raise CodecError("the coded update is damaged")
    coder = constriction.stream.queue.RangeDecoder(words.view("<u4").astype(np.uint32))
    try:
        codes = coder.decode(_frequencies(table.astype(np.int64)), field.count).astype(np.uint8)
    except AssertionError:
        raise CodecError("the coded update is damaged") from None
    if not coder.maybe_exhausted():
        raise CodecError("the coded update is damaged")
    return codes


def _frequencies(table: NDArray[np.int64]) -> Any:
    return constriction.stream.model.Categorical(table / table.sum(), perfect=False)


def _checksum(frequencies: bytes, words: bytes) -> bytes:
    """The lower half of their CRC-32."""
    return zlib.crc32(words, zlib.crc32(frequencies)).to_bytes(4, "little")[:_CHECKSUM]
