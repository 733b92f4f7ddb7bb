"""`plfl audit`: what each deviation of the authors' code from their paper does to the scores."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser, progress_bar, renew_page
from plfl.config.study import Study

EXAMPLES = """
plfl audit config/authors-code.yaml
"""


def add(commands: Commands) -> None:
    """Add `audit` to the commands of `plfl`."""
    about = "measure each deviation of the authors' code from their paper"
    parser = add_parser(commands, "audit", about, EXAMPLES, run)
    parser.add_argument(
        "config", type=Path, help="configuration that names the data, the seeds and the rounds"
    )


def run(options: argparse.Namespace) -> None:
    """Train the variants, write their tables beside the study's results, and print them."""
    from plfl.data.prepare import load_dataset
    from plfl.experiments import audit
    from plfl.results.audit import as_markdown

    study = Study.load(options.config)
    with progress_bar(study.name) as progress:
        table = audit.audit(study, load_dataset, progress)
    audit.write(study, table)
    print(as_markdown(study, table), end="")
    renew_page(study)
