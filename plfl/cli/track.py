"""`plfl track` and `plfl ui`: results in MLflow."""

import argparse

from plfl.cli.common import Commands, add_parser, add_results

TRACK = """
plfl track results/demo
"""
UI = """
plfl ui
plfl ui --port 5080
"""


def add(commands: Commands) -> None:
    about = "log a results folder into MLflow"
    add_results(add_parser(commands, "track", about, TRACK, track))
    about = "open MLflow's pages of the logged studies, for this machine only"
    parser = add_parser(commands, "ui", about, UI, ui)
    parser.add_argument("--port", type=int, default=5077, help="default: %(default)s")


def track(options: argparse.Namespace) -> None:
    """Log a results folder and print where to."""
    from plfl.publish import tracking
    from plfl.results.overview import study_of

    print(tracking.track(options.results, study_of(options.results).figures))


def ui(options: argparse.Namespace) -> None:
    """Serve the database of this folder until the user ends it."""
    from plfl.publish.tracking import serve

    serve(options.port)
