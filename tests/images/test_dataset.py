"""Images as clients hold them: splits keep their promises for any labels, clients and seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.base.errors import DataError
from plfl_images.data import Skew, digits, splits
from plfl_images.data.dataset import ImageDataset
from plfl_images.data.pool import ImagePool
from tests.helpers.refusals import naming


@pytest.fixture(scope="module")
def pool() -> ImagePool:
    return digits.read()


def test_digits_are_those_of_scikit_learn(pool: ImagePool) -> None:
    assert pool.shape == (1, 8, 8)
    assert len(pool.labels) == 1797
    assert np.bincount(pool.labels[: pool.training]).tolist() == [120] * 10
    assert pool.rows.shape == (1797 * 8, 8)
    assert (pool.rows.min(), pool.rows.max()) == (0, 1)


def test_clients_share_what_is_held_out(pool: ImagePool) -> None:
    dataset = ImageDataset.from_pool(pool, Skew(), 100, seed=3)
    assert dataset.clients[[0, 99]].tolist() == ["00", "99"]
    held_out = np.concatenate([dataset.starts(0, "validation"), dataset.starts(0, "test")])
    assert np.array_equal(np.sort(held_out), np.arange(1200, 1797) * 8)
    assert len(dataset.validation) == pytest.approx(199, abs=5)
    assert np.array_equal(dataset.starts(0, "test"), dataset.starts(7, "test"))
    assert np.bincount(pool.labels[dataset.validation]).min() >= 17


def test_seeds_deal_differently_and_hold_out_the_same(pool: ImagePool) -> None:
    one, again, other = (ImageDataset.from_pool(pool, Skew(), 100, seed) for seed in (0, 0, 1))
    assert np.array_equal(one.parts[0], again.parts[0])
    assert not np.array_equal(one.parts[0], other.parts[0])
    assert np.array_equal(one.test, other.test)


def test_the_window_of_an_image(pool: ImagePool) -> None:
    dataset = ImageDataset.from_pool(pool, Skew(), 100, seed=0)
    (start, *_) = dataset.starts(4, "train")
    rows = slice(start, start + dataset.look_back)
    assert np.array_equal(dataset.features[rows] * 16, pool.pixels[start // 8, 0])
    assert set(dataset.targets[rows]) == {pool.labels[start // 8]}
    assert dataset.labels_of(np.array([start])) == dataset.targets[start]
    assert dataset.shape == (8, 8, 0, 10)


def test_label_shares(pool: ImagePool) -> None:
    dataset = ImageDataset.from_pool(pool, Skew(s=4), 100, seed=0)
    assert dataset.label_counts.sum(0).tolist() == [120] * 10
    assert dataset.label_shares.sum(1) == pytest.approx(np.ones(100))
    counts = np.bincount(pool.labels[dataset.parts[5]], minlength=10)
    assert dataset.label_shares[5] == pytest.approx(counts / 12)


def test_an_impossible_split_names_the_keys(pool: ImagePool) -> None:
    with naming(DataError, "data.skew", "1201 clients", "data.clients"):
        ImageDataset.from_pool(pool, Skew(split="dirichlet"), 1201, seed=0)


def test_a_pool_survives_its_file(pool: ImagePool, tmp_path) -> None:
    pool.save(tmp_path / "digits.npz")
    again = ImagePool.load_file(tmp_path / "digits.npz")
    assert np.array_equal(again.rows, pool.rows)
    assert again.training == 1200
    (tmp_path / "digits.npz").write_bytes(b"no archive")
    with naming(DataError, "digits.npz"):
        ImagePool.load_file(tmp_path / "digits.npz")


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


@settings(max_examples=25)
@given(
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=6),
    clients=st.integers(1, 9),
    alpha=st.sampled_from([0.01, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 99),
)
def test_dirichlet_deals_no_image_twice(counts, clients, alpha, seed):
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
