"""`plfl compare`: the differences between forecasters of a study, or of two."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from plfl.cli.common import Commands, add_parser, add_trust
from plfl.cli.results import find_side
from plfl.experiments.scoring import scoring_of
from plfl.results import compare as sides
from plfl.results import comparisons, words
from plfl.results.dominance import notes
from plfl.results.overview import study_of
from plfl.results.variants import Variant

EXAMPLES = """
plfl compare results/demo
plfl compare results/study results/tuned
plfl compare results/demo:NY-P1-fedopt-adamw-fedavg results/demo:NY-P3-fedopt-adamw-fedavg
plfl compare results/demo:NY-baseline-lightgbm_bagged results/demo:NY-P3-fedopt-adamw-fedavg
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "compare", EXAMPLES, run)
    add_trust(parser)
    text = (
        "FOLDER (a results folder), FOLDER:CELL (without its seed: the mean over seeds) or "
        "FOLDER:STATE-baseline-NAME"
    )
    parser.add_argument("a", type=find_side, help=text)
    parser.add_argument(
        "b", type=find_side, nargs="?", help="the other side; without it, all of the study's own"
    )


def run(options: argparse.Namespace) -> None:
    """Print the differences, with intervals."""
    if options.b is not None:
        print(sides.as_text(sides.compare(options.a, options.b)))
        return
    folder = Path(options.a)
    study = study_of(folder)
    variants = scoring_of(study).variants(study, folder)
    table = comparisons.read(folder, study, variants)
    for row in table[table["about"] != "claim"].to_dict("records"):
        place = f"{row['place']}: " if row["place"] else ""
        print(
            f"{place}{row['text']}\n    {words.estimate(row)}; {row['chosen']} against "
            f"{row['chosen_than']}"
        )
    print("Positive where the first side has the lower error; intervals of 95 %.")
    print(f"- {sides.EXPLORATORY}")
    print_notes(variants)


def print_notes(variants: Sequence[Variant]) -> None:
    """Print which clients decide means."""
    for variant in variants:
        if variant.tables.study.task.forecasts:
            start = f"{variant.label}: " if variant.label else ""
            for note in notes(variant.tables):
                print(f"- {start}{note}")
