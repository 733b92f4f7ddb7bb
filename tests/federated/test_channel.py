"""What the channel counts, and what may not pass."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plfl.federated.channel import Channel
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from tests.helpers.refusals import naming

PAPER = LstmMlpNetwork(inputs=8, look_back=12, hidden=25, mlp=(150, 75), absolute=True).layout


@pytest.mark.parametrize(
    ("patterns", "both_ways"), [(["*"], 482_208), (["lstm.*"], 28_000), ([], 0)]
)
def test_bytes_of_the_paper(patterns, both_ways):
    """§1.3: bytes per client and round, down and up, in float32."""
    mask = torch.from_numpy(PAPER.mask(patterns))
    channel = Channel(int(mask.sum()), client_count=12)
    everyone = torch.arange(12)
    if channel.shared_count:
        rows = torch.zeros(12, PAPER.width)[:, mask]
        channel.send("down", everyone, rows)
        channel.send("up", everyone, rows)
    traffic = channel.close_round()
    assert (traffic["bytes_down"] + traffic["bytes_up"] == both_ways).all()
    assert (traffic["extras_down"] + traffic["extras_up"] == 0).all()


@given(st.integers(1, 50), st.integers(1, 6), st.integers(0, 3), st.integers(0, 3))
def test_parameters_and_extras_are_counted(shared, clients, arrays, scalars):
    channel = Channel(shared, clients)
    someone = torch.arange(0, clients, 2)
    extras = [torch.zeros(len(someone), shared)] * arrays + [1.0] * scalars
    channel.send("up", someone, torch.zeros(len(someone), shared), extras)
    traffic = channel.close_round()
    expected = 4 * (shared * arrays + scalars)
    for client in range(clients):
        present = client % 2 == 0
        assert traffic["extras_up"][client] == expected * present
        assert traffic["bytes_up"][client] == (4 * shared + expected) * present
        assert traffic["bytes_down"][client] == 0
    assert not any(counts.any() for counts in channel.close_round().values())


@pytest.mark.parametrize("shape", [(2, 11), (2, 9), (3, 10), (20,)])
def test_only_the_shared_parameters_of_those_present_may_cross(shape):
    channel = Channel(shared_count=10, client_count=4)
    with naming(ValueError, "10 shared", "2 clients"):
        channel.send("up", torch.tensor([0, 3]), torch.zeros(shape))
    assert not channel.close_round()["bytes_up"].any()


def test_what_arrives_is_a_copy():
    channel = Channel(shared_count=3, client_count=2)
    x, own = torch.zeros(3), torch.zeros(2, 3)
    same, _ = channel.send("down", torch.arange(2), x.expand(2, -1))
    other, _ = channel.send("up", torch.arange(2), own)
    x += 1
    other += 1
    assert not same.any()
    assert not own.any()
