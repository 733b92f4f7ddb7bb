"""`plfl methods`: the algorithms that a study can name."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser

EXAMPLES = """
plfl methods
plfl methods --json
plfl methods my.yaml                # those of its plug-ins, too
"""


def add(commands: Commands) -> None:
    about = "list the algorithms: sources, hyperparameters, message sizes"
    parser = add_parser(commands, "methods", about, EXAMPLES, run)
    parser.add_argument(
        "config", type=Path, nargs="?", help="a study, whose plug-ins are listed, too"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> None:
    """Print the catalogue of algorithms."""
    from plfl.cli import catalogue
    from plfl.study import Study

    study = Study.load(options.config) if options.config else None
    print(catalogue.as_json() if options.json else catalogue.as_text(study))
