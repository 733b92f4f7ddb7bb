"""`plfl schema`: the files that are generated from the keys of a study."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser
from plfl.study.generated import write

EXAMPLES = "plfl schema   # in the root of the repository"


def add(commands: Commands) -> None:
    add_parser(commands, "schema", EXAMPLES, run)


def run(_options: argparse.Namespace) -> None:
    """Write the generated files below the working directory and print their paths."""
    print("\n".join(map(str, write(Path()))))
