"""The streams of minibatches and participants."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plfl.experiments.trainer import network_of
from plfl.federated.client_data import ClientData
from plfl.federated.participation import Selection
from plfl.training import batches
from plfl.training.batches import draw, epoch, stream
from plfl.training.stacked import Stacked
from tests.helpers import tiny


@given(st.integers(0, 2**32), st.integers(1, 50), st.integers(1, 9), st.integers(1, 12))
def test_minibatches_are_drawn_without_replacement(seed, t, steps, size):
    drawn = draw(seed, "a", t, 12, steps, size)
    assert drawn.shape == (steps, size)
    assert all(len(set(batch)) == size for batch in drawn.tolist())
    assert drawn.min() >= 0
    assert drawn.max() < 12
    assert np.array_equal(drawn, draw(seed, "a", t, 12, steps, size))


@pytest.mark.parametrize(
    ("windows", "size"),
    [
        *((1, 1), (12, 5), (64, 64), (500, 16), (35_000, 64)),
        *((9_999, 700), (10_000, 300), (10_001, 201)),  # where numpy changes its way
        (30_000_000, 64),  # where a number in a range is now and then drawn again
    ],
)
@pytest.mark.parametrize("has_kernel", [True, False])
def test_minibatches_are_those_of_numpy(windows, size, has_kernel, monkeypatch):
    if not has_kernel:
        monkeypatch.setattr(batches, "_draw_in_kernel", lambda: None)
    random = stream(3, "a", 7)
    expected = [random.choice(windows, size, replace=False) for _ in range(40)]
    assert np.array_equal(draw(3, "a", 7, windows, 40, size), expected)


def test_streams_differ_by_seed_client_and_round():
    keys = [(0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2)]
    assert len({tuple(stream(*key).integers(0, 1 << 30, 4)) for key in keys}) == 4


def test_every_window_is_equally_likely():
    counts = np.bincount(draw(0, "a", 1, 50, 4000, 16).ravel(), minlength=50)
    expected = 4000 * 16 / 50
    assert np.abs(counts - expected).max() < 5 * expected**0.5


def test_epochs_walk_through_shuffled_passes():
    rounds = [epoch(0, "a", first, 22, 3, 4) for first in range(0, 15, 3)]
    steps = np.concatenate(rounds)
    for first in range(0, 15, 5):
        seen = steps[first : first + 5].ravel().tolist()
        assert len(set(seen)) == 20
    assert not np.array_equal(steps[:5], steps[5:10])


@given(st.integers(0, 100), st.integers(1, 100), st.floats(0.01, 1), st.permutations("abcdefg"))
def test_who_takes_part_depends_on_names_alone(seed, t, share, names):
    names = list(names)
    chosen = {names[i] for i in Selection(seed, names, share).draw(t)}
    assert len(chosen) == max(1, math.floor(7 * share + 0.5))
    ordered = sorted(names)
    assert chosen == {ordered[i] for i in Selection(seed, ordered, share).draw(t)}


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_everybody_gets_a_turn(share):
    seen = {int(i) for t in range(1, 60) for i in Selection(0, list("abcdefgh"), share).draw(t)}
    assert seen == set(range(8))


def test_rounds_go_through_the_passes_from_their_beginning():
    study = tiny.study(federation={"batches": "epoch"})
    dataset = tiny.dataset()
    engine = Stacked(network_of(study, dataset.shape), dataset, torch.device("cpu"))
    client_data = ClientData(dataset, engine, study.federation, 10)
    rounds = [client_data.minibatches(torch.arange(3), t, 4) for t in (1, 2, 3)]
    for i, (name, found) in enumerate(
        zip(client_data.names, torch.cat(rounds, dim=1), strict=True)
    ):
        starts = dataset.starts(i, "train")
        wanted = starts[epoch(10, name, 0, len(starts), 12, 8)]
        assert np.array_equal(found.numpy(), wanted)
