"""`plfl report`: draws the figures of a study and writes its page."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser, latest_study

EXAMPLES = """
plfl report                         # the study that was finished last
plfl report results/demo --open
"""


def add(commands: Commands) -> None:
    """Add `report` to the commands of `plfl`."""
    about = "make figures and report of a study from its tables"
    parser = add_parser(commands, "report", about, EXAMPLES, run)
    parser.add_argument(
        "results",
        type=Path,
        nargs="?",
        help="results folder of a study; default: the one that was finished last",
    )
    parser.add_argument("--open", action="store_true", help="open the report in a browser")


def run(options: argparse.Namespace) -> None:
    """Draw the figures, write the page, print its path, and open it if asked."""
    from plfl.report import figures, overview, page
    from plfl.report.classifiers import figures as figures_of_images
    from plfl.report.classifiers import overview as overview_of_images
    from plfl.report.classifiers import page as page_of_images
    from plfl.results.overview import is_overview, study_of

    results = options.results or latest_study("study.json")
    study, path = study_of(results), results / "index.html"
    drawn = results.resolve().parents[len(Path(study.name).parts)] / study.figures
    of_images = study.data.is_images
    if is_overview(results):
        shown = overview_of_images if of_images else overview
        shown.illustrate(results, drawn)
        shown.write(results, drawn, path)
    else:
        for _ in (figures_of_images if of_images else figures).render_all(results, drawn):
            pass
        (page_of_images if of_images else page).write(results, drawn, path)
    print(path)
    if options.open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
