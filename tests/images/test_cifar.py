"""CIFAR's binary archives, made small."""

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plfl.base.errors import DataError
from plfl_images.data import cifar
from tests.helpers.refusals import naming


def made(
    folder: Path, name: str, per_file: int = 3
) -> tuple[cifar.Archive, Path, dict[str, bytes]]:
    """An archive of the same format with a few random images per file."""
    published = cifar.ARCHIVES[name]  # type: ignore[index]
    random = np.random.default_rng(0)
    files = {
        file: random.integers(0, 10, (per_file, published.labels + 3072), np.uint8).tobytes()
        for file in (*published.training, *published.held_out)
    }
    path = folder / published.file
    with tarfile.open(path, "w:gz") as tar:
        for file, content in files.items():
            member = tarfile.TarInfo(f"cifar-binary/{file}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return replace(published, md5=hashlib.md5(path.read_bytes()).hexdigest()), path, files


@pytest.mark.parametrize(("name", "training", "label"), [("cifar10", 15, 0), ("cifar100", 3, 1)])
def test_images_and_labels(name: str, training: int, label: int, tmp_path: Path) -> None:
    archive, path, files = made(tmp_path, name)
    assert cifar.fetch(archive, tmp_path) == path
    pool = cifar.read(archive, path)
    assert (pool.training, len(pool.labels)) == (training, training + 3)
    last = np.frombuffer(files[archive.held_out[0]], np.uint8).reshape(3, -1)[2]
    assert pool.labels[-1] == last[label]
    # The first 1,024 bytes are the red channel, row by row.
    assert pool.pixels[-1, 0, 1, 5] == last[archive.labels + 32 + 5]
    rows = pool.rows[: training * 32].reshape(training, 32, 3, 32)
    assert rows.mean((0, 1, 3)) == pytest.approx(np.zeros(3), abs=1e-4)
    assert rows.std((0, 1, 3)) == pytest.approx(np.ones(3), abs=1e-4)


def test_another_file_of_this_name_is_refused(tmp_path: Path) -> None:
    archive, path, _ = made(tmp_path, "cifar10")
    with path.open("ab") as file:
        file.write(b"more")
    with naming(DataError, path, archive.md5):
        cifar.fetch(archive, tmp_path)


def test_a_damaged_archive_is_an_error(tmp_path: Path) -> None:
    archive, path, _ = made(tmp_path, "cifar100")
    path.write_bytes(path.read_bytes()[:500])
    with naming(DataError, path):
        cifar.read(archive, path)


def test_without_a_network_the_remedy_is_named(tmp_path: Path) -> None:
    archive = replace(cifar.ARCHIVES["cifar10"], url="http://127.0.0.1:9/cifar-10-binary.tar.gz")
    with naming(DataError, "10"):
        cifar.fetch(archive, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_download_is_verified(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    archive, path, _ = made(source, "cifar100")
    fetched = cifar.fetch(replace(archive, url=path.as_uri()), tmp_path / "data")
    assert fetched.read_bytes() == path.read_bytes()
