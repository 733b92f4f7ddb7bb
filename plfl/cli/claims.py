"""`plfl claims`: judges claims on the results of a study."""

import argparse
import json

from plfl.cli.common import Commands, add_parser, add_results

EXAMPLES = """
plfl claims results/demo
plfl claims results/demo --json > claims.json
"""


def add(commands: Commands) -> None:
    about = "judge whether federation pays off and published claims hold"
    parser = add_parser(commands, "claims", about, EXAMPLES, run)
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> None:
    """Print the verdict on each claim."""
    from plfl.report import reporting
    from plfl.results.overview import study_of

    study = study_of(options.results)
    found = reporting.of(study).judged(options.results, study)
    print(json.dumps(found.data, indent=1) if options.json else found.text)
