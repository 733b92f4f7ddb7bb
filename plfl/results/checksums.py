"""Checksums by which a changed or cut file of results is noticed.

A Parquet file of plfl carries its own, like the header of a tar archive: the SHA-256 of the whole
file in which the checksum itself is zeros. Of the tables of a study, CSV and JSON included,
`SHA256SUMS` has them, which `sha256sum --check` reads.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from plfl.base.files import sha256, write_text

CHECKSUMS_FILE = "SHA256SUMS"
KEY = b"plfl.sha256"
"""Key of the checksum in the metadata of a Parquet file."""
BLANK = b"0" * 64
"""The checksum of a file that is not sealed yet."""
# A key and a value as a Parquet file stores them, in the compact protocol of Thrift.
_FIELD = re.compile(re.escape(KEY) + rb"\x18\x40([0-9a-f]{64})")
_BLOCK = 1 << 20


def seal(path: Path) -> None:
    """Write its checksum into a Parquet file whose metadata have `BLANK` under `KEY`."""
    place = _place(path)
    assert place is not None
    checksum = sha256(path).encode()
    with path.open("r+b") as file:
        file.seek(place)
        file.write(checksum)


def verify(path: Path, *, is_required: bool = True) -> None:
    """Compare a Parquet file with its checksum; ValueError if it has changed, or has none although
    one is `is_required`: older versions of plfl wrote none."""
    place = _place(path)
    if place is None:
        if is_required:
            raise ValueError("it has no checksum")
        return
    digest = hashlib.sha256()
    with path.open("rb") as file:
        bytes_left = place
        while bytes_left and (block := file.read(min(bytes_left, _BLOCK))):
            digest.update(block)
            bytes_left -= len(block)
        checksum = file.read(len(BLANK))
        digest.update(BLANK)
        while block := file.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest().encode() != checksum:
        raise ValueError("it has changed since it was written")


def fault_of(path: Path) -> str:
    """What is wrong with a Parquet file of plfl, in words; empty if it is whole."""
    try:
        verify(path)
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _place(path: Path) -> int | None:
    """Where the checksum of a Parquet file begins; None without one. ValueError if it is cut."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        tail = file.read()
        if len(tail) < 8 or tail[4:] != b"PAR1":
            raise ValueError("it is cut, or no Parquet file")
        start = max(0, size - 8 - int.from_bytes(tail[:4], "little"))
        file.seek(start)
        fields = list(_FIELD.finditer(file.read()))
    return start + fields[-1].start(1) if fields else None


def write_sums(folder: Path) -> None:
    """Write `SHA256SUMS` with the checksums of all tables in a folder of results."""
    tables = [*folder.glob("*.parquet"), *folder.glob("*.csv"), *folder.glob("study.json")]
    lines = [f"{sha256(path)}  {path.name}\n" for path in sorted(tables)]
    write_text(folder / CHECKSUMS_FILE, "".join(lines))


def changed_tables(folder: Path) -> Iterator[Path]:
    """The tables of a results folder that differ from `SHA256SUMS`; the latter if it is damaged."""
    sums = folder / CHECKSUMS_FILE
    try:
        lines = sums.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError):
        lines = [""]
    for line in lines:
        checksum, _, name = line.partition("  ")
        if not re.fullmatch("[0-9a-f]{64}", checksum) or Path(name).name != name:
            yield sums
        elif (path := folder / name).is_file() and sha256(path) != checksum:
            yield path
