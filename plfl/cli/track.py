"""`plfl track`: a finished study in MLflow."""

import argparse

from plfl.cli.common import Commands, add_parser
from plfl.cli.results import add_results
from plfl.results.overview import study_of

EXAMPLES = "plfl track results/demo"


def add(commands: Commands) -> None:
    add_results(add_parser(commands, "track", EXAMPLES, run))


def run(options: argparse.Namespace) -> None:
    """Log a results folder and print where to."""
    from plfl.publish import tracking

    print(tracking.track(options.results, study_of(options.results).paths.figures))
