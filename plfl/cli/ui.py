"""`plfl ui`: MLflow's pages of the logged studies."""

import argparse

from plfl.cli.common import Commands, add_parser

EXAMPLES = "plfl ui --port 5080"


def add(commands: Commands) -> None:
    parser = add_parser(commands, "ui", EXAMPLES, run)
    parser.add_argument("--port", type=int, default=5077, help="default: %(default)s")


def run(options: argparse.Namespace) -> None:
    """Serve the database of this folder until the user ends it."""
    from plfl.publish.tracking import serve

    serve(options.port)
