"""`plfl track`: logs results into MLflow."""

import argparse

from plfl.cli.common import Commands, add_parser, add_results

EXAMPLES = """
plfl track results/demo
"""


def add(commands: Commands) -> None:
    about = "log a results folder into its MLflow database"
    add_results(add_parser(commands, "track", about, EXAMPLES, run))


def run(options: argparse.Namespace) -> None:
    """Log a results folder and print what was logged."""
    from plfl.publish import tracking

    tracking.check_installed()
    from plfl.publish.tracking.store import track
    from plfl.results.overview import study_of

    print(track(options.results, study_of(options.results).figures))
