"""`plfl schema`: the files that are generated from the typed configuration."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser

EXAMPLES = """
plfl schema                         # in the root of the repository
"""


def add(commands: Commands) -> None:
    about = "write the JSON schema and the generated pages"
    add_parser(commands, "schema", about, EXAMPLES, run)


def run(options: argparse.Namespace) -> None:
    """Write the generated files below the working directory and print their paths."""
    from plfl.study.generated import write

    print("\n".join(map(str, write(Path()))))
