"""Masked messages of clients that grow a tree: the server sees sums over all of them, and no more.

The clients agree on keys before each tree. A masked number is as long as the sum may be, which the
server tells the clients with each answer (`growth`, `widths`). A client that is gone ends the tree;
the others grow it again with new keys, so no key has to be recovered.

Histograms are sent as pairs of whole numbers (`slopes`). How many windows are in each bin of all is
sent once: in later trees half of the first histogram follows from it.

A last number, which all others determine, tells whether a sum was longer than its field, or a
client has sent something else than it should.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.federated.collectives.growth import Growth, Leaf
from plfl.federated.collectives.message_layout import ROOT_TYPE
from plfl.federated.collectives.slopes import Slopes
from plfl.federated.collectives.widths import LeafWidths, bits_of, decode_widths, place_of
from plfl.federated.secure.encryption import KEY_BYTES, PrivateKey, Secrets, derive
from plfl.federated.secure.masks import (
    CHECK_BYTES,
    Fields,
    Lanes,
    Masks,
    check_number,
    fields_of,
    pair_masks,
)
from plfl.federated.secure.neighbours import degree_of, draw_neighbours

ROOT_BITS = bytes([56, 48, 48])
"""Bits of the sum of all gradients, of all windows, and of those at the target."""
LENGTH_BYTES = 4
"""Bytes of an answer that say how long the bits of the next sums are."""


class SumError(ValueError):
    """A sum over clients that no numbers of theirs can have."""


class MaskedBytes(bytes):
    """Masked fields as bytes, with their lanes for those on the machine that packed them."""

    lanes: Lanes


class MaskedSums:
    """Both sides of the masked messages of a tree. `purpose`: of the keys; `slopes`: of its loss;
    `counts`: of the windows (n,) in each bin of all, if the server knows them."""

    def __init__(
        self,
        secrets: Secrets,
        purpose: str,
        slopes: Slopes,
        leaves: int,
        counts: NDArray[np.int64] | None = None,
    ):
        self.secrets, self.purpose = secrets, purpose
        self.slopes = slopes
        self.growth = Growth(leaves, slopes, counts)
        self.flat: dict[int, int] = {}
        """How many windows of a client here are at the target."""
        self._keys: dict[int, PrivateKey] = {}
        self._masks: dict[int, Masks] = {}
        self._width_messages: dict[int, bytes] = {}
        """The last bits of sums that each client has been sent."""
        self._leaves: dict[int, list[LeafWidths]] = {}

    # -- a client's side

    def introduce(self, client: int) -> bytes:
        """What a client sends first: its public key."""
        self._keys[client] = self.secrets.key(self.purpose, client)
        return self._keys[client].public

    def meet(self, client: int, answer: bytes) -> None:
        """Agree on keys with the neighbours, whose public keys are the `answer`."""
        key = self._keys[client]
        peers = [answer[begin : begin + KEY_BYTES] for begin in range(0, len(answer), KEY_BYTES)]
        pair_secrets = {peer: derive(key.agree(peer), "masks") for peer in peers}
        self._masks[client] = pair_masks(key.public, pair_secrets)
        self._leaves[client] = []

    def hide_root(self, client: int, root: Any) -> MaskedBytes:
        """A client's numbers of all its windows, a `ROOT_TYPE`, as a masked message."""
        numbers = [root["gradient"], root["count"], self.flat[client]]
        return self._hide(client, fields_of(ROOT_BITS), _as_integers(np.array(numbers)))

    def hide(self, client: int, numbers: NDArray[Any], *, are_counts: bool = False) -> MaskedBytes:
        """A client's whole numbers (n,), pairs of a sum of gradients and a count or counts alone,
        as a masked message."""
        integers = _as_integers(numbers)
        if are_counts:
            fields = _fields_of_parts(self._width_messages[client], len(integers))
        else:
            next_leaf = self._read(client)
            fields = _fields_of_bins(next_leaf, len(numbers) // 2)
            slopes = self.slopes._replace(has_flat=next_leaf.limits.has_flat)
            integers = slopes.pair(integers[::2], integers[1::2]).ravel()
        return self._hide(client, fields, np.append(integers, check_number(integers)))

    def _hide(self, client: int, fields: Fields, integers: NDArray[np.int64]) -> MaskedBytes:
        lanes = self._masks[client].hide(fields, fields.encode(integers))
        message = MaskedBytes(fields.pack(lanes))
        message.lanes = lanes
        return message

    def _read(self, client: int) -> LeafWidths:
        """What a client has been told last."""
        message, leaves = self._width_messages[client], self._leaves[client]
        place = place_of(message)
        former = leaves[place].widths.tobytes() if place < len(leaves) else None
        leaves.append(decode_widths(message, former))
        return leaves[-1]

    def open(self, client: int, answer: bytes) -> bytes:
        """The answer of the server without the bits of the next sums, which the client keeps."""
        end = LENGTH_BYTES + int.from_bytes(answer[:LENGTH_BYTES], "little")
        if end > LENGTH_BYTES:
            self._width_messages[client] = answer[LENGTH_BYTES:end]
        return answer[end:]

    # -- the server's side

    def pass_on(self, publics: Sequence[bytes]) -> list[bytes]:
        """The public keys of the neighbours of each client."""
        degree = degree_of(len(publics), has_shares=False)
        random = self.secrets.generator(f"{self.purpose}/neighbours")
        neighbours = draw_neighbours(len(publics), degree, random)
        return [b"".join(publics[peer] for peer in row) for row in neighbours]

    def add_roots(self, messages: Sequence[bytes]) -> Any:
        """The sum of all clients' numbers of all windows, a `ROOT_TYPE`."""
        fields = fields_of(ROOT_BITS)
        lanes = fields.sum_lanes([_lanes(message, fields) for message in messages])
        gradient, count, flat = fields.decode(lanes, np.array([-(2**55), 0, 0])).tolist()
        if not (
            0 < count < 2**31
            and -self.slopes.below_target * count <= gradient <= self.slopes.above_target * count
            and flat <= count
        ):
            raise SumError(f"{count} windows, {flat} at the target, have the gradients {gradient}")
        self.growth.begin(Leaf(gradient, count), flat > 0)
        return np.array((count, gradient, count), ROOT_TYPE)

    def add(self, messages: Sequence[bytes], count: int, *, are_counts: bool) -> Any:
        """The sum of the clients' numbers (n,), of which there are `count`."""
        if are_counts:
            fields = _fields_of_parts(self.growth.message, count)
        else:
            fields = _fields_of_bins(self.growth.leaf_widths[-1], count // 2)
        lanes = fields.sum_lanes([_lanes(message, fields) for message in messages])
        total = fields.decode(lanes, 0)[:-1] if are_counts else self._pairs(fields, lanes)
        if check_number(total) != int(lanes[-1]):
            raise SumError("the sums of clients do not fit their check number")
        if are_counts:
            self.growth.add_parts(total)
            return total.astype(np.float64)
        slopes = self.growth.slopes
        gradients, counts = sums = slopes.sums(*total.reshape(2, -1))
        if not (
            (counts >= 0)
            & (gradients >= -slopes.below_target * counts)
            & (gradients <= slopes.above_target * counts)
        ).all():
            raise SumError("sums of gradients exceed those of the windows")
        self.growth.add_sums(sums)
        return sums.T.astype(np.float64).ravel()

    def _pairs(self, fields: Fields, lanes: Lanes) -> NDArray[np.int64]:
        """The sums (2 n,) of the pairs of all bins."""
        first = fields.decode(lanes, 0)[: (len(lanes) - 1) // 2]
        if self.growth.knows_counts:
            assert self.growth.root_counts is not None
            return np.concatenate([first, self.growth.root_counts])
        bounds = np.concatenate([0 * first, self.growth.slopes.least_counts(first), [0]])
        return fields.decode(lanes, bounds)[:-1]

    def close(self, answers: Sequence[bytes], *, has_bits: bool) -> list[bytes]:
        """Answers of the server, with the bits of the next sums."""
        tail = self.growth.message if has_bits else b""
        head = len(tail).to_bytes(LENGTH_BYTES, "little") + tail
        return [head + answer for answer in answers]


def most_bytes(client_count: int, windows: int, inputs: int, bins: int, leaves: int) -> int:
    """About the most bytes of a masked tree that a client sends and receives, if each has so many
    windows: keys, and a histogram for each leaf but the last, as long as that of the root."""
    keys = KEY_BYTES * (1 + degree_of(client_count, has_shares=False))
    bits = 2 * int(bits_of(client_count * windows // bins))
    return keys + (leaves - 1) * inputs * bins * bits // 8


def _as_integers(numbers: NDArray[Any]) -> NDArray[np.int64]:
    integers = numbers.astype(np.int64)
    if not (integers == numbers).all():
        raise SumError("a client's numbers are not whole")
    return integers


@lru_cache(4)  # in the simulation all clients have been told the same
def _fields_of_bins(leaf: LeafWidths, count: int) -> Fields:
    """The fields of pairs of so many bins, and of the check number."""
    if len(leaf.widths) not in (1, count):
        raise SumError(f"{count} bins do not fit {len(leaf.widths)} widths")
    return fields_of(leaf.bits(count).tobytes() + bytes([CHECK_BYTES]))


def _fields_of_parts(bits: bytes, count: int) -> Fields:
    """The fields of counts in equal parts of leaves, and of the check number."""
    if count % len(bits):
        raise SumError(f"{count} numbers do not fit {len(bits)} sizes")
    part_bits = np.repeat(np.frombuffer(bits, np.uint8), count // len(bits))
    return fields_of(part_bits.tobytes() + bytes([CHECK_BYTES]))


def _lanes(message: bytes, fields: Fields) -> Lanes:
    return message.lanes if isinstance(message, MaskedBytes) else fields.unpack(message)
