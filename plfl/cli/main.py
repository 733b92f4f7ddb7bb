"""Assembles the `plfl` command from its subcommands, and runs it."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import TextIO, cast

from plfl import __version__
from plfl.base.errors import PlflError
from plfl.base.lazy import pause_garbage_collection
from plfl.base.text import EscapingStream
from plfl.cli.commands import COMMANDS
from plfl.cli.common import Parser
from plfl.plugins import trust


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 after success, 2 after an error that the user
    can fix (its message is printed without a traceback), 3 if some of many meters could not be
    forecast, 130 after Ctrl-C and 1 if the reader of the output has gone. Control characters in its
    output, for example in the name of a meter, are escaped."""
    output, err = (cast(TextIO, EscapingStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(output), redirect_stderr(err):
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        parser = build_parser(words)
        if not words:
            parser.print_help(sys.stderr)
            return 2
        options = parser.parse_args(words, argparse.Namespace(words=words))
        if files := getattr(options, "trust", []):
            trust(*files)
        status: int | None = options.run(options)
        sys.stdout.flush()
    except PlflError as error:
        print(f"plfl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("plfl: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # A reader such as `head` has closed the pipe. Python must not write to it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status or 0


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of `plfl`, with the options of the command among the words; the module of no other
    one is imported. Words that begin with a command need no other one at all."""
    parser = argparse.ArgumentParser(
        prog="plfl",
        description="Personalised federated load forecasting. `plfl init` writes a ready-made "
        "study, `plfl study` runs it; the other commands inspect, compare and extend studies.",
        epilog="`plfl COMMAND --help` shows the options of a command, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"plfl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    chosen_name = next((word for word in words if not word.startswith("-")), "")
    for name in [name for name in words[:1] if name in COMMANDS] or COMMANDS:
        if name == chosen_name:
            with pause_garbage_collection():
                module = import_module(f"plfl.cli.{name}")
            module.add(commands)
        else:
            commands.add_parser(name, help=COMMANDS[name])
    return parser
