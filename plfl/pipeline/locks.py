"""Locks that are released when their process ends, even if it is killed."""

import errno
from pathlib import Path

from filelock import FileLock, Timeout

from plfl.base.errors import PlflError


def hold(path: Path, *, busy: str | None = None) -> FileLock:
    """Acquire the lock on the file `path`. It lasts until `release` or the end of the process.

    It is a lock of the operating system, so a killed process leaves nothing to clean up. `busy`:
    the message if another process holds the lock; None: wait for that process.

    Raises:
        PlflError: another process holds the lock, or the folder cannot be written.
    """
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
