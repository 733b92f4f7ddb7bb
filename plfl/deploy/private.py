"""Files and folders that their user alone can read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plfl.errors import PlflError
from plfl.files import atomic


def private_folder(folder: Path) -> None:
    """Make a folder that its user alone can read.

    Raises:
        PlflError: it is there, and others can read it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder)


def check_private(path: Path) -> None:
    """Make sure that a file or folder is its user's alone.

    Raises:
        PlflError: others can read it; with the remedy.
    """
    if path.stat().st_mode & 0o077:
        raise PlflError(
            f"{path}: others can read it; run `chmod {700 if path.is_dir() else 600} {path}`"
        )


@contextmanager
def private(path: Path) -> Iterator[Path]:
    """As `atomic`, for a file that its user alone can read."""
    with atomic(path) as temporary:
        temporary.chmod(0o600)
        yield temporary
