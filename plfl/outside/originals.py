"""Downloads the public originals of a frozen task, and makes the tables that it reads.

A download that was cut off goes on where it ended. Every file is compared with the size and the
SHA-256 in `originals.toml` before it gets its name.
"""

from __future__ import annotations

import http.client
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote, urljoin

from plfl.base.errors import DataError, Problem
from plfl.base.files import sha256
from plfl.base.text import count_in_words, readable_size
from plfl.config.data import Data
from plfl.outside.frozen import BenchmarkTask
from plfl.outside.recipes import write_tables

CHUNK_BYTES = 1 << 20
"""Bytes that are read and written at a time."""
DOWNLOAD_TIMEOUT = 60.0
"""Seconds without a byte after which a server counts as gone."""
DOWNLOAD_TRIES = 5
"""Times that a file is asked for before the command gives up; every byte that arrived is kept."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class OriginalFile:
    """A file of an original."""

    path: str
    """Below the address and the folder of the original."""
    size: int
    sha256: str


@dataclass(frozen=True)
class Original:
    """What is published, and where."""

    name: str
    """The folder of the tables that are made from it."""
    title: str
    page: str
    licence: str
    base: str
    """The address of its files, before their paths."""
    folder: str
    """Its folder among the originals; empty: none of its own."""
    files: tuple[OriginalFile, ...]
    """None, if no address has a fixed content; `by_hand` then says what a person downloads."""
    by_hand: str = ""

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    def describe(self, base: str = "") -> str:
        """What is downloaded from which address, with a line for each file."""
        count = count_in_words(len(self.files), "file")
        size = f"{count}, {readable_size(self.size)}" if self.files else ""
        facts = ", ".join(filter(None, [size, f"licence {self.licence}"]))
        address = base or self.base
        lines = [self.title, f"  {self.page}", f"  {facts}", *[f"  from {address}"] * bool(address)]
        lines += (
            f"  {file.path}, {file.size:,} bytes, SHA-256 {file.sha256}" for file in self.files
        )
        return "\n".join(lines)


@cache
def originals() -> dict[str, Original]:
    """All originals, by name."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {
        name: Original(
            name=name,
            **{key: value for key, value in fields.items() if key != "files"},
            files=tuple(OriginalFile(*file) for file in fields["files"]),
        )
        for name, fields in tomllib.loads(text).items()
    }


def original_of(task: BenchmarkTask) -> Original | None:
    """The original whose tables a task reads; None if it reads none."""
    data = task.data_study.data
    if data.source != "meters":
        return None
    folders = {path.parent.name for path in _tables(data)}
    return next((original for name, original in originals().items() if name in folders), None)


def missing_tables(task: BenchmarkTask) -> list[Path]:
    """The tables of its original that a task reads and that are not there."""
    if original_of(task) is None:
        return []
    return [path for path in _tables(task.data_study.data) if not path.exists()]


def _tables(data: Data) -> list[Path]:
    """The exports of all states."""
    return [path for state in data.states for path in data.meters.exports_of(state)]


def fetch(original: Original, data: Path, base: str = "", say: Say = print) -> dict[Path, int]:
    """Download the files of an original that are not there yet, and make its tables in the folder
    `data`; the number of meters of each.

    `base`: another address of the same files. What was downloaded stays in `data/originals`.

    Raises:
        DataError: the original has to be downloaded by hand, the server cannot be reached or sends
            other content, or the files hold no table.
    """
    folder = data / "originals" / original.name
    if not original.files and not (folder.is_dir() and any(folder.iterdir())):
        raise DataError(
            Problem(
                original.title,
                "no address of it has a fixed content",
                f"download {original.by_hand} from {original.page} into {folder}, then run this "
                "again",
            )
        )
    address = base or original.base
    for number, file in enumerate(original.files, 1):
        path = folder / original.folder / file.path
        if path.is_file() and path.stat().st_size == file.size and sha256(path) == file.sha256:
            continue
        source = urljoin(address.rstrip("/") + "/", quote(file.path))
        download(source, path, file)
        say(f"{number} of {len(original.files)}: {path}")
    tables = write_tables(folder, data)
    if not tables:
        raise DataError(Problem(folder, "holds no original from which a table can be made"))
    return tables


def download(source: str, path: Path, file: OriginalFile) -> None:
    """Download a file; what an earlier try left in `NAME.part` is not downloaded again. DataError:
    see `fetch`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    problem = ""
    for attempt in range(DOWNLOAD_TRIES):
        if attempt:
            time.sleep(min(2**attempt, 8) * FIRST_WAIT)
        try:
            _go_on(source, part, file)
        except urllib.error.HTTPError as error:
            problem = f"{error.code} {error.reason}"
            if error.code < 500 and error.code not in (408, 429):
                break
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
        if part.is_file() and part.stat().st_size == file.size:
            if (digest := sha256(part)) == file.sha256:
                part.replace(path)
                return
            part.unlink()
            raise DataError(
                Problem(
                    source,
                    f"its content has the SHA-256 {digest}, not {file.sha256} of plfl's list",
                    "it was damaged on the way or changed by its publisher; try again, or name "
                    "another copy with --from",
                )
            )
    size_here = part.stat().st_size if part.is_file() else 0
    raise DataError(
        Problem(
            source,
            f"cannot be downloaded ({problem or 'the server sent less than it said'})",
            f"{size_here:,} of {file.size:,} bytes are here, and the same command goes on from "
            "there",
        )
    )


FIRST_WAIT = 1.0
"""Seconds that the first wait between two tries has, doubled each time."""


def _go_on(source: str, partial_file: Path, file: OriginalFile) -> None:
    """Append to a part what is missing of its file."""
    start = partial_file.stat().st_size if partial_file.is_file() else 0
    if start >= file.size:
        if start > file.size:
            partial_file.unlink()
            start = 0
        else:
            return
    headers = {"User-Agent": "plfl"} | ({"Range": f"bytes={start}-"} if start else {})
    request = urllib.request.Request(source, headers=headers)
    with urllib.request.urlopen(request, timeout=DOWNLOAD_TIMEOUT) as answer:
        begins = answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        is_continued = start > 0 and answer.status == 206 and begins
        with partial_file.open("ab" if is_continued else "wb") as target:
            missing_bytes = file.size - (start if is_continued else 0)
            while missing_bytes > 0 and (chunk := answer.read(min(CHUNK_BYTES, missing_bytes))):
                target.write(chunk)
                missing_bytes -= len(chunk)
            if missing_bytes == 0 and answer.read(1):
                raise DataError(
                    Problem(
                        source,
                        f"is larger than {file.size:,} bytes, its size in plfl's list",
                        "its publisher has changed it",
                    )
                )
