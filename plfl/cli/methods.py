"""`plfl methods` and `plfl schema`: what a study can name, for people and for editors."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser

EXAMPLES = """
plfl methods
plfl methods --json
plfl methods my.yaml                # those of its plug-ins, too
"""
SCHEMA = """
plfl schema                         # in the root of the repository
"""


def add(commands: Commands) -> None:
    """Add `methods` and `schema` to the commands of `plfl`."""
    about = "list the algorithms: sources, hyperparameters, message sizes"
    parser = add_parser(commands, "methods", about, EXAMPLES, run)
    parser.add_argument(
        "config", type=Path, nargs="?", help="a study, whose plug-ins are listed, too"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    about = "write the JSON schema and the generated pages"
    add_parser(commands, "schema", about, SCHEMA, schema)


def run(options: argparse.Namespace) -> None:
    """Print the catalogue of algorithms."""
    from plfl.cli import catalogue
    from plfl.study import Study

    study = Study.load(options.config) if options.config else None
    print(catalogue.as_json() if options.json else catalogue.as_text(study))


def schema(_options: argparse.Namespace) -> None:
    """Write the generated files below the working directory and print their paths."""
    from plfl.study.generated import write

    print("\n".join(map(str, write(Path()))))
