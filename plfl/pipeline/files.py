"""The files that a study reads and makes: those that have changed, and those that are damaged."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plfl.base.files import sha256, write_text
from plfl.study import Study

ENDS = {
    ".png": b"IEND\xaeB`\x82",
    ".svg": b"</svg>",
    ".pdf": b"%%EOF",
    ".html": b"</html>",
    ".parquet": b"PAR1",
}
"""How complete files of a format end, by suffix."""


def digests_of(files: Iterable[Path], memory: Path) -> dict[str, str]:
    """SHA-256 of files by path; those that do not exist are left out.

    The file `memory` remembers the digests, so that a file is read again only if its size, inode or
    times differ. The time at which the inode changed is among them: `cp -p`, `mv` and `rsync` give
    a file the time of modification of another one, but not this time.
    """
    known: dict[str, list[Any]]
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
        known = {name: list(state) for name, state in known.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        known = {}  # it only saves time
    current: dict[str, list[Any]] = {}
    for file in filter(Path.is_file, files):
        info = file.stat()
        state = [info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns]
        before = known.get(str(file), [])
        current[str(file)] = before if before[:-1] == state else [*state, sha256(file)]
    if not current.items() <= known.items() and memory.parent.is_dir():
        write_text(memory, json.dumps(known | current) + "\n")
    return {name: str(state[-1]) for name, state in current.items()}


def remove_damaged(study: Study) -> list[Path]:
    """Delete tables, figures and pages of a study that do not end as complete files do, so that
    they are made again; return their names. No other process may run the study."""
    damaged = [
        file
        for folder in (study.results, study.figures)
        for file in sorted(folder.rglob("*"))
        if (end := ENDS.get(file.suffix)) and file.is_file() and end not in _last_bytes(file)
    ]
    for file in damaged:
        file.unlink()
    return damaged


def _last_bytes(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(-min(16, file.stat().st_size), os.SEEK_END)
        return opened.read()
