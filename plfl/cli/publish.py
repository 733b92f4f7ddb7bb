"""`plfl publish`: a finished study as an RO-Crate."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from plfl.base.extras import require
from plfl.cli.common import Commands, add_parser
from plfl.cli.results import add_results
from plfl.results.records import read_facts

EXAMPLES = """
plfl publish results/demo --to demo-crate
plfl publish results/demo --to demo.zip --models
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "publish", EXAMPLES, run)
    add_results(parser)
    text = "folder or ZIP file to write; it must not exist yet"
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER|FILE.zip", help=text)
    text = "authors and licence; default: %(default)s of the current folder"
    default = Path("CITATION.cff")
    parser.add_argument("--citation", type=Path, default=default, metavar="FILE", help=text)
    text = (
        "include the models; they hold the personal parameters of every client, and the limits of "
        "its loads"
    )
    parser.add_argument("--models", action="store_true", help=text)


def run(options: argparse.Namespace) -> None:
    """Write the crate, and say what it does not contain."""
    require("publish", "plfl publish")
    from plfl.publish.crate import publish, read_citation

    read_facts(options.results)  # errors of the folder come before those of the citation
    citation = read_citation(options.citation)
    today = datetime.now(UTC).date()
    for sentence in publish(options.results, options.to, citation, today, options.models):
        print(sentence)
    print(f"wrote {options.to}, licence {citation.license}")
