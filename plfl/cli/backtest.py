"""`plfl backtest`: the errors of forecasts for later readings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plfl.base.errors import PlflError, Problem
from plfl.base.extras import require
from plfl.base.files import atomic
from plfl.base.keys import word_keys
from plfl.base.lazy import pandas as pd
from plfl.cli import first_day
from plfl.cli.common import Commands, add_parser, add_trust, add_unit
from plfl.cli.meters import (
    INCOMPLETE_STATUS,
    deliver_errors,
    for_each_meter,
    keys_of_selection,
    print_by_text,
    share_messages,
)
from plfl.cli.results import find_results
from plfl.forecast.backtest import backtest, backtest_new, describe_all, describe_drift
from plfl.forecast.choice import Forecasters
from plfl.forecast.kept_errors import has_medians
from plfl.study.forecaster_names import IN_USE

EXAMPLES = """
plfl backtest exports/ --kind homes --timezone Europe/Berlin
plfl backtest results/own december/
plfl backtest results/own december.csv --with lightgbm_lags --out errors.csv --plot errors.png
plfl backtest results/own museum.csv --new
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "backtest", EXAMPLES, run, takes_files=True)
    add_trust(parser)
    text = (
        "first the results folder of a study, or its file, then files of new readings, or folders "
        "of them: whole exports or only what is new; or, without a study, only raw exports"
    )
    parser.add_argument("paths", type=find_results, nargs="+", metavar="PATH", help=text)
    add_unit(parser)
    text = "only this meter; if a file has no name of one, its name"
    parser.add_argument("--client", help=text)
    text = (
        "also meters that did not take part in the study: what `plfl forecast --new` takes for the "
        "first four fifths of their readings, scored on the last fifth"
    )
    parser.add_argument("--new", dest="newcomer", action="store_true", help=text)
    text = "score this forecaster instead"
    parser.add_argument("--with", dest="wanted", default="", metavar="NAME", help=text)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table to this CSV file")
    text = "draw the errors of each week: .png, .svg or .pdf"
    parser.add_argument("--plot", type=Path, metavar="FILE", help=text)
    text = "without a study: zone of stamps without a UTC offset, such as Europe/Berlin"
    parser.add_argument("--timezone", metavar="ZONE", help=text)
    first_day.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table; what could not be scored, and who has drifted, goes to standard error."""
    if options.plot is not None and options.plot.suffix not in (".png", ".svg", ".pdf"):
        raise PlflError(
            Problem(
                f"--plot {options.plot}",
                "is no kind of picture",
                "name a file that ends in .png, .svg or .pdf",
            )
        )
    if options.plot is not None:
        require("study", "--plot")
    if not first_day.is_study(options):
        return first_day.backtest(options, options.paths)
    if options.timezone is not None:
        raise PlflError(
            Problem(
                "--timezone",
                "is for files without a study",
                "say in which time zone new files of a study are with --read-timezone",
            )
        )
    results, *new = options.paths
    if not new:
        raise PlflError(
            Problem(results, "no readings are given", "name files of new ones after it")
        )
    forecasters = Forecasters(results, options.accept_misfits)
    with share_messages():
        return _backtest_study(options, forecasters, new)


def _backtest_study(options: argparse.Namespace, forecasters: Forecasters, new: list[Path]) -> int:
    """Print the errors of a study's forecasters."""
    keys = first_day.keys_for_study(options, forecasters.results)
    with word_keys(first_day.word_for_study):
        selection = keys_of_selection(options.client, options.newcomer)
        _, client_readings, problems = forecasters.known_readings.read(
            new, options.client, selection | keys
        )

    def score(client: str, readings: pd.DataFrame) -> Any:
        is_new = options.newcomer and client not in forecasters.clients
        score_meter = backtest_new if is_new else backtest
        return score_meter(forecasters, client, readings, options.wanted)

    results_of_meters = for_each_meter(client_readings, problems, score, action="backtest")
    if options.remember:
        first_day.remember(forecasters.results, keys)
    scored_tables = {name: client_readings[name] for name in results_of_meters}
    print_by_text(forecasters.known_readings.remarks(scored_tables))
    rows = [row for row, *_ in results_of_meters.values()]
    for row, past, *_ in results_of_meters.values():
        if sentence := describe_drift(row, past):
            print(f"{row['client']}: {sentence}", file=sys.stderr)
    if line := describe_all(rows):
        print(line, file=sys.stderr)
    pairs = {client: table for client, (*_, table) in results_of_meters.items()}
    zones = {client: forecasters.any_model.meter_files.zone(client) for client in pairs}
    are_medians = has_medians(forecasters.any_model.study, options.wanted or IN_USE)
    rows += first_day.sum_row(options, pairs, problems, zones, are_medians)
    deliver_errors(rows, options.out)
    if options.plot is not None:
        _draw(
            {
                client: (past_error, now)
                for client, (_, past_error, now, _) in results_of_meters.items()
            },
            options.plot,
        )
        print(f"wrote {options.plot}", file=sys.stderr)
    return INCOMPLETE_STATUS if problems else 0


def _draw(weeks: Mapping[str, tuple[pd.Series[float], pd.Series[float]]], path: Path) -> None:
    """Draw a panel for each client and write the figure. `weeks`: the weekly MASE of each client in
    the test set and in the new readings, by its first day."""
    import matplotlib
    import seaborn as sns

    from plfl.report.figures.style import style

    matplotlib.use("agg")
    parts = {
        (client, name): mase
        for client, series_pair in weeks.items()
        for name, mase in zip(("test set", "new readings"), series_pair, strict=True)
    }
    y = "MASE of a week"
    table = pd.concat(parts, names=["meter", "readings", "week"]).rename(y).reset_index()
    with style():
        grid = sns.relplot(
            table, x="week", y=y, hue="readings", kind="line", marker="o", col="meter",
            col_wrap=min(3, len(weeks)), height=2, aspect=1.2,
        )  # fmt: skip
        grid.refline(y=1).set_titles("{col_name}").tick_params(axis="x", rotation=45)
        with atomic(path) as temporary:
            grid.savefig(temporary)
