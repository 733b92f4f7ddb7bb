"""Files that are either whole or absent, and how to tell one from another."""

import errno
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from plfl.errors import PlflError

_TEMPORARY = ".tmp-"


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path` and rename it to `path` when the block succeeds.

    Parent folders are created. When the block fails nothing is left behind and an earlier file
    under `path` stays as it was. The suffix of `path` is kept, for writers that look at it.

    Raises:
        PlflError: the disk is full or the file cannot be written, with the path and the remedy.
    """
    path = Path(path)
    temporary: Path | None = None
    handle: int | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=_TEMPORARY, suffix=path.suffix, dir=path.parent)
        temporary = Path(name)
        _lock(handle)
        # mkstemp makes files private; give the finished file the rights any other file would have.
        temporary.chmod(0o666 & ~_umask())
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise _explained(error, path) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove what `atomic` left in `folder`, and below it, when its process was killed.

    What a living process is writing stays: it holds a lock on it.
    """
    for path in Path(folder).rglob(f"{_TEMPORARY}*"):
        # Whoever may not remove it, or finds it gone, has nothing to mend.
        with suppress(OSError), path.open("rb") as file:
            info = os.fstat(file.fileno())
            # A second name of a finished file is not locked, but has its own one in no time.
            fresh = info.st_nlink > 1 and time.time() - info.st_ctime < 60
            if not fresh and _lock(file.fileno()):
                path.unlink()


def _lock(file: int) -> bool:
    """Lock an open file for as long as it is open; False if another process has it locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also where the file system knows no locks: there nothing is swept
        return False
    return True


def sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content, in hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _explained(error: OSError, path: Path) -> PlflError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PlflError(f"{path}: the disk is full; free some space, then run again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PlflError(f"{path}: cannot be written ({error.strerror}); check its rights")
    return PlflError(
        f"{path}: cannot be written ({error}); check the path, and the limits of the disk and of "
        "your account, then run again"
    )
