"""Locks that end with the process that holds them, however it ends."""

import errno
from pathlib import Path

from filelock import FileLock, Timeout

from plfl.errors import PlflError


def hold(path: Path, *, busy: str | None = None) -> FileLock:
    """The lock on the file `path`, held; it ends with `release`, `with`, or the process.

    The operating system keeps it, so that nothing has to be cleaned up after a kill.

    Args:
        path: the lock's file; its folder is created.
        busy: what to say if another process holds it; without it, that process is waited for.

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
            f"{path.parent}: cannot be written ({error.strerror}); check its rights"
        ) from None
    return lock
