"""Files of plain arrays (.npz), one for each dataset or pool of images."""

import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from tokenize import TokenError
from typing import Any, TypeVar
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from plfl.base.errors import DataError, Problem
from plfl.base.files import atomic, explain_write_error

T = TypeVar("T")
AnyArray = np.ndarray[Any, Any]
ARRAY_DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error),
    # NumPy and zipfile raise these for damaged headers.
    *(SyntaxError, TokenError, RuntimeError, ArithmeticError),
)


FEWEST_MAPPED_BYTES = 2**20
"""Arrays of at least this many bytes stay in their file and are read where they are used."""
_ALIGNED = 64
"""Arrays begin at multiples of this many bytes in a file."""
_LENGTHS = 26
"""Position, in the header of a member, of the lengths of its name and of further fields."""
_HEADERS = _LENGTHS + 4 + 20
"""Bytes of the header of a member, without its name and the filler."""


class GrowingArray:
    """Arrays that are appended to each other, in an unnamed temporary file or in memory."""

    def __init__(self, folder: Path | None = None):
        """Begin; `folder`: that of the file, or None for memory."""
        self._parts: list[AnyArray] = []
        self._folder, self._file, self._rows = folder, None, 0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def append(self, new_rows: AnyArray) -> None:
        """Append a part; PlflError if the disk is full."""
        self._rows += len(new_rows)
        if self._file is None:
            self._parts.append(new_rows)
            return
        self._parts = [new_rows[:0]]
        try:
            self._file.write(np.ascontiguousarray(new_rows).tobytes())
            self._file.flush()
        except OSError as error:
            assert self._folder is not None
            raise explain_write_error(error, self._folder) from error

    def as_array(self) -> AnyArray:
        """All parts."""
        first_part, shape = self._parts[0], (self._rows, *self._parts[0].shape[1:])
        if self._file is None or not first_part[:0].itemsize * np.prod(shape):
            return np.concatenate(self._parts).reshape(shape)
        return _plain(np.memmap(self._file, first_part.dtype, "c", shape=shape))


def save(path: str | PathLike[str], arrays: dict[str, Any]) -> None:
    """Write arrays, numbers and texts by name, as `numpy.savez` does."""
    with atomic(path) as temporary, ZipFile(temporary, "w", ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = ZipInfo(f"{name}.npy")
            assert archive.fp is not None
            offset = archive.fp.tell() + _HEADERS + len(member.filename) + 4
            # A field of the header that readers skip, as zipalign writes it.
            filler = bytes(-offset % _ALIGNED)
            member.extra = struct.pack("<HH", 0xD935, len(filler)) + filler
            with archive.open(member, "w", force_zip64=True) as file:
                npy.write_array(file, np.asanyarray(array), allow_pickle=False)


def load(path: str | PathLike[str], make: Callable[[dict[str, Any]], T]) -> T:
    """The result of `make` on the arrays that `save` wrote. Large ones stay in the file. DataError
    if the file is missing or damaged, or there is too little memory."""
    path = Path(path)
    try:
        with ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"{damaged} has changed")
            arrays = {
                member.filename.removesuffix(".npy"): _read(path, archive, member)
                for member in archive.infolist()
            }
            return make(arrays)
    except MemoryError:  # checksums have found no damage, so the lengths of arrays are right
        raise DataError(
            Problem(path, "there is too little memory to read it", "close other programs")
        ) from None
    except ARRAY_DAMAGE as error:
        raise DataError(
            Problem(
                path,
                f"is damaged, or of another version ({error})",
                "make it again with `plfl study … --forcerun windows`",
            )
        ) from None


def _read(path: str | PathLike[str], archive: ZipFile, member: ZipInfo) -> AnyArray:
    with archive.open(member) as file:
        if member.file_size < FEWEST_MAPPED_BYTES or npy.read_magic(file) != (1, 0):
            with archive.open(member) as stream:
                return np.asarray(npy.read_array(stream, allow_pickle=False))
        shape, by_column, dtype = npy.read_array_header_1_0(file)
        header = file.tell()
    with Path(path).open("rb") as raw:
        raw.seek(member.header_offset + _LENGTHS)
        first = raw.tell() + 4 + sum(struct.unpack("<HH", raw.read(4))) + header
        is_plain = member.compress_type == ZIP_STORED and not by_column and not dtype.hasobject
        if not is_plain or first % _ALIGNED:
            with archive.open(member) as stream:
                return np.asarray(npy.read_array(stream, allow_pickle=False))
        return _plain(np.memmap(raw, dtype, "c", first, shape))


def _plain(mapped: AnyArray) -> AnyArray:
    """An array in a file as an ordinary one: every operation on a `memmap` makes another one, which
    takes longer than a small operation itself."""
    return mapped.view(np.ndarray)


def arrays_under(arrays: Mapping[str, AnyArray], name: str) -> dict[str, AnyArray]:
    """The arrays whose names begin with `name/`, by the rest of their names."""
    start = f"{name}/"
    return {key.removeprefix(start): x for key, x in arrays.items() if key.startswith(start)}
