"""Files and folders that only their user can read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plfl.base.errors import PlflError
from plfl.base.files import atomic


def private_folder(folder: Path) -> None:
    """Create a folder that only its user can read.

    Raises:
        PlflError: the folder exists and other users can read it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder)


def check_private(path: Path) -> None:
    """Check that only its user can read a file or folder."""
    if path.stat().st_mode & 0o077:
        raise PlflError(
            f"{path}: other users can read it; run `chmod {700 if path.is_dir() else 600} {path}`"
        )


@contextmanager
def private(path: Path) -> Iterator[Path]:
    """As `atomic`, for a file that only its user can read."""
    with atomic(path) as temporary:
        temporary.chmod(0o600)
        yield temporary
