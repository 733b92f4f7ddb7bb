"""Each codec by itself: known values, sizes and bytes of messages."""

import numpy as np
import pytest
import torch

from plfl.config.channel import ChannelSettings
from plfl.config.named import chain_of
from plfl.federated.codecs.coder import Coder, Direction, most_bytes
from plfl.federated.codecs.packing import pack, unpack
from plfl.interfaces.codec import Blocks, Codec, CodecError
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from tests.helpers.refusals import naming

PAPER = LstmMlpNetwork(inputs=8, look_back=12, hidden=25, mlp=(150, 75), absolute=True).layout
V = np.array([[3, -1, 0.5, 0]], dtype=np.float32)
ONE = Blocks((4,))
CHAINS = [
    *("f16", "bf16", "q2", "q8", "sign", "top0.1", "topq0.1", "rand0.3", "q3+rc", "topq0.2+rc"),
    *("ef14+sign", "ef14+rand0.3", "ef21+q3+rc", "ef21+topq0.1+rc", "delta+bf16", "delta+q3+rc"),
]


class Constant:
    """Random numbers that are all the same."""

    def random(self, count, dtype):
        return np.full(count, 0.2, dtype)


def codec(name: str) -> Codec:
    found = chain_of(name, "up").codec
    assert isinstance(found, Codec)
    return found


def lengths(*patterns: str) -> list[int]:
    mask = PAPER.mask(list(patterns))
    return [int(mask[some].sum()) for some in PAPER.slices.values() if mask[some].any()]


def coder(up: str = "none", sizes=(4,), scales="tensor", **further) -> Coder:
    settings = ChannelSettings(up=up, scales=scales, **further)

    def streams(purpose, clients, t):
        return [np.random.default_rng([i, t, len(purpose)]) for i in clients]

    made = Coder(settings, sizes, torch.zeros(sum(sizes)), 3, streams)
    made.begin(1)
    return made


@pytest.mark.parametrize(
    ("name", "decoded", "codes"),
    [
        ("q4", [3, -9 / 7, 3 / 7, 0], "4e78"),
        ("q3", [3, -1, 1, 0], "1607"),
        ("sign", [1.125, -1.125, 1.125, 1.125], "0d"),
    ],
)
def test_a_message_written_by_hand(name, decoded, codes):
    one = codec(name)
    fields = one.encode(V, ONE, [Constant()])
    message = pack(one.fields(ONE), fields)
    assert message[0, 4:].tobytes().hex() == codes
    found = one.decode(unpack(one.fields(ONE), message), ONE, [Constant()], False)
    np.testing.assert_allclose(found, [decoded], rtol=1e-6)
    zero = one.encode(0 * V, ONE, [Constant()])
    assert not one.decode(zero, ONE, [Constant()], False).any()


@pytest.mark.parametrize(
    ("name", "scales", "patterns", "expected"),
    [
        ("bf16", "tensor", "*", 120_552),
        ("q8", "tensor", "lstm.*", 3516),
        ("q4", "one", "lstm.*", 1754),
        ("q3", "tensor", "*", 22_652),
        ("q2", 64, "lstm.*", 1095),
        ("sign", 64, "lstm.*", 658),
        ("sign", "tensor", "*", 7583),
        ("top0.05", "tensor", "lstm.*", 1050),
        ("top0.1", "tensor", "*", 31_647),
        ("topq0.05", "tensor", "lstm.*", 529),
        ("topq0.1", "tensor", "*", 13_567),
        ("rand0.1", "tensor", "*", 24_112),
    ],
)
def test_bytes_of_the_papers_models(name, scales, patterns, expected):
    own = coder(name, lengths(patterns), scales)
    rows = torch.randn(2, own.blocks.width, generator=torch.Generator().manual_seed(0))
    messages = own.encode("up", torch.tensor([0, 2]), rows)
    assert [len(one) for one in messages] == [expected] * 2
    assert most_bytes(own.up, own.blocks) == expected


@pytest.mark.parametrize(("name", "bound"), [("f16", 2**-11), ("bf16", 2**-8)])
def test_halves_round_to_the_nearest(name, bound):
    v = np.random.default_rng(0).standard_normal((1, 4000)).astype(np.float32)
    one, blocks = codec(name), Blocks((4000,))
    found = one.decode(one.encode(v, blocks, []), blocks, [], False)
    assert (np.abs(found - v) <= bound * np.abs(v)).all()
    dtype = torch.float16 if name == "f16" else torch.bfloat16
    assert torch.equal(torch.from_numpy(found), torch.from_numpy(v).to(dtype).float())


@pytest.mark.parametrize(
    ("name", "omega"), [("q8", 0.000145), ("q4", 0.048187), ("q3", 0.257416), ("q2", 1.986806)]
)
def test_quantisation_is_unbiased_with_the_variance_of_its_source(name, omega):
    """(a/s)² p (1 − p) for each number; ω, their sum, for 2,500 normal ones."""
    one, n = codec(name), 5000
    random = [np.random.default_rng(i) for i in range(n)]
    drawn = one.decode(one.encode(np.repeat(V, n, 0), ONE, random), ONE, random, False)
    w = np.abs(V[0]) / 3 * one.steps
    variance = (3 / one.steps) ** 2 * (w % 1) * (1 - w % 1)
    assert (np.abs(drawn.mean(0) - V[0]) <= 5 * np.sqrt(variance / n) + 1e-6).all()
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.1, atol=1e-9)
    assert one.contraction == (pytest.approx(1 - omega) if omega < 1 else None)


@pytest.mark.parametrize(
    "name", ["f16", "bf16", "q8", "q4", "q3", "q2", "sign", "top0.1", "topq0.1", "rand0.1"]
)
def test_codecs_are_as_biased_and_as_exact_as_they_say(name):
    """E‖C(v) − v‖² ≤ (1 − α)‖v‖² with a memory, and E C(v) = v without one if `is_unbiased`."""
    one, n, blocks = codec(name), 200, Blocks((1000,))
    v = np.random.default_rng(5).standard_normal((1, 1000)).astype(np.float32)

    def drawn(remembers):
        ends = [[np.random.default_rng(i) for i in range(n)] for _ in range(2)]
        fields = one.encode(np.repeat(v, n, 0), blocks, ends[0])
        return one.decode(fields, blocks, ends[1], remembers).astype(np.float64)

    size = (v.astype(np.float64) ** 2).sum()
    if one.contraction is not None:
        error = ((drawn(True) - v) ** 2).sum(1).mean()
        assert error <= 1.05 * (1 - one.contraction) * size
    found = drawn(False)
    single, error_of_mean = ((found - v) ** 2).sum(1).mean(), ((found.mean(0) - v) ** 2).sum()
    assert (error_of_mean <= 2 * single / n) == one.is_unbiased


@pytest.mark.parametrize("kept", [3, 300])
def test_the_largest_numbers_arrive_where_they_were(kept):
    """Both forms of the index: a list of 3, and a mask for 300 of 2,000."""
    width = 2000
    random = np.random.default_rng(0)
    v = random.standard_normal((2, width)).astype(np.float32).round(1)  # with ties
    order = np.lexsort((np.broadcast_to(np.arange(width), v.shape), -np.abs(v)))[:, :kept]
    expected = np.zeros_like(v)
    np.put_along_axis(expected, order, np.take_along_axis(v, order, 1), 1)
    for name, error in (("top", 0), ("topq", np.abs(v).max() / 127)):
        own, clients = coder(f"{name}{kept / width}", [width]), torch.arange(2)
        messages = own.encode("up", clients, torch.from_numpy(v))
        found = own.decode("up", clients, messages, torch.from_numpy(v)).numpy()
        assert np.abs(found - expected).max() <= error
        assert ((found != 0) <= (expected != 0)).all()
        if kept == 3:
            swapped = torch.cat([messages[0][2:4], messages[0][:2], messages[0][4:]])
            with pytest.raises(CodecError, match="out of order"):
                own.check("up", swapped)


@pytest.mark.parametrize(
    ("name", "law", "packed", "coded"), [("q3", "laplace", 938, 439), ("q4", "normal", 1250, 946)]
)
def test_rc_shortens_without_loss(name, law, packed, coded):
    """To the entropy of 2,500 values, which varies by a tenth with the largest of them."""
    pytest.importorskip("constriction")
    rows = torch.from_numpy(getattr(np.random.default_rng(1), law)(size=(2, 2500))).float()
    clients, whole, short = torch.arange(2), coder(name, [2500]), coder(f"{name}+rc", [2500])
    messages, shorter = (own.encode("up", clients, rows) for own in (whole, short))
    found = [
        short.decode("up", clients, shorter, rows),
        whole.decode("up", clients, messages, rows),
    ]
    assert torch.equal(*found)
    _, codes = unpack(codec(name).fields(whole.blocks), messages[0].numpy()[None])
    p = np.unique(codes, return_counts=True)[1] / 2500
    entropy = -(p * np.log2(p)).sum() * 2500 / 8
    assert entropy == pytest.approx(coded, rel=0.1)
    # A scale, the form, a frequency for each level, a checksum, and at most 2 % above the entropy.
    head = 4 + 1 + (2 * codec(name).steps + 1) + 2
    assert head + entropy <= len(shorter[0]) <= head + 1.02 * entropy + 4
    assert len(messages[0]) == 4 + packed


@pytest.mark.parametrize("values", ["one", "few", "flat", "zero"])
def test_rc_never_needs_more_than_one_byte_more(values):
    pytest.importorskip("constriction")
    drawn = torch.rand(1, {"one": 1, "few": 5}.get(values, 400)) * 2 - 1
    drawn = drawn * (values != "zero")
    own = coder("q8+rc", [drawn.shape[1]], scales="one")
    (message,) = own.encode("up", torch.arange(1), drawn)
    assert len(message) <= most_bytes(own.up, own.blocks) == 4 + 1 + drawn.shape[1]
    found = own.decode("up", torch.arange(1), [message], drawn)
    assert (found - drawn).abs().max() <= drawn.abs().max() / 127


@pytest.mark.parametrize("chain", CHAINS)
def test_what_a_sender_remembers_is_what_a_receiver_remembers(chain):
    """In each round, for some of the clients, whether or not the receiver is another process."""
    if chain.endswith("+rc"):
        pytest.importorskip("constriction")
    direction: Direction = "down" if chain.startswith("delta") else "up"
    both, apart = (coder(**{direction: chain}, sizes=[30, 10]) for _ in range(2))
    for t, some in enumerate(([0, 1, 2], [2, 0], [1], [0, 1, 2]), start=1):
        clients = torch.tensor(some)
        rows = torch.randn(len(some), 40, generator=torch.Generator().manual_seed(t))
        for own in (both, apart):
            own.begin(t)
        messages = both.encode(direction, clients, rows)
        decoded = [own.decode(direction, clients, messages, rows) for own in (both, apart)]
        assert torch.equal(*decoded)
        for own in (both, apart):
            own.commit("receiver" if direction == "up" else "sender", clients)
            own.commit("sender" if direction == "up" else "receiver", clients)
        for key, kept in both.memory.items():
            end = key.replace("sender", "receiver") if "ef14" not in chain else key
            assert torch.equal(kept, both.memory[end])
        if not chain.startswith("ef14"):
            assert all(torch.equal(kept, both.memory[key]) for key, kept in apart.memory.items())


def test_damaged_codes_are_refused():
    """Any changed bit, and any other length, is found: or else the checksum of 16 bits fits."""
    pytest.importorskip("constriction")
    own = coder("q3+rc", [900])
    rows = torch.randn(1, 900, generator=torch.Generator().manual_seed(0))
    (message,) = own.encode("up", torch.arange(1), rows)
    random = np.random.default_rng(0)
    for _ in range(300):
        bad = message.numpy().copy()
        bad[random.integers(4 + 1, len(bad))] ^= 1 << random.integers(8)
        with pytest.raises(CodecError):
            own.check("up", torch.from_numpy(bad))
    for bad in (message[:-1], message[:-4], message[:4], message.repeat(9), message[:20]):
        with pytest.raises(CodecError):
            own.check("up", bad)
    for form in (0, 2, 255):
        bad = message.clone()
        bad[4] = form
        with pytest.raises(CodecError):
            own.check("up", bad)
    with pytest.raises(CodecError):
        own.check("up", torch.cat([message[:12] * 0, message[12:]]))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e10])
def test_what_is_not_finite_is_not_encoded(value):
    own, clients = coder("q3", [4, 4]), torch.arange(2)
    rows = torch.ones(2, 8)
    rows[0, 3] = value
    messages = own.encode("up", clients, rows)
    assert [len(message) for message in messages] == [0, 11]
    found = own.decode("up", clients, messages, rows)
    assert found[0].isnan().all()
    assert (found[1] == 1).all()
    with pytest.raises(CodecError, match="empty"):
        own.check("up", messages[0])


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("q3", lambda m: m[:-1], "has 5 bytes, expected 6"),
        ("q3", lambda m: np.r_[m, np.uint8(0)], "has 7 bytes, expected 6"),
        ("q3", lambda m: np.r_[np.float32([np.nan]).view(np.uint8), m[4:]], "not finite"),
        ("q3", lambda m: np.r_[np.float32([1e38]).view(np.uint8), m[4:]], "implausible"),
        ("q3", lambda m: np.r_[m[:4], np.uint8([7, 0])], "the code 7, which is not below 7"),
        ("q3", lambda m: np.r_[m[:5], np.uint8([128])], "bits after its last code"),
        ("bf16", lambda m: np.r_[m[:-2], np.uint8([128, 127])], "not finite"),
        ("f16", lambda m: np.r_[m[:-2], np.uint8([0, 124])], "not finite"),
        ("top0.4", lambda m: np.r_[np.uint8([7]), m[1:]], "another number of places"),
        ("top0.4", lambda m: np.r_[np.uint8([128 + 1]), m[1:]], "bits after"),
        ("topq0.2", lambda m: np.r_[m[:-1], np.uint8([255])], "the code 255"),
        ("rand0.4", lambda m: np.r_[m[:4], np.float32([np.inf]).view(np.uint8)], "not finite"),
    ],
)
def test_hostile_messages_are_refused(name, damage, problem):
    own = coder(name, [5])
    (message,) = own.encode("up", torch.arange(1), torch.ones(1, 5))
    bad = torch.from_numpy(damage(message.numpy()))
    for read in (own.check, lambda d, m: own.decode(d, torch.arange(1), [m], torch.ones(1, 5))):
        with naming(CodecError, problem):
            read("up", bad)
