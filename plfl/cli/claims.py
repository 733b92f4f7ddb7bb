"""`plfl claims`: judges claims on the results of a study."""

import argparse
import json
from pathlib import Path
from typing import Any

from plfl.cli.common import Commands, add_parser, add_round, add_trust
from plfl.errors import PlflError

EXAMPLES = """
plfl claims results/demo
plfl claims results/demo --round best_validation
plfl claims results/demo --json > claims.json
"""


def add(commands: Commands) -> None:
    """Add `claims` to the commands of `plfl`."""
    about = "judge whether federation pays off and published claims hold"
    parser = add_parser(commands, "claims", about, EXAMPLES, run)
    add_trust(parser)
    parser.add_argument("results", type=Path, help="results folder of a study")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_round(parser)


def run(options: argparse.Namespace) -> None:
    """Print the verdict on each claim."""
    from plfl.results import axis_claims, claims, label_claims
    from plfl.results.classifier_variants import trained
    from plfl.results.overview import study_of
    from plfl.results.records import read_about
    from plfl.results.tables import Tables

    study = study_of(options.results)
    if study.data.is_images:
        if options.round != "last":
            raise PlflError(
                "--round: classifiers are compared at a quarter of the rounds and at the end; "
                "leave it out"
            )
        of_images = label_claims.verdicts(trained(options.results))
        if options.json:
            print(json.dumps(label_claims.as_json(study, of_images), indent=1))
        else:
            print(label_claims.as_text(study, of_images))
        return
    judged: dict[str, Any] = {}
    for label in read_about(options.results).get("variants", [""]):
        tables = Tables(options.results / label)
        found = claims.verdicts(tables, options.round)
        if options.json:
            judged[label] = claims.as_json(tables, found, options.round)
        else:
            print(f"{label}\n" * bool(label) + claims.as_text(tables, found, options.round))
    if axis_claims.asked(study):
        of_variants = axis_claims.verdicts(options.results, study, options.round)
        if options.json:
            judged["variants"] = axis_claims.as_json(study, of_variants, options.round)
        else:
            print(f"\n{axis_claims.as_text(study, of_variants)}")
    if options.json:
        print(json.dumps(judged.get("", judged), indent=1))
