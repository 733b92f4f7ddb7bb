"""`plfl score`: predictions that were made elsewhere, beside the baselines of a study."""

import argparse
from pathlib import Path

from plfl.base.errors import PlflError
from plfl.cli.common import Commands, add_parser

EXAMPLES = """
plfl score config/smoke.yaml predictions.parquet
plfl score config/smoke.yaml predictions.parquet --results results/smoke
plfl score config/smoke.yaml predictions.parquet --submit board.csv --method FedAvg --bytes-up 4096
"""


def add(commands: Commands) -> None:
    about = "score predictions made elsewhere on the test set of a study"
    parser = add_parser(commands, "score", about, EXAMPLES, run)
    parser.add_argument("study", type=Path, help="configuration of the study")
    text = "table (.parquet or .csv) of forecasts; docs/benchmark.md lists its columns"
    parser.add_argument("predictions", type=Path, help=text)
    text = "results of the study: its cells are ranked, too, and its baselines not trained again"
    parser.add_argument("--results", type=Path, help=text)
    parser.add_argument("--variant", default="", help="label of a variant of the study")
    text = "a leaderboard, to which a row is appended; needs --method"
    parser.add_argument("--submit", type=Path, metavar="FILE.csv", help=text)
    parser.add_argument("--method", help="name of the method in the leaderboard")
    for way in ("up", "down"):
        text = f"bytes that a client sends {way} in all its training"
        parser.add_argument(f"--bytes-{way}", type=int, metavar="N", help=text)
    text = "what the method used besides the arrays, such as `weather forecasts`"
    parser.add_argument("--used", default="", metavar="TEXT", help=text)
    text = "how to run the method again"
    parser.add_argument("--command", default="", metavar="TEXT", help=text)


def run(options: argparse.Namespace) -> None:
    """Print the tables, and append the row."""
    from plfl.base.text import printed
    from plfl.outside.score import append, score
    from plfl.study import Study

    if options.submit and not options.method:
        raise PlflError("score: --submit needs --method, the name in the leaderboard")
    study = Study.load(options.study)
    study = study.variant(options.variant) if options.variant else study
    scored = score(study, options.predictions, options.results)
    print(
        "Test set, means over clients and seeds. MASE with its interval of 95 % over clients, "
        "weeks and seeds;\nlead: by how much your MASE is lower."
    )
    print(printed(scored.table))
    print("\nYour predictions by client")
    print(printed(scored.clients))
    row = scored.yours
    print(f"\nrank {row['rank']} of {len(scored.table)}: MASE {row['mase']:.4f}")
    if options.submit:
        said = {"study": study.name, "method": options.method}
        said |= {"bytes_up": options.bytes_up, "bytes_down": options.bytes_down}
        said |= {"used": options.used, "command": options.command}
        append(scored.submission(**said), options.submit)
        print(f"appended to {options.submit}")
