"""Receipts: the files that the data of a state come from, and whether they are unchanged."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plfl.base.errors import DataError
from plfl.base.files import sha256

Receipt = dict[str, Any]
"""`source`; `files`: the SHA-256 of each file, by its path from the working directory; `clients`:
by name, further information about each client as text."""


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of files, as a receipt lists them."""
    return {str(path): sha256(path) for path in paths}


def read_receipt(path: Path) -> Receipt:
    """The receipt that the `download` rule wrote at `path`.

    Raises:
        DataError: it is missing or damaged.
    """
    try:
        receipt: Receipt = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(digest, str) for digest in receipt["files"].values()):
            raise ValueError("a digest is not text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: is damaged ({error}); write it again with `plfl study … --forcerun download`"
        ) from None
    return receipt


def verify(receipt: Receipt) -> None:
    """Check that the files of a receipt have not changed.

    Raises:
        DataError: one is missing or has changed.
    """
    for name, digest in receipt["files"].items():
        path = Path(name)
        try:
            if sha256(path) == digest:
                continue
            fault = "has changed"
        except FileNotFoundError:
            fault = "was deleted"
        except (OSError, ValueError) as error:
            fault = f"has become unreadable ({error})"
        raise DataError(
            f"{path}: {fault} since the data were fetched; fetch them again with "
            "`plfl study … --forcerun download`"
        )
