"""`plfl compare`: two studies, cells or baselines side by side."""

import argparse

from plfl.cli.common import Commands, add_parser, add_trust

EXAMPLES = """
plfl compare results/study results/tuned
plfl compare results/demo:NY-P1-fedopt-adam-fedavg results/demo:NY-P2-fedopt-adam-fedavg
plfl compare results/demo:NY-baseline-lightgbm_lags results/demo:NY-P2-fedopt-adam-fedavg
"""


def add(commands: Commands) -> None:
    about = "compare two studies, cells or baselines client by client"
    parser = add_parser(commands, "compare", about, EXAMPLES, run)
    add_trust(parser)
    for side in ("a", "b"):
        parser.add_argument(
            side,
            help="FOLDER (a results folder), FOLDER:CELL (without its seed: the mean over seeds) "
            "or FOLDER:STATE-baseline-NAME",
        )


def run(options: argparse.Namespace) -> None:
    """Print the differences, with intervals and tests."""
    from plfl.results.compare import as_text, compare

    print(as_text(compare(options.a, options.b)))
