"""Commands of earlier versions, which say what replaces them."""

import argparse

from plfl.base.errors import PlflError
from plfl.cli.common import Commands

REPLACED = {
    "audit": "run `plfl study config/authors-steps.yaml` and `plfl study config/authors-data.yaml`",
    "scarcity": "run `plfl study config/scarcity.yaml`, whose grid has the axis windows.history",
}
"""What to do instead of each of them."""


def add(commands: Commands) -> None:
    """Add the commands of earlier versions, which `plfl --help` does not list."""
    for name in REPLACED:
        parser = commands.add_parser(name, add_help=False)
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
        parser.set_defaults(run=run, name=name)


def run(options: argparse.Namespace) -> None:
    """Say what replaces the command."""
    instead = REPLACED[options.name]
    raise PlflError(f"`plfl {options.name}` is a study like any other now; {instead}")
