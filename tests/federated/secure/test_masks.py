"""Masks cancel, hide, and tell those who know some of them nothing but sums."""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from plfl.federated.secure import masks as masks_module
from plfl.federated.secure.encryption import (
    CurveKey,
    PrivateKey,
    SimulatedSecrets,
    SystemSecrets,
    decrypt,
    derive,
    encrypt,
)
from plfl.federated.secure.masks import Fields, Lanes, Masks, Stream, pair_masks
from plfl.federated.secure.neighbours import draw_neighbours

BITS = st.lists(st.integers(0, 64), min_size=1, max_size=40)


def fields(*bits: int) -> Fields:
    return Fields(np.array(bits, np.uint8))


def masks_of(keys: Sequence[PrivateKey], neighbours: NDArray[np.int64]) -> list[Masks]:
    """The masks of each client, given who its neighbours are."""
    publics = [key.public for key in keys]
    return [
        pair_masks(key.public, {publics[j]: derive(key.agree(publics[j]), "masks") for j in row})
        for key, row in zip(keys, neighbours, strict=True)
    ]


@pytest.mark.parametrize("secrets", [SystemSecrets(), SimulatedSecrets(3)])
@pytest.mark.parametrize("degree", [4, 10, 24])
def test_masks_cancel_in_the_sum(secrets: SystemSecrets, degree: int) -> None:
    count, random = 25, np.random.default_rng(0)
    keys = [secrets.key("sum", client) for client in range(count)]
    masks = masks_of(keys, draw_neighbours(count, degree, random))
    for message_fields in (fields(*range(33)), fields(*range(1, 15)), fields(64, 3, 0, 40)):
        numbers = random.integers(-(2**40), 2**40, size=(count, len(message_fields.bits)))
        lanes = [message_fields.encode(row) for row in numbers]
        hidden = [m.hide(message_fields, row) for m, row in zip(masks, lanes, strict=True)]
        packed = [message_fields.pack(row) for row in hidden]
        total = message_fields.sum_lanes([message_fields.unpack(message) for message in packed])
        assert (total == message_fields.encode(numbers.sum(0))).all()
        assert all((a != b).any() for a, b in zip(lanes, hidden, strict=True))


@settings(max_examples=60)
@given(BITS, st.randoms(use_true_random=False))
def test_packing_keeps_the_bits_of_each_number(bits: list[int], random: object) -> None:
    message_fields = fields(*bits)
    numbers = np.array([random.getrandbits(b) for b in bits], np.uint64)  # type: ignore[attr-defined]
    message = message_fields.pack(numbers.astype(message_fields.kind))
    assert (message_fields.unpack(message) == numbers).all()
    assert len(message) == message_fields.size < sum(bits) / 8 + 9
    with pytest.raises(ValueError, match=f"expected {message_fields.size}"):
        message_fields.unpack(message + b"0")


@given(st.integers(1, 63), st.integers(-(2**60), 2**60), st.data())
def test_numbers_are_read_from_the_least_one_on(bits: int, least: int, data: st.DataObject) -> None:
    above = data.draw(st.integers(0, min(2**bits - 1, 2**60)))
    message_fields, number = fields(bits), np.array([least + above])
    assert message_fields.decode(message_fields.encode(number), least) == number


def test_the_mask_is_the_stream_of_the_standard() -> None:
    """RFC 8439, appendix A.1, test vector 1."""
    block = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert Stream(bytes(32)).draw(fields(*[32] * 16)).tobytes() == block


def test_agreement_is_that_of_the_standard() -> None:
    """RFC 7748, section 6.1."""
    alice = CurveKey(
        bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    bob = CurveKey(
        bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    )
    secret = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert alice.agree(bob.public).hex() == bob.agree(alice.public).hex() == secret


def test_what_is_encrypted_is_read_with_the_key_alone() -> None:
    key, other = derive(b"1" * 32, "shares"), derive(b"1" * 32, "masks")
    sealed = encrypt(key, b"text")
    assert decrypt(key, sealed) == b"text" and b"text" not in sealed
    for wrong in (other, derive(b"2" * 32, "shares")):
        with pytest.raises(ValueError, match="not encrypted with the agreed key"):
            decrypt(wrong, sealed)
    with pytest.raises(ValueError, match="not encrypted"):
        decrypt(key, sealed[:-1] + b"?")


def seen(secret: bool, draws: int = 2000) -> NDArray[np.int64]:
    """Lanes (draws, 3) that the server sees of one client with the same numbers, in sums with new
    keys."""
    message_fields, numbers = fields(8, 5, 3), np.array([200, 3, 1])
    rows = []
    for draw in range(draws):
        keys = [SimulatedSecrets(draw).key("sum", client) for client in range(3)]
        masks = masks_of(keys, draw_neighbours(3, 2, np.random.default_rng(0)))
        lanes = message_fields.encode(numbers)
        rows.append(masks[0].hide(message_fields, lanes) if secret else lanes)
    return np.array(rows, np.int64)


def uniformity(values: NDArray[np.int64], bits: int) -> float:
    """The p-value of χ² that values of this many bits are equally likely."""
    return float(chisquare(np.bincount(values, minlength=2**bits)).pvalue)


def test_the_servers_view_of_a_client_is_uniform() -> None:
    view = seen(secret=True)
    for column, bits in enumerate((8, 5, 3)):
        assert uniformity(view[:, column], bits) > 1e-4
    # Also two numbers together, and numbers of two messages.
    assert uniformity(view[:, 1] + 32 * view[:, 2], 8) > 1e-4
    assert uniformity(view[:-1, 1] + 32 * view[1:, 2], 8) > 1e-4
    assert uniformity(seen(secret=False, draws=300)[:, 0], 8) < 1e-9


class Drawn(Stream):
    """A stream of given numbers."""

    def __init__(self, key: bytes):
        self._key = key

    def draw(self, fields: Fields) -> Lanes:
        return np.frombuffer(self._key, np.uint8).astype(fields.kind)


def views(numbers: Sequence[int], colluding: Sequence[int]) -> Counter[tuple[object, ...]]:
    """How often the server and some clients see what, if all masks of one bit are equally likely:
    the messages of all clients, and the masks and numbers of those."""
    message_fields, clients = fields(1), range(len(numbers))
    pairs = [*itertools.combinations(clients, 2)]
    counts: Counter[tuple[object, ...]] = Counter()
    for drawn in itertools.product(range(2), repeat=len(pairs)):
        masks = dict(zip(pairs, drawn, strict=True))
        messages = []
        for client in clients:
            secrets = {
                bytes([other]): bytes([masks[min(client, other), max(client, other)]])
                for other in clients
                if other != client
            }
            own = pair_masks(bytes([client]), secrets)
            lanes = message_fields.encode(np.array([numbers[client]]))
            messages.append(int(own.hide(message_fields, lanes)[0]))
        known = tuple(masks[pair] for pair in pairs if {*pair} & {*colluding})
        counts[(*messages, known, tuple(numbers[client] for client in colluding))] += 1
    return counts


@pytest.mark.parametrize("colluding", [(), (0,), (2,), (0, 3)])
def test_who_colludes_learns_the_sum_of_the_others_only(
    colluding: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over all masks: what they see is equally likely for all numbers of the others with the same
    sum, and tells sums apart."""
    monkeypatch.setattr(masks_module, "Stream", Drawn)
    numbers = [1, 1, 0, 0]
    a, b = [client for client in range(4) if client not in colluding][:2]
    moved, changed = list(numbers), list(numbers)
    moved[a], moved[b] = (moved[a] + 1) % 2, (moved[b] + 1) % 2
    changed[a] = (changed[a] + 1) % 2
    view = views(numbers, colluding)
    is_equal = views(moved, colluding) == view  # a variable, since pytest compares slowly
    assert is_equal
    assert not {*views(changed, colluding)} & {*view}
