"""Atomic writing of files, digests of their content, and locks that end with their process."""

import errno
import hashlib
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from plfl.base.errors import PlflError, Problem

_TEMPORARY = ".tmp-"
_LOCK = ".lock"
"""What the name of a temporary file has more where it is the lock of the file."""
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""Errors of file systems without locks."""


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path` and rename it to `path` when the block succeeds;
    PlflError if the disk is full or the file cannot be written.

    Parent folders are created. If the block fails, nothing is left behind and an earlier file at
    `path` stays as it was. The temporary path has the suffix of `path`, which some writers need.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_file(path) as temporary:
            yield temporary
            temporary.replace(path)
    except OSError as error:
        raise explain_write_error(error, path) from error


@contextmanager
def _temporary_file(path: Path) -> Iterator[Path]:
    """Make an empty file beside `path` with its suffix, and hold its lock, so that
    `remove_temporary_files` leaves it; then remove both. The lock is a file of its own, because
    Windows neither writes nor renames a locked file."""
    temporary = path.with_name(f"{_TEMPORARY}{secrets.token_hex(8)}{path.suffix}")
    lock = FileLock(temporary.with_name(temporary.name + _LOCK))
    try:
        lock.acquire()
    except NotImplementedError:
        pass
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    try:
        temporary.open("xb").close()
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def user_cache() -> Path:
    """The folder of what is made once on this machine for all studies. RuntimeError: the user has
    no home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plfl"


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file; see `atomic`."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_new_text(path: Path, text: str) -> None:
    """Write a text file that is not there yet. FileExistsError: it is there, and stays as it was;
    OSError: it cannot be written, and nothing is left behind."""
    with _temporary_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
            temporary.replace(path)


def remove_temporary_files(folder: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes have left in `folder` and below it. Files
    that a running process is writing are locked and stay, as do those on a file system without
    locks."""
    for path in [*Path(folder).rglob(f"{_TEMPORARY}*")]:
        lock_file = path if path.suffix == _LOCK else path.with_name(path.name + _LOCK)
        # Files that have disappeared or cannot be removed are ignored.
        with suppress(OSError, NotImplementedError, Timeout):
            if path.is_file():
                with FileLock(lock_file, timeout=0):
                    path.unlink()
                lock_file.unlink(missing_ok=True)


def sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of the content of a file, in hexadecimal digits."""
    return _hash_content(path, "sha256")


def md5(path: str | os.PathLike[str]) -> str:
    """MD5 of the content of a file, in hexadecimal digits, where its publisher gives no other."""
    return _hash_content(path, "md5")


def _hash_content(path: str | os.PathLike[str], algorithm: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def digest(*parts: object) -> str:
    """A short fingerprint of plain data (anything JSON can represent), equal on every machine."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def explain_write_error(error: OSError, path: Path) -> PlflError:
    """An error in writing a file, with what the user can do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PlflError(Problem(path, "the disk is full", "free some space, then run again"))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PlflError(
            Problem(path, f"cannot be written ({error.strerror})", "check its permissions")
        )
    return PlflError(
        Problem(
            path,
            f"cannot be written ({error})",
            "check the path, and the limits of the disk and of your account, then run again",
        )
    )


def hold(
    path: Path, *, busy: str | None = None, waiting: Callable[[str], None] | None = None
) -> FileLock:
    """Acquire the lock on the file `path`. It lasts until `release` or the end of the process. It
    is a lock of the operating system, so a killed process leaves nothing to clean up.

    `busy`: the message of a PlflError if another process holds it; None: wait. `waiting` is called
    with the words for that process, such as `process 12 on homer since 2026-01-31 12:00`, before
    the wait. PlflError also if the folder cannot be written.
    """
    lock, holder = FileLock(path), path.with_name(f"{path.name}.holder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            words = _held_by(holder)
            if busy is not None:
                raise PlflError(Problem(path.parent, f"{busy} ({words})")) from None
            if waiting is not None:
                waiting(words)
            lock.acquire()
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise PlflError(
            Problem(path.parent, f"cannot be written ({error.strerror})", "check its permissions")
        ) from None
    since = datetime.now().strftime("%Y-%m-%d %H:%M")
    with suppress(OSError):  # only for messages
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}")
    return lock


def _held_by(holder: Path) -> str:
    """The process that holds a lock, in words."""
    try:
        return holder.read_text(encoding="utf-8") or "another process"
    except (OSError, ValueError):
        return "another process"
