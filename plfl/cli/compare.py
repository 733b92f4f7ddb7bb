"""`plfl compare`: the comparisons of a study, or two studies, cells or baselines side by side."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser, add_trust

EXAMPLES = """
plfl compare results/demo
plfl compare results/study results/tuned
plfl compare results/demo:NY-P1-fedopt-adam-fedavg results/demo:NY-P2-fedopt-adam-fedavg
plfl compare results/demo:NY-baseline-lightgbm_lags results/demo:NY-P2-fedopt-adam-fedavg
"""


def add(commands: Commands) -> None:
    about = "list a study's comparisons, or compare two studies, cells or baselines"
    parser = add_parser(commands, "compare", about, EXAMPLES, run)
    add_trust(parser)
    parser.add_argument(
        "a",
        help="FOLDER (a results folder), FOLDER:CELL (without its seed: the mean over seeds) or "
        "FOLDER:STATE-baseline-NAME",
    )
    parser.add_argument("b", nargs="?", help="the other side; without it, all of the study's own")


def run(options: argparse.Namespace) -> None:
    """Print the differences, with intervals."""
    from plfl.report import reporting
    from plfl.results import claims, comparisons
    from plfl.results.compare import EXPLORATORY, as_text, compare
    from plfl.results.overview import study_of

    if options.b is not None:
        print(as_text(compare(options.a, options.b)))
        return
    folder = Path(options.a)
    study = study_of(folder)
    table = comparisons.read(folder, study, reporting.of(study).variants(study, folder))
    for row in table[table["about"] != "claim"].to_dict("records"):
        place = f"{row['place']}: " if row["place"] else ""
        print(
            f"{place}{row['text']}\n    {claims.estimate(row)}; {row['chosen']} against "
            f"{row['chosen_than']}"
        )
    print(f"Positive where the first side has the lower error; intervals of 95 %.\n- {EXPLORATORY}")
