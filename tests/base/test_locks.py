"""A lock is one process's, and ends with it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plfl.base.errors import PlflError
from plfl.base.files import hold

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


def test_a_held_lock_is_refused_until_its_process_is_killed(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    path = tmp_path / "study" / ".lock"
    with pytest.raises(PlflError, match=r"study: is being worked on$"):
        hold(path, busy="is being worked on")
    holder.kill()
    holder.wait()
    with hold(path, busy="is being worked on") as lock:
        assert lock.is_locked


def test_without_a_word_the_other_is_waited_for(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path / "study" / ".lock")]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
        holder.kill()
        assert waiting.communicate(timeout=60)[0] == "held\n"


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("plfl.base.files.FileLock.acquire", refuse)
    with pytest.raises(PlflError, match=r"study: cannot be written \(Permission denied\)"):
        hold(tmp_path / "study" / ".lock")
