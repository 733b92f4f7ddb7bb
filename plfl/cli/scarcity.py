"""`plfl scarcity`: with how many weeks of history sharing pays off."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser, progress_bar, renew_page
from plfl.config.study import Study

EXAMPLES = """
plfl scarcity config/scarcity.yaml
"""


def add(commands: Commands) -> None:
    """Add `scarcity` to the commands of `plfl`."""
    about = "measure with how many weeks of history sharing pays off"
    parser = add_parser(commands, "scarcity", about, EXAMPLES, run)
    parser.add_argument("config", type=Path, help="configuration of the study")


def run(options: argparse.Namespace) -> None:
    """Train on ever longer histories; write the table and its figure, and print the table."""
    from plfl.data.prepare import load_dataset
    from plfl.experiments import scarcity
    from plfl.report.scarcity import illustrate
    from plfl.results.scarcity import as_text

    study = Study.load(options.config)
    with progress_bar(study.name) as progress:
        table = scarcity.measure(study, load_dataset, progress)
    scarcity.write(study, table)
    illustrate(study, table, study.figures)
    print(as_text(study, table))
    renew_page(study)
