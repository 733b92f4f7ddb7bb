"""Splits: what they promise holds for any labels, clients and seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl_images.data import splits
from tests.helpers.refusals import naming

LABELS = np.repeat(np.arange(10), 120)


def dealt(parts: splits.Parts) -> np.ndarray:
    return np.sort(np.concatenate(parts))


@pytest.mark.parametrize(("s", "size"), [(2, 6), (3, 4), (4, 3)])
def test_shards_of_100_clients_divide_the_digits_exactly(s: int, size: int) -> None:
    parts = splits.sort_and_partition(LABELS, 100, s, np.random.default_rng(1))
    assert np.array_equal(dealt(parts), np.arange(1200))
    for own in parts:
        counts = np.bincount(LABELS[own], minlength=10)
        assert len(own) == 12
        assert not (counts % size).any()
        assert np.count_nonzero(counts) <= s


def test_shards_of_cifar_differ_by_one_image() -> None:
    labels = np.repeat(np.arange(10), 5000)
    parts = splits.sort_and_partition(labels, 100, 3, np.random.default_rng(0))
    assert {len(own) for own in parts} <= {498, 499, 500, 501}
    assert np.array_equal(dealt(parts), np.arange(50_000))


@pytest.mark.parametrize(
    ("clients", "s", "problem"),
    [(33, 2, "cannot share 10 classes"), (1000, 2, "class 0 has 120 images for 200 shards")],
)
def test_impossible_shards(clients: int, s: int, problem: str) -> None:
    with naming(ValueError, problem):
        splits.sort_and_partition(LABELS, clients, s, np.random.default_rng(0))


@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=6),
    clients=st.integers(1, 9),
    alpha=st.sampled_from([0.01, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 99),
)
def test_dirichlet_deals_no_image_twice(
    counts: list[int], clients: int, alpha: float, seed: int
) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    random = np.random.default_rng(seed)
    if len(labels) >= clients:
        parts = splits.dirichlet_equal(labels, clients, alpha, random)
        assert {len(own) for own in parts} == {len(labels) // clients}
        assert len(np.unique(dealt(parts))) == len(labels) // clients * clients
    parts = splits.dirichlet_by_class(labels, clients, alpha, random)
    assert np.array_equal(dealt(parts), np.arange(len(labels)))


def test_the_first_client_follows_its_own_distribution() -> None:
    """Before any class is used up, a client's labels are draws from its q."""
    labels = np.repeat(np.arange(4), 20_000)
    random = np.random.default_rng(5)
    for _ in range(4):
        random.permutation(20_000)  # the images of a class
    q = random.dirichlet(np.full(4, 0.5), 20)[0]
    parts = splits.dirichlet_equal(labels, 20, 0.5, np.random.default_rng(5))
    shares = np.bincount(labels[parts[0]], minlength=4) / len(parts[0])
    assert shares == pytest.approx(q, abs=0.03)


def test_more_clients_than_images() -> None:
    with naming(ValueError, "10 images", "11 clients"):
        splits.dirichlet_equal(np.arange(10), 11, 1.0, np.random.default_rng(0))
