"""`plfl publish`: a finished study as an RO-Crate."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser, add_results

EXAMPLES = """
plfl publish results/demo --to demo-crate
plfl publish results/demo --to demo.zip --models
"""


def add(commands: Commands) -> None:
    about = "write a finished study as an RO-Crate, to publish it"
    parser = add_parser(commands, "publish", about, EXAMPLES, run)
    add_results(parser)
    parser.add_argument(
        "--to",
        type=Path,
        required=True,
        metavar="FOLDER|FILE.zip",
        help="folder or ZIP file to write; it must not exist yet",
    )
    parser.add_argument(
        "--citation",
        type=Path,
        default=Path("CITATION.cff"),
        metavar="FILE",
        help="authors and licence; default: %(default)s of the current folder",
    )
    parser.add_argument(
        "--models",
        action="store_true",
        help="include the models; they hold the personal parameters of every client, and the "
        "limits of its loads",
    )
    parser.add_argument(
        "--data",
        action="store_true",
        help="include the files that the study read. Without it, nothing shows readings of own "
        "meters",
    )
    parser.add_argument(
        "--outside",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder outside of the current one whose files may be included. May be repeated",
    )


def run(options: argparse.Namespace) -> None:
    """Write the crate, and say what it does not contain."""
    from datetime import UTC, datetime

    from plfl.publish import citation
    from plfl.publish.crate import publish
    from plfl.results.records import read_about

    read_about(options.results)  # errors of the folder come before those of the citation
    read = citation.read(options.citation)
    today = datetime.now(UTC).date()
    wanted = options.models, options.data, options.outside
    if publish(options.results, options.to, read, today, *wanted):
        print("left out: readings of the meters, and all that shows them; --data includes them")
    print(f"wrote {options.to}, licence {read.license}")
