"""Work on the meters of many files: what all have to say is said once."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from plfl.base.errors import DataError, PlflError
from plfl.base.lazy import pandas as pd
from plfl.data.checks import counted, list_names
from plfl.data.meters.paths import share_lines
from plfl.forecast.output import table_as_csv, write

T = TypeVar("T")
R = TypeVar("R")
INCOMPLETE = 3
"""The exit status if a command could not do its work for some meters."""


class _Messages(logging.Handler):
    """The messages of a time."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def share_messages() -> Iterator[Callable[[str], None]]:
    """Print lines about meters on the standard error at the end, what many share once: what plfl
    logs, and what the function is called with."""
    messages, logger = _Messages(), logging.getLogger("plfl")
    logger.addHandler(messages)
    try:
        yield messages.lines.append
    finally:
        logger.removeHandler(messages)
        for line in share_lines(messages.lines):
            print(line, file=sys.stderr)


def for_each_meter(
    tables: Mapping[str, R], problems: list[str], work: Callable[[str, R], T]
) -> dict[str, T]:
    """What `work` returns for each meter and its readings; errors of single meters are added to
    `problems`, which are printed, those that many share once. If no meter succeeds, they are in a
    DataError."""
    results: dict[str, T] = {}
    for name, readings in tables.items():
        try:
            results[name] = work(name, readings)
        except PlflError as error:
            problems.append(str(error))
    if not results:
        absent_meters = (
            "none of the study's meters is in these files; name another one with --client"
        )
        raise DataError(*(share_lines(problems) or [absent_meters]))
    for problem in share_lines(problems):
        print(f"plfl: {problem}", file=sys.stderr)
    return results


def print_by_text(text_of: Mapping[str, str]) -> None:
    """Print what there is to say about meters on the standard error, equal texts once; an empty
    text is none."""
    names_of: dict[str, list[str]] = {}
    for name, text in text_of.items():
        names_of.setdefault(text, []).append(name)
    for text, names in names_of.items():
        if text:
            print(f"{list_names(names)}: {text}", file=sys.stderr)


def deliver_forecasts(
    table: pd.DataFrame, table_file: Path | None, meters: int, problems: list[str]
) -> int:
    """Print forecasts, or write them to the file `out`, and say of how many meters they are if some
    have `problems`; return the exit status."""
    if table_file is None:
        print(table_as_csv(table), end="")
    else:
        write(table_file, table)
        print(f"wrote {table_file}", file=sys.stderr)
    if not problems:
        return 0
    left_out = counted(len(problems), "problem")
    print(f"{counted(meters, 'meter')} forecast, {left_out}: see above", file=sys.stderr)
    return INCOMPLETE
