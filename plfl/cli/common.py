"""Common parts of several subcommands: parsers, progress bars and work on many meters."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from plfl.base.errors import DataError, PlflError
from plfl.base.lazy import pandas as pd
from plfl.cli.annotations import Progress
from plfl.data.checks import counted, list_names

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The type that `add_subparsers` returns."""
T = TypeVar("T")
R = TypeVar("R")
INCOMPLETE = 3
"""The exit status if a command could not do its work for some meters."""


class Parser(argparse.ArgumentParser):
    """A parser of a command."""

    takes_files = False
    """Whether it takes any number of files, between which its options may stand."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.takes_files:
            return super().parse_known_args(args, namespace)
        self.takes_files = False  # the function below calls this one
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.takes_files = True


def add_parser(
    commands: Commands,
    name: str,
    about: str,
    examples: str,
    run: Callable[[argparse.Namespace], int | None],
    takes_files: bool = False,
) -> argparse.ArgumentParser:
    """Add a subcommand, still without arguments. Its help begins with `about` and ends with the
    `examples`, one command per line. `run` returns the exit status; None is 0. `takes_files`: see
    `Parser`."""
    example_lines = "".join(f"\n  {line.strip()}" for line in examples.strip().splitlines())
    parser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"examples:{example_lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    if isinstance(parser, Parser):
        parser.takes_files = takes_files
    return parser


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the option `--trust` for commands that read results; `main` applies it."""
    text = (
        "a Python file that the study of the results names and that may run: a plug-in, or the "
        "module of a model. Without it, no such file runs. May be repeated"
    )
    option = parser.add_argument
    option("--trust", type=Path, action="append", default=[], metavar="FILE.py", help=text)


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add `--trust` and the argument `results`."""
    add_trust(parser)
    parser.add_argument("results", type=Path, help="results folder of a study")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`, the file or folder of models, and the choice between a client's models."""
    add_trust(parser)
    text = (
        "a file of results/NAME/models/*.safetensors, or a results folder: each meter gets what "
        "was best for it on validation"
    )
    parser.add_argument("file", type=Path, metavar="MODEL", help=text)
    add_which_model(parser)


def add_which_model(parser: argparse.ArgumentParser) -> None:
    """Add the choice between a client's models."""
    text = "which model of the meter; default: %(default)s"
    parser.add_argument("--model", choices=["local", "global"], default="local", help=text)


def add_unit(parser: argparse.ArgumentParser) -> None:
    """Add the option `--read-as`."""
    text = "unit of the readings in these files"
    parser.add_argument("--read-as", choices=["kWh", "kW", "Wh", "W", "MWh", "MW"], help=text)


@contextmanager
def progress_bar(name: str, unit: str = "round") -> Iterator[Progress]:
    """A bar on the terminal that counts units, and the function that advances it."""
    from tqdm import tqdm

    with tqdm(desc=name, unit=unit, leave=False, disable=None) as bar:

        def advance(label: str, finished_count: int, total: int) -> None:
            bar.total = total
            bar.update(finished_count - bar.n)
            bar.set_postfix_str(label)

        yield advance


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
    from plfl.data.meters.paths import share_lines

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
    from plfl.data.meters.paths import share_lines

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
        raise DataError("\n".join(share_lines(problems)) or absent_meters)
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
    table: pd.DataFrame, out: Path | None, meters: int, problems: list[str]
) -> int:
    """Print forecasts, or write them to the file `out`, and say of how many meters they are if some
    have `problems`; return the exit status."""
    from plfl.forecast.output import table_as_csv, write

    if out is None:
        print(table_as_csv(table), end="")
    else:
        write(out, table)
        print(f"wrote {out}", file=sys.stderr)
    if not problems:
        return 0
    left_out = counted(len(problems), "problem")
    print(f"{counted(meters, 'meter')} forecast, {left_out}: see above", file=sys.stderr)
    return INCOMPLETE
