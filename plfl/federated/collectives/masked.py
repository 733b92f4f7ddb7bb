"""Masked messages of clients that grow a tree: the server sees sums over all of them, and no more.

The clients agree on keys before each tree. A masked number is as long as the sum may be, which the
server tells the clients with each answer. A client that is gone ends the tree; the others grow it
again with new keys, so no key has to be recovered.

A last number, which all others determine, tells whether a sum was longer than its field, or a
client has sent something else than it should.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.federated.collectives.growth import Growth, bits_of
from plfl.federated.collectives.layout import ROOT
from plfl.federated.secure.keys import SIZE, Key, Secrets, derive
from plfl.federated.secure.masks import (
    CHECK,
    Fields,
    Lanes,
    Masks,
    check_number,
    fields_of,
    pair_masks,
)
from plfl.federated.secure.neighbours import degree_of, draw_neighbours

ROOT_BITS = bytes([56, 48])
"""Bits of the sum of all gradients, and of all windows."""
HEAD = 4
"""Bytes of an answer that say how long the bits of the next sums are."""


class SumError(ValueError):
    """A sum over clients that no numbers of theirs can have."""


class Masked(bytes):
    """Masked fields as bytes, with their lanes for those on the machine that packed them."""

    lanes: Lanes


class MaskedSums:
    """Both sides of the masked messages of a tree. `slopes`: the gradients of a window above the
    target and, negative, below it; `purpose`: of the keys."""

    def __init__(self, secrets: Secrets, purpose: str, slopes: tuple[int, int], leaves: int):
        self.secrets, self.purpose = secrets, purpose
        self.slope_over, self.slope_under = slopes
        self.growth = Growth(leaves)
        self._keys: dict[int, Key] = {}
        self._masks: dict[int, Masks] = {}
        self._bits: dict[int, bytes] = {}

    # -- a client's side

    def introduce(self, client: int) -> bytes:
        """What a client sends first: its public key."""
        self._keys[client] = self.secrets.key(self.purpose, client)
        return self._keys[client].public

    def meet(self, client: int, answer: bytes) -> None:
        """Agree on keys with the neighbours, whose public keys are the `answer`."""
        key = self._keys[client]
        peers = [answer[begin : begin + SIZE] for begin in range(0, len(answer), SIZE)]
        pair_secrets = {peer: derive(key.agree(peer), "masks") for peer in peers}
        self._masks[client] = pair_masks(key.public, pair_secrets)
        self._bits[client] = ROOT_BITS

    def hide(self, client: int, numbers: NDArray[Any], *, are_counts: bool = False) -> Masked:
        """A client's whole numbers (n,), pairs of a sum of gradients and a count or counts alone,
        as a masked message."""
        integers = numbers.astype(np.int64)
        if not (integers == numbers).all():
            raise SumError("a client's numbers are not whole")
        fields = self._fields(self._bits[client], len(integers), are_counts)
        if len(fields.bits) > len(integers):
            integers = np.append(integers, check_number(integers))
        lanes = self._masks[client].hide(fields, fields.encode(integers))
        message = Masked(fields.pack(lanes))
        message.lanes = lanes
        return message

    def open(self, client: int, answer: bytes) -> bytes:
        """The answer of the server without the bits of the next sums, which the client keeps."""
        end = HEAD + int.from_bytes(answer[:HEAD], "little")
        if end > HEAD:
            self._bits[client] = _inflated(answer[HEAD:end])
        return answer[end:]

    # -- the server's side

    def pass_on(self, publics: Sequence[bytes]) -> list[bytes]:
        """The public keys of the neighbours of each client."""
        degree = degree_of(len(publics), has_shares=False)
        random = self.secrets.generator(f"{self.purpose}/neighbours")
        neighbours = draw_neighbours(len(publics), degree, random)
        return [b"".join(publics[peer] for peer in row) for row in neighbours]

    def add_roots(self, messages: Sequence[bytes]) -> Any:
        """The sum of all clients' numbers of all windows, a `ROOT`."""
        fields = fields_of(ROOT_BITS)
        lanes = fields.add([_lanes(message, fields) for message in messages])
        gradient, count = fields.decode(lanes, np.array([-(2**55), 0])).tolist()
        if not (
            0 < count < 2**31 and -self.slope_under * count <= gradient <= self.slope_over * count
        ):
            raise SumError(f"{count} windows have the gradients {gradient}")
        self.growth.begin(count)
        return np.array((count, gradient, count), ROOT)

    def add(self, messages: Sequence[bytes], count: int, *, are_counts: bool) -> Any:
        """The sum of the clients' numbers (n,), of which there are `count`."""
        bits = self.growth.bits.tobytes()
        fields = self._fields(bits, count, are_counts)
        lanes = fields.add([_lanes(message, fields) for message in messages])
        _, minima = _pair_bits(bits, count, self.slope_over, self.slope_under, are_counts)
        total = fields.decode(lanes, np.append(minima, 0))[:count]
        if check_number(total) != int(lanes[-1]):
            raise SumError("the sums of clients do not fit their check number")
        counts = total if are_counts else total[1::2]
        if are_counts:
            self.growth.add_parts(counts)
        else:
            gradients = total[::2]
            if not (
                (gradients >= -self.slope_under * counts) & (gradients <= self.slope_over * counts)
            ).all():
                raise SumError("sums of gradients exceed those of the windows")
            self.growth.add_counts(counts)
        return total.astype(np.float64)

    def close(self, answers: Sequence[bytes], *, has_bits: bool) -> list[bytes]:
        """Answers of the server, with the bits of the next sums."""
        tail = zlib.compress(self.growth.bits.tobytes()) if has_bits else b""
        head = len(tail).to_bytes(HEAD, "little") + tail
        return [head + answer for answer in answers]

    def _fields(self, bits: bytes, count: int, are_counts: bool) -> Fields:
        if bits == ROOT_BITS:
            return fields_of(bits)
        return fields_of(_pair_bits(bits, count, self.slope_over, self.slope_under, are_counts)[0])


@lru_cache(64)
def _pair_bits(
    bits: bytes, count: int, slope_over: int, slope_under: int, are_counts: bool
) -> tuple[bytes, NDArray[np.int64]]:
    """The bits of `count` numbers and of the check number, and the least (n,) of each number, given
    the bits of counts of windows."""
    of_counts = np.frombuffer(bits, np.uint8)
    bin_count = count if are_counts else count // 2
    if bin_count % len(of_counts):
        raise SumError(f"{bin_count} numbers do not fit {len(of_counts)} sizes")
    of_counts = np.repeat(of_counts, bin_count // len(of_counts))
    if are_counts:
        return of_counts.tobytes() + bytes([CHECK]), np.zeros(count, np.int64)
    largest_counts = 2.0**of_counts - 1
    numbers = np.stack([bits_of((slope_over + slope_under) * largest_counts), of_counts], axis=1)
    minima = np.stack([-slope_under * largest_counts, 0 * largest_counts], axis=1).astype(np.int64)
    return numbers.astype(np.uint8).tobytes() + bytes([CHECK]), minima.ravel()


def _lanes(message: bytes, fields: Fields) -> Lanes:
    return message.lanes if isinstance(message, Masked) else fields.unpack(message)


@lru_cache(1)  # in the simulation all clients get the same
def _inflated(tail: bytes) -> bytes:
    return zlib.decompress(tail)
