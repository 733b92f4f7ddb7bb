"""`plfl backtest`: how good the forecasts for later readings were, meter by meter."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from plfl.base.files import write_text
from plfl.cli.common import INCOMPLETE, Commands, add_parser, add_results, for_each_meter

EXAMPLES = """
plfl backtest results/own exports/
plfl backtest results/own december.csv --with lightgbm_lags --out errors.csv
"""


def add(commands: Commands) -> None:
    about = "score the forecasts for readings after the training, meter by meter"
    parser = add_parser(commands, "backtest", about, EXAMPLES, run)
    add_results(parser)
    parser.add_argument(
        "new", type=Path, nargs="+", metavar="NEW", help="files of later readings, or folders"
    )
    parser.add_argument(
        "--with", dest="wanted", default="", metavar="NAME", help="score this forecaster instead"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table to this CSV file")


def run(options: argparse.Namespace) -> int:
    """Print the table; what could not be scored goes to the standard error."""
    import pandas as pd

    from plfl.forecast.backtest import scored
    from plfl.forecast.choice import Kept

    kept = Kept(options.results)
    tables, problems = kept.any_model.read_all(options.new)

    def row(client: str, readings: pd.DataFrame) -> dict[str, Any]:
        choice = kept.of(client, options.wanted)
        scores = scored(kept.model(choice), client, readings)
        return {"client": client, "forecaster": choice.name, **scores}

    rows = for_each_meter(tables, problems, row)
    text = pd.DataFrame(rows.values()).to_csv(index=False, float_format="%.4g", lineterminator="\n")
    if options.out is None:
        print(text, end="")
    else:
        write_text(options.out, text)
        print(f"wrote {options.out}", file=sys.stderr)
    return INCOMPLETE if problems else 0
