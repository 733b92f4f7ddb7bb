"""The streams of minibatches and participants."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plfl.federated.participation import Selection
from plfl.training import batches
from plfl.training.batches import draw, epoch, stream


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
        monkeypatch.setattr(batches, "kernel_draw", lambda: None)
    random = stream(3, "a", 7)
    expected = [random.choice(windows, size, replace=False) for _ in range(40)]
    assert np.array_equal(draw(3, "a", 7, windows, 40, size), expected)


@pytest.mark.parametrize("has_kernel", [True, False])
def test_no_step_has_no_minibatch(has_kernel, monkeypatch):
    if not has_kernel:
        monkeypatch.setattr(batches, "kernel_draw", lambda: None)
    for minibatches in (draw(3, "a", 7, 500, 0, 16), epoch(3, "a", 7, 500, 0, 16)):
        assert minibatches.shape == (0, 16)
        assert minibatches.dtype == np.int64


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
