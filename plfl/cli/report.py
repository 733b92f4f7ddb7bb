"""`plfl report`: draws the figures of a study and writes its report."""

import argparse

from plfl.cli.common import Commands, add_parser, add_results, latest_study

EXAMPLES = """
plfl report                         # the study that was finished last
plfl report results/demo --open
"""


def add(commands: Commands) -> None:
    about = "make figures and report of a study from its tables"
    parser = add_parser(commands, "report", about, EXAMPLES, run)
    add_results(parser, "finished")
    parser.add_argument("--open", action="store_true", help="open the report in a browser")


def run(options: argparse.Namespace) -> None:
    """Draw the figures, write the page, print its path, and open it if asked."""
    from plfl.report.make import figures_of, make
    from plfl.results.overview import study_of

    results = options.results or latest_study("study.json")
    path = results / "index.html"
    make(results, figures_of(results, study_of(results)), path)
    print(path)
    if options.open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
