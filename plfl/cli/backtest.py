"""`plfl backtest`, `plfl update`: errors for later readings, and what these readings change."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plfl.base.errors import PlflError
from plfl.base.files import write_text
from plfl.cli.common import INCOMPLETE, Commands, add_parser, add_results, add_unit, for_each_meter

if TYPE_CHECKING:  # the command line starts without pandas
    import pandas as pd

BACKTEST = """
plfl backtest results/own december/
plfl backtest results/own december.csv --with lightgbm_lags --out errors.csv --plot errors.png
"""
UPDATE = """
plfl update results/own december/
"""


def add(commands: Commands) -> None:
    about = "score the forecasts for readings after the training, meter by meter"
    parser = add_parser(commands, "backtest", about, BACKTEST, run)
    _add_new(parser)
    text = "score this forecaster instead"
    parser.add_argument("--with", dest="wanted", default="", metavar="NAME", help=text)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table to this CSV file")
    text = "draw the errors of each week: .png, .svg or .pdf"
    parser.add_argument("--plot", type=Path, metavar="FILE", help=text)
    about = "take new readings behind the old ones, and bring the kept models up to date"
    _add_new(add_parser(commands, "update", about, UPDATE, _update))


def _add_new(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    text = "files of new readings, or folders of them: whole exports or only what is new"
    parser.add_argument("new", type=Path, nargs="+", metavar="NEW", help=text)
    add_unit(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table; what could not be scored, and who has drifted, goes to standard error."""
    import pandas as pd

    from plfl.forecast.choice import Forecasters
    from plfl.forecast.update import backtest

    if options.plot is not None and options.plot.suffix not in (".png", ".svg", ".pdf"):
        raise PlflError(f"--plot {options.plot}: name a file that ends in .png, .svg or .pdf")
    forecasters = Forecasters(options.results)
    tables, problems = forecasters.any_model.read_all(options.new, unit=options.read_as)

    def score(client: str, readings: pd.DataFrame) -> Any:
        return backtest(forecasters, client, readings, options.wanted)

    scored = for_each_meter(tables, problems, score)
    rows = [row for row, _, _ in scored.values()]
    _tell_drift(rows)
    text = _csv(pd.DataFrame(rows))
    if options.out is None:
        print(text, end="")
    else:
        write_text(options.out, text)
        print(f"wrote {options.out}", file=sys.stderr)
    if options.plot is not None:
        from plfl.report.update import draw

        draw(rows, {client: (past, now) for client, (_, past, now) in scored.items()}, options.plot)
        print(f"wrote {options.plot}", file=sys.stderr)
    return INCOMPLETE if problems else 0


def _update(options: argparse.Namespace) -> int:
    """Print what the update changes; what is new, or could not be used, goes to standard error."""
    import logging

    from plfl.base.files import hold
    from plfl.forecast.choice import Forecasters
    from plfl.forecast.update import Update
    from plfl.report.update import write as page

    # Loads beyond what a model has seen are what it is trained for here.
    logging.getLogger("plfl.forecast.model").setLevel(logging.ERROR)
    busy = "another process is running this study or updating it; wait until it has finished"
    lock = hold(options.results / ".lock", busy=busy)
    try:
        update = Update(Forecasters(options.results))
        reader = update.forecasters.any_model
        tables, problems = reader.read_all(options.new, unit=options.read_as)

        def add_readings(client: str, readings: pd.DataFrame) -> None:
            print(f"{client}: {update.add(client, readings)}", file=sys.stderr)

        for_each_meter(tables, problems, add_readings)
        without = [name for name in update.forecasters.clients if name not in tables]
        if without:
            shown = ", ".join(without[:3]) + (" …" if len(without) > 3 else "")
            print(f"no readings of {len(without)} of the meters: {shown}", file=sys.stderr)
        if update.readings:
            folder = update.write(page)
            _tell_drift(update.errors)
            print(_csv(update.outcome()), end="")
            print(f"wrote {folder}", file=sys.stderr)
        else:
            print("nothing is changed", file=sys.stderr)
    finally:
        lock.release()
    return INCOMPLETE if problems else 0


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.4g", lineterminator="\n")


def _tell_drift(rows: list[dict[str, Any]]) -> None:
    """A line about each meter that has drifted, and what to do."""
    for row in rows:
        if row["drift_low"] > 0:
            print(
                f"{row['client']}: its weekly error has grown from {row['past_mase']:.2f} MASE by "
                f"{row['drift']:.2f} ({row['drift_low']:.2f} to {row['drift_high']:.2f}): look for "
                "a change in the building or its meter; if it stays, `plfl update`, and if that "
                "does not help, run the study again with these readings",
                file=sys.stderr,
            )
