"""`plfl claims`: the verdicts on the claims that a study names."""

import argparse
import json

from plfl.cli.common import Commands, add_parser
from plfl.cli.compare import print_notes
from plfl.cli.results import add_results
from plfl.experiments.scoring import scoring_of
from plfl.results import comparisons, words
from plfl.results.overview import study_of

EXAMPLES = """
plfl claims results/demo
plfl claims results/demo --json > claims.json
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "claims", EXAMPLES, run)
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> None:
    """Print the verdict on each claim."""
    study = study_of(options.results)
    variants = scoring_of(study).variants(study, options.results)
    table = comparisons.read(options.results, study, variants)
    table = table[table["about"] == "claim"]
    if options.json:
        print(json.dumps(json.loads(table.to_json(orient="records")), indent=1))
    elif table.empty:
        print(
            f"{study.name}: names no claims, so nothing is judged; `claims` in its YAML names some"
        )
    else:
        about = "claims of the study; p values are corrected for their number"
        print(words.claims_as_text(study, table.to_dict("records"), about))
        print_notes(variants)
