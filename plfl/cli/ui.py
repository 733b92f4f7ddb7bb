"""`plfl ui`: opens a study in the MLflow UI."""

import argparse

from plfl.cli.common import Commands, add_parser, add_results, latest_study

EXAMPLES = """
plfl ui --open                      # the study that was logged last, in a browser
plfl ui results/demo --port 5080
"""


def add(commands: Commands) -> None:
    about = "serve a study in the MLflow UI, for this machine only"
    parser = add_parser(commands, "ui", about, EXAMPLES, run)
    add_results(parser, "logged")
    parser.add_argument(
        "--port", type=int, help="port to listen on; default: tracking.port of the study"
    )
    parser.add_argument("--open", action="store_true", help="open the study in a browser")


def run(options: argparse.Namespace) -> None:
    """Serve the MLflow database of a study until the user ends it."""
    from plfl.publish import tracking

    tracking.check_installed()
    from plfl.publish.tracking.server import serve
    from plfl.results.overview import study_of

    results = options.results or latest_study("mlflow.db")
    serve(results, options.port or study_of(results).tracking.port, options.open)
