"""`plfl publish`, `plfl track` and `plfl ui`: a finished study as an RO-Crate, and in MLflow."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from plfl.base.extras import require
from plfl.cli.common import Commands, add_parser, add_results

EXAMPLES = """
plfl publish results/demo --to demo-crate
plfl publish results/demo --to demo.zip --models
"""
TRACK = "plfl track results/demo"
UI = "plfl ui --port 5080"


def add(commands: Commands) -> None:
    """Add `publish`, `track` and `ui` to the commands of `plfl`."""
    about = "write a finished study as an RO-Crate, to publish it"
    parser = add_parser(commands, "publish", about, EXAMPLES, run)
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
    about = "log a results folder into MLflow"
    add_results(add_parser(commands, "track", about, TRACK, track))
    about = "open MLflow's pages of the logged studies, for this machine only"
    parser = add_parser(commands, "ui", about, UI, ui)
    parser.add_argument("--port", type=int, default=5077, help="default: %(default)s")


def run(options: argparse.Namespace) -> None:
    """Write the crate, and say what it does not contain."""
    require("publish", "plfl publish")
    from plfl.publish.crate import publish, read_citation
    from plfl.results.records import read_about

    read_about(options.results)  # errors of the folder come before those of the citation
    read = read_citation(options.citation)
    today = datetime.now(UTC).date()
    for sentence in publish(options.results, options.to, read, today, options.models):
        print(sentence)
    print(f"wrote {options.to}, licence {read.license}")


def track(options: argparse.Namespace) -> None:
    """Log a results folder and print where to."""
    from plfl.publish import tracking
    from plfl.results.overview import study_of

    print(tracking.track(options.results, study_of(options.results).paths.figures))


def ui(options: argparse.Namespace) -> None:
    """Serve the database of this folder until the user ends it."""
    from plfl.publish.tracking import serve

    serve(options.port)
