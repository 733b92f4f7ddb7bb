"""Atomic writing of files, digests of their content, and locks that end with their process."""

import errno
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from plfl.base.errors import PlflError

_TEMPORARY = ".tmp-"


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path` and rename it to `path` when the block succeeds;
    PlflError if the disk is full or the file cannot be written.

    Parent folders are created. If the block fails, nothing is left behind and an earlier file at
    `path` stays as it was. The temporary path has the suffix of `path`, which some writers need.
    """
    path = Path(path)
    temporary: Path | None = None
    handle: int | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=_TEMPORARY, suffix=path.suffix, dir=path.parent)
        temporary = Path(name)
        _lock(handle)
        # mkstemp makes private files; give the finished file the usual permissions.
        os.umask(mask := os.umask(0))  # the only way to read it
        temporary.chmod(0o666 & ~mask)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise explained(error, path) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file; see `atomic`."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes have left in `folder` and below it. Files
    that a running process is writing are locked and stay."""
    for path in Path(folder).rglob(f"{_TEMPORARY}*"):
        # Files that have disappeared or cannot be removed are ignored.
        with suppress(OSError), path.open("rb") as file:
            info = os.fstat(file.fileno())
            # An unlocked file with a second name is being renamed at this moment.
            fresh = info.st_nlink > 1 and time.time() - info.st_ctime < 60
            if not fresh and _lock(file.fileno()):
                path.unlink()


def _lock(file: int) -> bool:
    """Lock an open file until it is closed; False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also on file systems without locks, where nothing is removed
        return False
    return True


def sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of the content of a file, in hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(*parts: object) -> str:
    """A short fingerprint of plain data (anything JSON can represent), equal on every machine."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def explained(error: OSError, path: Path) -> PlflError:
    """An error in writing a file, with what the user can do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PlflError(f"{path}: the disk is full; free some space, then run again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PlflError(f"{path}: cannot be written ({error.strerror}); check its permissions")
    return PlflError(
        f"{path}: cannot be written ({error}); check the path, and the limits of the disk and of "
        "your account, then run again"
    )


def hold(path: Path, *, busy: str | None = None) -> FileLock:
    """Acquire the lock on the file `path`. It lasts until `release` or the end of the process. It
    is a lock of the operating system, so a killed process leaves nothing to clean up. `busy`: the
    message of a PlflError if another process holds it; None: wait. PlflError also if the folder
    cannot be written."""
    lock = FileLock(path, timeout=-1 if busy is None else 0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise PlflError(f"{path.parent}: {busy}") from None
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise PlflError(
            f"{path.parent}: cannot be written ({error.strerror}); check its permissions"
        ) from None
    return lock
