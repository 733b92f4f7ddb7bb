"""Images as clients hold them."""

import numpy as np
import pytest

from plfl.base.errors import DataError
from plfl_images.data import Skew, digits
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
    dataset = ImageDataset.of(pool, Skew(), 100, seed=3)
    assert dataset.clients[[0, 99]].tolist() == ["00", "99"]
    held_out = np.concatenate([dataset.starts(0, "validation"), dataset.starts(0, "test")])
    assert np.array_equal(np.sort(held_out), np.arange(1200, 1797) * 8)
    assert len(dataset.validation) == pytest.approx(199, abs=5)
    assert np.array_equal(dataset.starts(0, "test"), dataset.starts(7, "test"))
    assert np.bincount(pool.labels[dataset.validation]).min() >= 17


def test_seeds_deal_differently_and_hold_out_the_same(pool: ImagePool) -> None:
    one, again, other = (ImageDataset.of(pool, Skew(), 100, seed) for seed in (0, 0, 1))
    assert np.array_equal(one.parts[0], again.parts[0])
    assert not np.array_equal(one.parts[0], other.parts[0])
    assert np.array_equal(one.test, other.test)


def test_the_window_of_an_image(pool: ImagePool) -> None:
    dataset = ImageDataset.of(pool, Skew(), 100, seed=0)
    (start, *_) = dataset.starts(4, "train")
    rows = slice(start, start + dataset.look_back)
    assert np.array_equal(dataset.features[rows] * 16, pool.pixels[start // 8, 0])
    assert set(dataset.targets[rows]) == {pool.labels[start // 8]}
    assert dataset.labels_of(np.array([start])) == dataset.targets[start]
    assert dataset.shape == (8, 8, 0, 10)


def test_label_shares(pool: ImagePool) -> None:
    dataset = ImageDataset.of(pool, Skew(s=4), 100, seed=0)
    assert dataset.label_counts.sum(0).tolist() == [120] * 10
    assert dataset.label_shares.sum(1) == pytest.approx(np.ones(100))
    assert dataset.label_shares[5] == pytest.approx(
        np.bincount(pool.labels[dataset.parts[5]], minlength=10) / 12
    )


def test_an_impossible_split_names_the_keys(pool: ImagePool) -> None:
    with naming(DataError, "data.skew", "1201 clients", "data.clients"):
        ImageDataset.of(pool, Skew(split="dirichlet"), 1201, seed=0)


def test_a_pool_survives_its_file(pool: ImagePool, tmp_path) -> None:
    pool.save(tmp_path / "digits.npz")
    again = ImagePool.load_file(tmp_path / "digits.npz")
    assert np.array_equal(again.rows, pool.rows)
    assert again.training == 1200
    (tmp_path / "digits.npz").write_bytes(b"no archive")
    with naming(DataError, "digits.npz"):
        ImagePool.load_file(tmp_path / "digits.npz")
