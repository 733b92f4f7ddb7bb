"""Files are whole or absent, whatever happens; a lock is one process's and ends with it."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plfl.base.errors import PlflError
from plfl.base.files import atomic, hold, remove_temporary_files, write_new_text
from tests.helpers.refusals import naming


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
    [(errno.ENOSPC, "the disk is full; free some space"), (errno.EROFS, "cannot be written")],
)
def test_faults_of_the_disk_are_explained(tmp_path: Path, number: int, message: str) -> None:
    path = tmp_path / "b.txt"
    with naming(PlflError, message), atomic(path):
        raise OSError(number, os.strerror(number))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX")
def test_what_a_killed_writer_left_is_swept_away_and_nothing_else(tmp_path: Path) -> None:
    if (child := os.fork()) == 0:
        with atomic(tmp_path / "a" / "b.txt") as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (tmp_path / "a" / "whole.txt").write_text("whole")
    assert len(list((tmp_path / "a").iterdir())) == 3  # its lock, too
    remove_temporary_files(tmp_path)
    remove_temporary_files(tmp_path / "absent")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["whole.txt"]


def test_what_is_being_written_is_not_swept_away(tmp_path: Path) -> None:
    with atomic(tmp_path / "b.txt") as temporary:
        temporary.write_text("all of it")
        remove_temporary_files(tmp_path)
    assert (tmp_path / "b.txt").read_text() == "all of it"


def test_a_second_name_of_a_finished_file_is_not_swept_away_before_it_is_renamed(tmp_path):
    (tmp_path / "a.txt").write_text("whole")
    with atomic(tmp_path / "b.txt") as temporary:
        temporary.unlink()
        os.link(tmp_path / "a.txt", temporary)
        remove_temporary_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("error", [NotImplementedError, OSError(errno.ENOLCK, "no locks")])
def test_a_file_system_without_locks_is_written_and_not_swept(tmp_path, monkeypatch, error):
    def refuse(*_: object, **__: object) -> None:
        raise error

    (tmp_path / ".tmp-1.txt").touch()
    monkeypatch.setattr("plfl.base.files.FileLock.acquire", refuse)
    with atomic(tmp_path / "b.txt") as temporary:
        temporary.write_text("all of it")
        remove_temporary_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tmp-1.txt", "b.txt"]


@pytest.mark.parametrize("name", ["x" * 300, "file/below.txt"])
def test_a_path_that_cannot_be_is_explained(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PlflError, match="cannot be written"), atomic(tmp_path / name / "b.txt"):
        pass


CODE = """
import pathlib, sys
from plfl.base.files import hold
lock = hold(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", CODE, str(tmp_path / "study" / ".lock")]
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_held_lock_is_refused_until_its_process_is_killed(holder, tmp_path):
    path = tmp_path / "study" / ".lock"
    with pytest.raises(PlflError, match=rf"study: is being worked on \(process {holder.pid} on "):
        hold(path, busy="is being worked on")
    holder.kill()
    holder.wait()
    with hold(path, busy="is being worked on") as lock:
        assert lock.is_locked


def test_without_a_word_the_other_is_waited_for(holder, tmp_path):
    command = [sys.executable, "-c", CODE, str(tmp_path / "study" / ".lock")]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
        holder.kill()
        assert waiting.communicate(timeout=60)[0] == "held\n"


def test_who_is_waited_for_is_told_before_the_wait(holder, tmp_path):
    told: list[str] = []

    def tell(words: str) -> None:
        told.append(words)
        holder.kill()  # only now can the wait end

    with hold(tmp_path / "study" / ".lock", waiting=tell):
        assert told[0].startswith(f"process {holder.pid} on ")


def test_nobody_is_told_of_a_free_lock(tmp_path):
    with hold(tmp_path / "study" / ".lock", waiting=pytest.fail):
        pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("plfl.base.files.FileLock.acquire", refuse)
    with pytest.raises(PlflError, match=r"study: cannot be written \(Permission denied\)"):
        hold(tmp_path / "study" / ".lock")


@pytest.mark.parametrize("has_links", [True, False])
def test_a_new_file_is_whole_and_replaces_none(tmp_path, monkeypatch, has_links) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UnicodeEncodeError):
        write_new_text(tmp_path / "my.yaml", "name: my\n# \ud800")
    assert not list(tmp_path.iterdir())
    write_new_text(tmp_path / "my.yaml", "name: my\n")
    with pytest.raises(FileExistsError):
        write_new_text(tmp_path / "my.yaml", "name: yours\n")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["name: my\n"]
