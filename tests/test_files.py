"""Files are whole or absent, whatever happens while they are written."""

import errno
import os
from pathlib import Path

import pytest

from plfl.errors import PlflError
from plfl.files import atomic, sha256


def test_a_file_appears_whole_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    with atomic(path) as temporary:
        temporary.write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


def test_a_failure_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "b.txt"
    path.write_text("before")
    with pytest.raises(KeyError), atomic(path) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full; free some space"),
        (errno.EROFS, "cannot be written"),
    ],
)
def test_faults_of_the_disk_are_explained(tmp_path: Path, number: int, message: str) -> None:
    path = tmp_path / "b.txt"
    with pytest.raises(PlflError, match=message), atomic(path):
        raise OSError(number, os.strerror(number))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_real_full_device_is_explained(tmp_path: Path) -> None:
    with pytest.raises(PlflError, match="disk is full"), atomic(tmp_path / "b.txt"):
        Path("/dev/full").write_text("x")


def test_sha256_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert sha256(tmp_path / "empty").startswith("e3b0c44298fc1c149afbf4c8996fb924")
