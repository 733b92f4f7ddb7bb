"""`plfl claims`, `plfl compare` and `plfl report`: what the results of a study say."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from plfl.base.extras import require
from plfl.cli.annotations import Variant
from plfl.cli.common import Commands, add_parser, add_results, add_trust
from plfl.report import reporting
from plfl.report.reporting import figures_of, make

CLAIMS = """
plfl claims results/demo
plfl claims results/demo --json > claims.json
"""
COMPARE = """
plfl compare results/demo
plfl compare results/study results/tuned
plfl compare results/demo:NY-P1-fine_tuning-adam-fedavg results/demo:NY-P2-fine_tuning-adam-fedavg
plfl compare results/demo:NY-baseline-lightgbm_lags results/demo:NY-P2-fine_tuning-adam-fedavg
"""
REPORT = "plfl report results/demo --open"


def add(commands: Commands) -> None:
    """Add `claims`, `compare` and `report` to the commands of `plfl`."""
    about = "print the verdicts on the claims that a study names"
    parser = add_parser(commands, "claims", about, CLAIMS, claims)
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    about = "list a study's comparisons, or compare two studies, cells or baselines"
    parser = add_parser(commands, "compare", about, COMPARE, compare)
    add_trust(parser)
    text = (
        "FOLDER (a results folder), FOLDER:CELL (without its seed: the mean over seeds) or "
        "FOLDER:STATE-baseline-NAME"
    )
    parser.add_argument("a", help=text)
    parser.add_argument("b", nargs="?", help="the other side; without it, all of the study's own")
    about = "make figures and report of a study from its tables"
    parser = add_parser(commands, "report", about, REPORT, report)
    add_results(parser)
    parser.add_argument("--open", action="store_true", help="open the report in a browser")


def claims(options: argparse.Namespace) -> None:
    """Print the verdict on each claim."""
    from plfl.results import comparisons, words
    from plfl.results.overview import study_of

    study = study_of(options.results)
    variants = reporting.reporting_of(study).variants(study, options.results)
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
        _print_notes(variants)


def compare(options: argparse.Namespace) -> None:
    """Print the differences, with intervals."""
    from plfl.results import compare as sides
    from plfl.results import comparisons, words
    from plfl.results.overview import study_of

    if options.b is not None:
        print(sides.as_text(sides.compare(options.a, options.b)))
        return
    folder = Path(options.a)
    study = study_of(folder)
    variants = reporting.reporting_of(study).variants(study, folder)
    table = comparisons.read(folder, study, variants)
    for row in table[table["about"] != "claim"].to_dict("records"):
        place = f"{row['place']}: " if row["place"] else ""
        print(
            f"{place}{row['text']}\n    {words.estimate(row)}; {row['chosen']} against "
            f"{row['chosen_than']}"
        )
    print("Positive where the first side has the lower error; intervals of 95 %.")
    print(f"- {sides.EXPLORATORY}")
    _print_notes(variants)


def _print_notes(variants: Sequence[Variant]) -> None:
    """Print which clients decide means."""
    from plfl.results.dominance import notes

    for variant in variants:
        if variant.tables.study.task.forecasts:
            for note in notes(variant.tables):
                print(f"- {variant.label}{': ' * bool(variant.label)}{note}")


def report(options: argparse.Namespace) -> None:
    """Draw the figures, write the page, print its path, and open it if asked."""
    require("study", "plfl report")
    from plfl.results.overview import study_of

    results, path = options.results, options.results / "index.html"
    make(results, figures_of(results, study_of(results)), path)
    print(path)
    if options.open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
