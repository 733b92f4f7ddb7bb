"""Trees of masked sums are those of plain ones, and the server sees nothing else than sums."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from plfl.federated.channel import Channel
from plfl.federated.collectives.growth import Growth
from plfl.federated.collectives.masked import MaskedBytes, MaskedSums, SumError
from plfl.federated.collectives.server import Server, SumNoise
from plfl.federated.collectives.slopes import Slopes
from plfl.federated.collectives.widths import (
    LeafLimits,
    LeafWidths,
    bits_of,
    decode_widths,
    encode_widths,
)
from plfl.federated.secure.encryption import Secrets, SimulatedSecrets, SystemSecrets
from plfl.federated.secure.masks import Fields, Lanes
from plfl.federated.tree_growth import ClientWindows, RootCounts, bin_rows, grow
from plfl.federated.tree_losses import MEDIAN, TREE_LOSSES, QuantileLoss

GRID = np.repeat(np.sinh(np.linspace(-3, 3, 15))[:, None], 4, axis=1)
BINS = bin_rows(GRID, 15)
SECRETS = SimulatedSecrets(5)


def parts(clients: int = 4) -> list[ClientWindows]:
    """Clients of different sizes, whose targets differ in level."""
    random = np.random.default_rng(0)
    found = []
    for k in range(clients):
        x = random.normal(size=(150 + 40 * k, 4))
        found.append(
            ClientWindows(x, x[:, 0] * x[:, 1] + 0.1 * k + 0.1 * random.normal(size=len(x)))
        )
    return found


def grown(
    secrets: Secrets | None, some: Sequence[ClientWindows], level: float = 0.5, leaves: int = 7
) -> str:
    channel = Channel(0, len(some), secrets=secrets)
    return grow(some, BINS, leaves, 0.3, QuantileLoss(level), channel).text


@pytest.mark.parametrize("level", [0.5, 0.9, 0.025])
@pytest.mark.parametrize("leaves", [2, 7, 60])
def test_masked_trees_have_equal_bits(level: float, leaves: int) -> None:
    text = grown(None, parts(), level, leaves)
    assert "split_feature" in text
    assert grown(SECRETS, parts(), level, leaves) == text


def test_keys_of_the_system_grow_the_same_tree() -> None:
    assert grown(SystemSecrets(), parts()) == grown(None, parts())


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_trees_of_windows_at_their_target_have_equal_bits(level: float) -> None:
    some = [ClientWindows(part.x, part.y.round().clip(0)) for part in parts()]
    assert any((part.y == 0).any() for part in some)
    text = grown(None, some, level)
    assert "split_feature" in text and grown(SECRETS, some, level) == text


def test_counts_of_all_windows_are_sent_once() -> None:
    """The next tree of the same clients is the same, and its first histogram shorter; that of
    other clients has its own counts; wrong ones are noticed, and not used again."""
    counts: RootCounts = {}

    def grow_again(some: Sequence[ClientWindows]) -> tuple[str, int]:
        channel = Channel(0, len(some), secrets=SECRETS)
        text = grow(some, BINS, 2, 0.3, channel=channel, counts=counts).text
        return text, int(channel.close_round()["bytes_up"].sum())

    (first, more), (second, fewer) = grow_again(parts()), grow_again(parts())
    assert first == second and fewer < 0.75 * more
    assert grow_again(parts(5))[0] == grown(None, parts(5), leaves=2) and len(counts) == 2
    counts[0, 1, 2, 3][0] += 1
    with pytest.raises(SumError):
        grow_again(parts())
    assert [*counts] == [(0, 1, 2, 3, 4)] and grow_again(parts())[0] == first


def test_a_tree_without_a_split_is_grown() -> None:
    some = [ClientWindows(part.x, np.zeros(len(part.y))) for part in parts()]
    assert grown(SECRETS, some) == grown(None, some)


def test_who_is_gone_leaves_the_tree_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others agree on new keys; no key is recovered."""
    some, keys = parts(5), []
    exchange, introduce, calls = Server.exchange, MaskedSums.introduce, [0] * 5

    def noted(self: Server, client: int, message: bytes, combine: Callable[..., Any]) -> bytes:
        calls[client] += 1
        if self.clients == 5 and client == 2 and calls[2] == 6:
            raise ConnectionError("gone")
        return exchange(self, client, message, combine)

    def introduced(self: MaskedSums, client: int) -> bytes:
        keys.append(introduce(self, client))
        return keys[-1]

    monkeypatch.setattr(Server, "exchange", noted)
    monkeypatch.setattr(MaskedSums, "introduce", introduced)
    found = grown(SECRETS, some)
    monkeypatch.undo()
    assert len({*keys}) == len(keys) == 9
    assert found == grown(None, [*some[:2], *some[3:]])


def test_the_server_sees_masks_and_splits_of_sums_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many keys, what each client sends is the same, if it follows from sums, or uniform."""
    messages: list[list[bytes]] = []
    lanes: list[NDArray[np.int64]] = []
    send, pack = Channel.send_messages, Fields.pack

    def noted(self: Channel, way: Any, clients: Any, some: Sequence[bytes], check: Any) -> Any:
        if way == "up":
            messages[-1] += map(bytes, some)
        return send(self, way, clients, some, check)

    def packed(self: Fields, masked: Lanes) -> bytes:
        lanes.append(masked[self.bits >= 3].astype(np.int64) % 8)
        return pack(self, masked)

    monkeypatch.setattr(Channel, "send_messages", noted)
    monkeypatch.setattr(Fields, "pack", packed)
    for seed in range(20):
        messages.append([])
        grown(SimulatedSecrets(seed), parts())
    kinds = [len({*messages_at_place}) for messages_at_place in zip(*messages, strict=True)]
    # The splits of the root and of five more leaves, of four clients.
    assert kinds.count(1) == 6 * 4 and {*kinds} == {1, 20}
    low = np.concatenate(lanes)
    assert len(low) > 50_000 and chisquare(np.bincount(low)).pvalue > 1e-4


def windows_alone(counts: NDArray[np.int64]) -> set[tuple[int, ...]]:
    """The attack of `benchmarks/tree_attack.py` on the windows (n,) in each bin of a node: if there
    is only one, the bins of its features."""
    by_feature = counts.reshape(GRID.shape[1], -1)
    if (by_feature.sum(axis=1) != 1).any() or (by_feature < 0).any():
        return set()
    return {tuple(by_feature.argmax(axis=1).tolist())}


def test_the_attack_reads_no_window_from_a_masked_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads windows from the same numbers without masks."""
    hide, plain, masked = MaskedSums.hide, [], []

    def noted(self: MaskedSums, client: int, numbers: Any, **options: Any) -> MaskedBytes:
        message = hide(self, client, numbers, **options)
        if not options["are_counts"]:
            plain.append((client, np.array(numbers[1::2], np.int64)))
            first, counts = message.lanes[:-1].astype(np.int64).reshape(2, -1)
            slopes = self.slopes._replace(has_flat=False)
            masked.append(windows_alone(np.array(slopes.sums(first, counts)[1])))
        return message

    monkeypatch.setattr(MaskedSums, "hide", noted)
    some = [
        ClientWindows(part.x[: 8 if k < 2 else None], part.y[: 8 if k < 2 else None])
        for k, part in enumerate(parts())
    ]
    for seed in range(5):
        grown(SimulatedSecrets(seed), some)
    read = {(client, bins) for client, counts in plain for bins in windows_alone(counts)}
    assert len(read) >= 2
    for client, bins in read:
        # The bin of 0 has nothing else.
        distances = np.abs(some[client].x[:, None] - GRID)
        distances[:, 7] = np.inf
        nearest = distances.argmin(axis=1)
        assert bins in {*map(tuple, nearest.tolist())}
    assert len(masked) == len(plain) and not set().union(*masked)


def test_a_sum_that_is_longer_than_its_field_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_short(largest: Any) -> Any:
        return np.maximum(bits_of(largest), 3) - np.uint8(2)

    monkeypatch.setattr("plfl.federated.collectives.widths.bits_of", too_short)
    with pytest.raises(SumError, match=r"check number|exceed"):
        grown(SECRETS, parts())


def test_a_client_that_changes_its_message_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    hide = MaskedSums.hide

    def forged(self: MaskedSums, client: int, numbers: Any, **options: Any) -> MaskedBytes:
        message = hide(self, client, numbers, **options)
        if client == 1 and len(message) > 32:
            message.lanes[3] ^= 1
        return message

    monkeypatch.setattr(MaskedSums, "hide", forged)
    with pytest.raises(SumError):
        grown(SECRETS, parts())


@pytest.mark.parametrize("loss", ["mse", "huber"])
def test_gradients_that_are_no_whole_numbers_are_refused(loss: str) -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        grow(parts(), BINS, 7, 0.3, TREE_LOSSES[loss], Channel(0, 4, secrets=SECRETS))
    with pytest.raises(ValueError, match="without noise"):
        noise = SumNoise(1.0, np.random.default_rng(0))
        grow(parts(), BINS, 7, 0.3, MEDIAN, Channel(0, 4, secrets=SECRETS), noise=noise)


def test_bits_are_those_of_the_largest_number() -> None:
    numbers = [0, 1, 2, 3, 4, 255, 256, 2**31 - 1, 2**31]
    assert bits_of(numbers).tolist() == [n.bit_length() for n in numbers]


def test_no_number_of_a_leaf_is_longer_than_that_of_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add, seen = Growth.add_sums, []

    def noted(self: Growth, sums: Any) -> None:
        seen.append((self.leaf_widths[-1].bits(sums.shape[1]), self.slopes, sums))
        add(self, sums)

    monkeypatch.setattr(Growth, "add_sums", noted)
    grown(SECRETS, parts())
    assert len(seen) == 6 and {bits.shape for bits, *_ in seen} == {seen[0][2].shape}
    for bits, slopes, sums in seen:
        first, counts = slopes.pair(*sums)
        assert (bits_of(first) <= bits[0]).all()
        assert (bits_of(counts - slopes.least_counts(first)) <= bits[1]).all()
    # They are not those of the root.
    assert all(bits.sum(dtype=int) < seen[0][0].sum(dtype=int) for bits, *_ in seen[1:])


@given(st.data(), st.integers(1, 20), st.integers(1, 20))
def test_pairs_tell_gradients_and_counts(data: st.DataObject, over: int, under: int) -> None:
    """Of any windows, and within the bounds of the windows around them."""
    sides = st.lists(st.integers(0, 1000), min_size=3, max_size=3)  # above, below, at the target
    part, others = (np.array(data.draw(sides)) for _ in range(2))
    has_flat = bool(part[2] + others[2])
    slopes = Slopes(over, under, has_flat)

    def sums(windows: NDArray[np.int64]) -> tuple[int, int]:
        return over * windows[0] - under * windows[1], windows.sum()

    first, counts = slopes.pair(*sums(part))
    assert tuple(slopes.sums(first, counts)) == sums(part)
    assert tuple(slopes.pair(*sums(part)) + slopes.pair(*sums(others))) == tuple(
        slopes.pair(*sums(part + others))
    )
    most = slopes.largest_pair(*sums(part + others))
    assert 0 <= first <= most[0] and 0 <= counts - slopes.least_counts(first) <= most[1]
    if not has_flat:
        assert first == part[0] and counts - slopes.least_counts(first) == part[1]


@settings(max_examples=8)
@given(st.integers(3, 30), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.9]), st.booleans())
@example(3, 0, 0.5, False)
@example(22, 1, 0.9, True)
@example(41, 2, 0.5, True)
def test_no_sum_over_any_number_of_clients_is_longer_than_its_field(
    clients: int, seed: int, level: float, has_flat: bool
) -> None:
    """Of clients with one window or nearly all of them. A sum that is longer does not fit its check
    number; the trees are those without masks."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(clients + 400, 4)) * random.choice([0.1, 1, 5], 4)
    y = x[:, 0] * x[:, 1] + random.normal(size=len(x))
    y = y.round().clip(0) if has_flat else y
    shares = random.dirichlet(np.full(clients, random.choice([0.05, 1])))
    owners = np.append(np.arange(clients), random.choice(clients, 400, p=shares))
    some = [ClientWindows(x[owners == k], y[owners == k]) for k in range(clients)]
    assert grown(SimulatedSecrets(seed), some, level) == grown(None, some, level)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 45), st.data())
def test_told_widths_are_at_least_those_needed(
    before: list[int], scalar: int, data: st.DataObject
) -> None:
    limits = LeafLimits(30, 30, 0, 2)
    base = np.array(before, np.uint8)
    needed = [data.draw(st.integers(0, most)) for most in before]
    for earlier in (None, np.array([scalar], np.uint8), base):
        widths = np.minimum(needed, scalar).astype(np.uint8) if earlier is not base else needed
        widths = np.asarray(widths, np.uint8)
        message = encode_widths(LeafWidths(widths, limits), 7, earlier)
        found = decode_widths(message, None if earlier is None else earlier.tobytes())
        assert found.limits == limits and (found.widths >= widths).all()
        assert len(found.widths) == len(widths)
        if earlier is not None and len(earlier) == len(widths):
            assert (found.widths[earlier == 0] == 0).all()


def test_two_clients_are_too_few() -> None:
    with pytest.raises(ValueError, match="2 clients are left; masks hide 3 or more"):
        grown(SECRETS, parts(2))
