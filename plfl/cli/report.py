"""`plfl report`: figures and page of a study, made from its tables."""

import argparse
import webbrowser

from plfl.base.extras import require
from plfl.cli.common import Commands, add_parser
from plfl.cli.results import add_results
from plfl.report.reporting import figures_of, make
from plfl.results.overview import study_of

EXAMPLES = "plfl report results/demo --open"


def add(commands: Commands) -> None:
    parser = add_parser(commands, "report", EXAMPLES, run)
    add_results(parser)
    parser.add_argument("--open", action="store_true", help="open the report in a browser")


def run(options: argparse.Namespace) -> None:
    """Draw the figures, write the page, print its path, and open it if asked."""
    require("study", "plfl report")
    results, path = options.results, options.results / "index.html"
    make(results, figures_of(results, study_of(results)), path)
    print(path)
    if options.open:
        webbrowser.open(path.resolve().as_uri())
