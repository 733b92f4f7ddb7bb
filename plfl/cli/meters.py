"""Work on the meters of many files: what all have to say is said once."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from plfl.base.errors import DataError, Problem, collect_problems, shared_lines
from plfl.base.files import write_text
from plfl.base.lazy import pandas as pd
from plfl.base.spreadsheets import as_csv
from plfl.base.text import count_in_words, counted_names
from plfl.cli.common import progress_bar
from plfl.forecast.output import table_as_csv, write

T = TypeVar("T")
R = TypeVar("R")
INCOMPLETE_STATUS = 3
"""The exit status if a command could not do its work for some meters."""


class _Messages(logging.Handler):
    """The messages of a time."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[Problem] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message, or the problem that it consists of."""
        match record.args:
            case (Problem() as problem,):
                self.problems.append(problem)
            case _:
                self.problems.append(Problem("", record.getMessage()))


@contextmanager
def share_messages() -> Iterator[Callable[[str, str], None]]:
    """Print lines about meters on the standard error at the end, what many share once: what plfl
    logs, and what the function says of a meter."""
    messages, logger = _Messages(), logging.getLogger("plfl")
    logger.addHandler(messages)
    try:
        yield lambda name, text: messages.problems.append(Problem(name, text, meter=name))
    finally:
        logger.removeHandler(messages)
        for line in shared_lines(messages.problems):
            print(line, file=sys.stderr)


def for_each_meter(
    tables: Mapping[str, R], problems: list[Problem], work: Callable[[str, R], T], action: str = ""
) -> dict[str, T]:
    """What `work` returns for each meter and its readings; errors of single meters are added to
    `problems`, which are printed, those that many share once. If no meter succeeds, they are in a
    DataError. `action`: what a bar on the terminal calls work that takes long; empty: no bar."""
    results: dict[str, T] = {}
    bar = progress_bar(action, "meter") if action else nullcontext()
    with bar as advance:
        for number, (name, readings) in enumerate(tables.items()):
            if advance is not None:
                advance(name, number, len(tables))
            with collect_problems(problems, name):
                results[name] = work(name, readings)
    lines = shared_lines(problems)
    if not results:
        absent_meters = (
            "none of the study's meters is in these files; name another one with --client"
        )
        raise DataError(*(lines or [absent_meters]))
    for line in lines:
        print(f"plfl: {line}", file=sys.stderr)
    return results


def keys_of_selection(client: str | None, has_new: bool) -> dict[str, Any]:
    """The keys of `data.meters` for files in which meters may be new (`--new`): those that a study
    selects are not the new ones. None for a single `client`."""
    return {"only": []} if has_new and client is None else {}


def print_by_text(text_of: Mapping[str, str]) -> None:
    """Print what there is to say about meters on the standard error, equal texts once; an empty
    text is none."""
    names_of: dict[str, list[str]] = {}
    for name, text in text_of.items():
        names_of.setdefault(text, []).append(name)
    for text, names in names_of.items():
        if text:
            print(f"{counted_names(names)}: {text}", file=sys.stderr)


def deliver_errors(rows: Sequence[Mapping[str, object]], table_file: Path | None) -> None:
    """Print the rows of a table of errors, or write them to a file."""
    text = as_csv(pd.DataFrame(rows), digits=4)
    if table_file is None:
        print(text, end="")
    else:
        write_text(table_file, text)
        print(f"wrote {table_file}", file=sys.stderr)


def deliver_forecasts(
    table: pd.DataFrame, table_file: Path | None, meters: int, problems: list[Problem]
) -> int:
    """Print forecasts, or write them to a file, and say of how many meters they are if some have
    `problems`; return the exit status."""
    if table_file is None:
        print(table_as_csv(table), end="")
    else:
        write(table_file, table)
        print(f"wrote {table_file}", file=sys.stderr)
    if not problems:
        return 0
    left_out = count_in_words(len(problems), "problem")
    print(f"{count_in_words(meters, 'meter')} forecast, {left_out}: see above", file=sys.stderr)
    return INCOMPLETE_STATUS
