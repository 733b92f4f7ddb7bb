"""Numbers of a few bits each, and the masks that hide them.

A field has as many bits as its sum over all clients may need. Masks are added modulo 2^bits, so a
masked field is as long as the sum, and equally likely to have any value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.lazy import ciphers

Lanes = NDArray[np.unsignedinteger[Any]]
"""Fields as unsigned numbers of 2, 4 or 8 bytes, of which the low bits count."""


CHECK_BYTES = 32
"""Bits of the number that depends on all others."""


class Fields:
    """The fields of a message, whose numbers of bits are `bits` (n,), from 0 to 64."""

    def __init__(self, bits: NDArray[np.uint8]):
        self.bits = bits
        largest = int(bits.max(initial=0))
        if largest > 64:
            raise ValueError(f"a field has {largest} bits, more than 64")
        self.kind = np.dtype("<u2" if largest <= 16 else "<u4" if largest <= 32 else "<u8")
        """The type of lanes."""
        all_bits = np.uint64(2**64 - 1)
        values = np.maximum(bits, 1).astype(np.uint64)
        full = np.where(bits > 0, all_bits >> (np.uint64(64) - values), np.uint64(0))
        self.full = full.astype(self.kind)
        """The largest value (n,) of each field."""

    @cached_property
    def _whole_bytes(self) -> NDArray[np.int64]:
        """Which bytes of the lanes are sent whole, in the order of bytes."""
        places = np.arange(self.kind.itemsize)[:, None]
        lanes = np.arange(len(self.bits)) * self.kind.itemsize
        return (lanes + places)[self.bits >= 8 * (places + 1)]

    @cached_property
    def _partial(self) -> tuple[NDArray[np.int64], list[int]]:
        """Which bytes of the lanes are sent in part, those with most bits first, and how many of
        them have each bit."""
        remainders = self.bits % 8
        order = np.argsort(remainders, kind="stable")[::-1]
        lanes, remainders = order[remainders[order] > 0], remainders[order][remainders[order] > 0]
        positions = lanes * self.kind.itemsize + self.bits[lanes] // 8
        return positions, [int((remainders > place).sum()) for place in range(8)]

    @cached_property
    def size(self) -> int:
        """Bytes of a message."""
        _, counts = self._partial
        return len(self._whole_bytes) + sum(-(-count // 8) for count in counts)

    def pack(self, lanes: Lanes) -> bytes:
        """Lanes (n,) without high bits as the bytes of a message: first the whole bytes, then the
        lowest bits of all others, the second ones, and so on."""
        raw = np.ascontiguousarray(lanes, self.kind).view(np.uint8)
        positions, counts = self._partial
        remainders = raw[positions]
        planes = [np.packbits(remainders[:n] & (1 << place)) for place, n in enumerate(counts) if n]
        return b"".join([raw[self._whole_bytes].tobytes(), *(plane.tobytes() for plane in planes)])

    def unpack(self, message: bytes) -> Lanes:
        """The inverse of `pack`.

        Raises:
            ValueError: the message has another size.
        """
        if len(message) != self.size:
            raise ValueError(f"it has {len(message)} bytes, expected {self.size}")
        data = np.frombuffer(message, np.uint8)
        raw = np.zeros(len(self.bits) * self.kind.itemsize, np.uint8)
        raw[self._whole_bytes] = data[: len(self._whole_bytes)]
        positions, counts = self._partial
        remainders, begin = np.zeros(len(positions), np.uint8), len(self._whole_bytes)
        for place, count in enumerate(counts):
            plane = data[begin : begin + -(-count // 8)]
            remainders[:count] |= np.unpackbits(plane, count=count) << np.uint8(place)
            begin += len(plane)
        raw[positions] = remainders
        return raw.view(self.kind)

    def encode(self, numbers: NDArray[np.int64]) -> Lanes:
        """Whole numbers (n,) as lanes, modulo the values of each field."""
        return np.bitwise_and(numbers.astype(self.kind), self.full)

    def decode(self, lanes: Lanes, minimum: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """The numbers (n,) that lanes stand for, of which none is below `minimum`."""
        base = np.broadcast_to(np.asarray(minimum, np.int64), lanes.shape)
        above = (lanes - self.encode(base)) & self.full
        return base + above.astype(np.int64)

    def sum_lanes(self, lanes: Sequence[Lanes]) -> Lanes:
        """The sum of several clients' lanes."""
        total = np.zeros(len(self.bits), self.kind)
        for values in lanes:
            total += values
        return np.bitwise_and(total, self.full)


@lru_cache(64)
def fields_of(bits: bytes) -> Fields:
    """The fields with these numbers of bits, one in each byte."""
    return Fields(np.frombuffer(bits, np.uint8))


@lru_cache(64)
def _weights(count: int) -> NDArray[np.uint32]:
    """Odd numbers (n,) of 32 bits, by which numbers enter their check number."""
    return np.random.default_rng(0).integers(2**31, size=count, dtype=np.uint32) * 2 + 1


def check_number(numbers: NDArray[np.int64]) -> int:
    """A number that depends on all others, such that that of a sum is the sum of theirs, modulo
    2³²."""
    return int((numbers.astype(np.uint32) * _weights(len(numbers))).sum(dtype=np.uint32))


class Stream:
    """Numbers that only owners of a key know, one after the other: ChaCha20 (RFC 8439)."""

    def __init__(self, key: bytes):
        self._cipher = ciphers.Cipher(
            ciphers.algorithms.ChaCha20(key, bytes(16)), mode=None
        ).encryptor()

    def draw(self, fields: Fields) -> Lanes:
        """The next mask of a message, with random high bits."""
        zeros = bytes(len(fields.bits) * fields.kind.itemsize)
        return np.frombuffer(self._cipher.update(zeros), fields.kind)


class Masks:
    """What a client adds to its messages, one after the other. `added_keys`, `taken_keys`: those of
    the masks that it adds and subtracts."""

    def __init__(self, added_keys: Sequence[bytes], taken_keys: Sequence[bytes] = ()):
        self._added_streams = [*map(Stream, added_keys)]
        self._taken_streams = [*map(Stream, taken_keys)]

    def hide(self, fields: Fields, lanes: Lanes) -> Lanes:
        """The lanes (n,) of the next message, masked."""
        masked_lanes = lanes.copy()
        for stream in self._added_streams:
            masked_lanes += stream.draw(fields)
        for stream in self._taken_streams:
            masked_lanes -= stream.draw(fields)
        return masked_lanes & fields.full


def pair_masks(public: bytes, secrets: dict[bytes, bytes]) -> Masks:
    """The masks of a client with this public key, given the secrets that it shares with others, by
    their public keys: it adds those of the larger keys, and subtracts the others."""
    added_keys = [secret for peer, secret in secrets.items() if peer > public]
    return Masks(added_keys, [secret for peer, secret in secrets.items() if peer < public])
