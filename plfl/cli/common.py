"""Common parts of several subcommands: parsers and progress bars."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from plfl.base.text import Progress, capitalise
from plfl.cli.commands import COMMANDS

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The type that `add_subparsers` returns."""


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
    examples: str,
    run: Callable[[argparse.Namespace], int | None],
    takes_files: bool = False,
    about: str = "",
) -> argparse.ArgumentParser:
    """Add a subcommand, still without arguments. Its help begins with what it is `about`, by
    default as `COMMANDS` says it, and ends with the `examples`, one command per line. `run` returns
    the exit status; None is 0. `takes_files`: see `Parser`."""
    about = about or COMMANDS[name]
    example_lines = "".join(f"\n  {line.strip()}" for line in examples.strip().splitlines())
    parser = commands.add_parser(
        name,
        help=about,
        description=f"{capitalise(about)}.",
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


def add_which_model(parser: argparse.ArgumentParser) -> None:
    """Add the choice between a client's models."""
    text = (
        "which network of a meter: its own after training, or the shared parameters as the server "
        "sends them; default: %(default)s"
    )
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
