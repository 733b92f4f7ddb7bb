"""Files that are either whole or absent, and how to tell one from another."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plfl.errors import PlflError


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path` and rename it to `path` when the block succeeds.

    Parent folders are created. When the block fails nothing is left behind and an earlier file
    under `path` stays as it was. The suffix of `path` is kept, for writers that look at it.

    Raises:
        PlflError: the disk is full or the folder cannot be written, with the path and the remedy.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".tmp-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        # mkstemp makes files private; give the finished file the rights any other file would have.
        temporary.chmod(0o666 & ~_umask())
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise _explained(error, path) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content, in hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _explained(error: OSError, path: Path) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PlflError(f"{path}: the disk is full; free some space, then run again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PlflError(f"{path}: cannot be written ({error.strerror}); check its rights")
    return error
