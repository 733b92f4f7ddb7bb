"""`plfl claims`: the verdicts on the claims that a study names."""

import argparse
import json

from plfl.cli.common import Commands, add_parser, add_results

EXAMPLES = """
plfl claims results/demo
plfl claims results/demo --json > claims.json
"""


def add(commands: Commands) -> None:
    about = "print the verdicts on the claims that a study names"
    parser = add_parser(commands, "claims", about, EXAMPLES, run)
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> None:
    """Print the verdict on each claim."""
    from plfl.report import reporting
    from plfl.results import claims, comparisons
    from plfl.results.overview import study_of

    study = study_of(options.results)
    variants = reporting.of(study).variants(study, options.results)
    table = comparisons.read(options.results, study, variants)
    table = table[table["about"] == "claim"]
    if options.json:
        print(json.dumps(json.loads(table.to_json(orient="records")), indent=1))
    elif table.empty:
        print(
            f"{study.name}: names no claims, so nothing is judged; `claims` in its YAML names some"
        )
    else:
        about = f"claims of the study\n{claims.in_sentences(study, options.results)} "
        about += "P values are corrected for their number."
        print(claims.as_text(study, table.to_dict("records"), about))
