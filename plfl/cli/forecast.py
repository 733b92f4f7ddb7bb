"""`plfl forecast`: forecasts of trained models from files of new readings."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from plfl.base.errors import DataError, PlflError, Problem
from plfl.base.extras import require
from plfl.base.keys import word_keys
from plfl.base.lazy import import_without
from plfl.base.lazy import pandas as pd
from plfl.base.text import counted_names
from plfl.cli import first_day
from plfl.cli.common import Commands, add_parser, add_trust, add_unit, add_which_model
from plfl.cli.meters import (
    deliver_forecasts,
    for_each_meter,
    keys_of_selection,
    print_by_text,
    share_messages,
)
from plfl.cli.results import find_results
from plfl.data.meters.paths import client_name, raw_files
from plfl.data.meters.tables import NO_READING
from plfl.forecast.choice import Forecasters, is_results_folder
from plfl.forecast.kept_errors import warn_of_sums
from plfl.forecast.misfits import check_fit
from plfl.forecast.model import ForecastModel, load
from plfl.forecast.output import FORMATS, Form
from plfl.forecast.sums import SUM
from plfl.public.models import METER_KINDS, card
from plfl.results.assignment import IN_USE

EXAMPLES = """
plfl forecast exports/ --kind homes --timezone Europe/Berlin
plfl forecast results/own exports/ --out next.xlsx --unit kW --timezone Europe/Berlin
plfl forecast results/own school.csv --with lightgbm_lags
plfl forecast results/own museum.csv --new --save museum.safetensors
plfl forecast results/own/models/all-P2.safetensors export.csv --client school --all --out next.csv
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "forecast", EXAMPLES, run, takes_files=True)
    add_trust(parser)
    text = (
        "first a results folder or the study's file, whose best forecaster on validation is taken, "
        "or a file of its models, then files of readings or folders of them, in the layout of the "
        "study's meters; or, without a study, only raw exports"
    )
    parser.add_argument("paths", type=find_results, nargs="*", metavar="PATH", help=text)
    add_which_model(parser)
    parser.add_argument("--client", help="only this meter; if a file has no name of one, its name")
    add_with(parser)
    text = (
        "also meters that did not take part in the study: a forecaster for each by its weeks of "
        "readings; a network may train on these first; those that took part keep theirs"
    )
    parser.add_argument("--new", dest="newcomer", action="store_true", help=text)
    text = "with --new: keep its model (safetensors)"
    parser.add_argument("--save", type=Path, metavar="FILE", help=text)
    text = "also the forecasts that could have been made at each earlier reading in the files"
    parser.add_argument("--all", action="store_true", help=text)
    text = "write the forecasts to this file: .csv, .parquet, .xlsx or .json"
    parser.add_argument("--out", type=Path, metavar="FILE", help=text)
    add_unit(parser)
    text = "unit of the forecasts; default: kWh"
    parser.add_argument("--unit", choices=["kWh", "kW"], default="kWh", help=text)
    text = "time zone of the forecasts' stamps; default: the local time of the meters"
    parser.add_argument("--timezone", metavar="ZONE", help=text)
    text = "what the stamps of the forecasts mark of their interval; default: end"
    parser.add_argument("--stamp", choices=["start", "end"], default="end", help=text)
    parser.add_argument("--wide", action="store_true", help="a column for each meter")
    text = "print what is to be known about the model of public meters of this kind"
    parser.add_argument("--card", choices=METER_KINDS, help=text)
    text = (
        "with a results folder: keep the last five weeks of readings in it, so that the next files "
        "need only newer ones"
    )
    parser.add_argument("--keep-readings", action="store_true", help=text)
    first_day.add_options(parser)


def add_with(parser: argparse.ArgumentParser) -> None:
    """Add the option `--with`."""
    text = "of a results folder: the forecaster, such as P2 or lightgbm_lags"
    parser.add_argument("--with", dest="wanted", default="", metavar="NAME", help=text)


def run(options: argparse.Namespace) -> int:
    """Print or write the forecasts; what else there is to say goes to the standard error. Returns
    the exit status."""
    if options.card is not None:
        print(card(options.card), end="")
        return 0
    if not options.paths:
        raise PlflError(
            Problem(
                "forecast",
                "no files are given",
                "name a results folder and files of readings, or only files",
            )
        )
    _check_output_format(options)
    if not first_day.is_study(options):
        return first_day.forecast(options, options.paths)
    options.file, *options.new = options.paths
    if not options.new:
        raise PlflError(
            Problem(options.file, "no readings are given", "name files of new ones after it")
        )
    with share_messages() as say:
        return _forecast_with_study(options, say)


def _forecast_with_study(options: argparse.Namespace, say: Callable[[str, str], None]) -> int:
    """Forecast with the models of a study."""
    kept_forecasters = (
        Forecasters(options.file, options.accept_misfits)
        if is_results_folder(options.file)
        else None
    )
    if kept_forecasters is not None and kept_forecasters.are_of_plfl:
        import_without("sklearn", "lightgbm")
    _check(options, kept_forecasters is not None)
    reader = kept_forecasters.any_model if kept_forecasters else load(options.file)
    client = options.client or _only_client(reader, options, kept_forecasters is not None)
    keys = first_day.keys_for_study(options, options.file)
    readings_read, tables, problems = _read(options, kept_forecasters, reader, client, keys)
    if options.save is not None and len(tables) > 1:
        raise DataError(
            Problem(
                "--save",
                f"keeps one model, but the files have {len(tables)} meters",
                "choose one with --client",
            )
        )

    participants = kept_forecasters.clients if kept_forecasters else reader.clients
    known_names = [name for name in tables if name in participants]
    if options.newcomer and known_names:
        _name_participants(known_names, options.save)

    fitting_names: set[str] = set()

    def forecast(name: str, readings: pd.DataFrame) -> tuple[pd.DataFrame, str]:
        is_new = options.newcomer and name not in participants
        model = _model(kept_forecasters, reader, name, readings, is_new, options, say)
        if kept_forecasters and readings.empty:
            fitting_names.add(name)
            readings = kept_forecasters.latest_reading(name)
            last = model.local_time(readings.index[-1], name)
            say(name, f"no reading yet: forecast from the known ones, up to {last}")
        first, reported_from = readings.index[0], None
        if kept_forecasters and not is_new:
            reported_from = kept_forecasters.last_known(name) + pd.Timedelta(minutes=1)
            readings = kept_forecasters.read_by_next(model, name, readings)
            fitting_names.add(name)
        table = _forecasts(model, name, readings, first, reported_from, options)
        if not (kept_forecasters or is_new or options.accept_misfits):
            highest = model.highest_load(name)
            check_fit(name, readings["load"], None, highest, model.local_time)
        return table, model.short_name

    try:
        forecasts_of_meters = for_each_meter(tables, problems, forecast, action="forecast")
    finally:  # those without a forecast need them in a later call
        if kept_forecasters and options.keep_readings:
            kept_forecasters.keep_readings(
                {name: table for name, table in readings_read.items() if name in fitting_names}
            )
    if options.remember:
        first_day.remember(options.file, keys)
    names_of_new = [name for name in forecasts_of_meters if name in fitting_names]
    new_tables = {name: tables[name] for name in names_of_new if len(tables[name])}
    _print_remarks(kept_forecasters, new_tables)
    forecasts = {name: table for name, (table, _) in forecasts_of_meters.items()}
    forecasters = {name: forecaster for name, (_, forecaster) in forecasts_of_meters.items()}
    form = Form(reader.interval, options.unit, options.timezone, options.stamp, options.wide)
    names_used = ", ".join(dict.fromkeys(forecasters.values()))
    first_day.add_sum(options, forecasts, forecasters, problems)
    _print_sum_warnings(kept_forecasters, forecasts, options.wanted)
    table = form.table(forecasts, forecasters)
    suffix = reader.study.data.sample_suffix
    print(f"{names_used}{suffix}: {form.unit_of_loads}", file=sys.stderr)
    return deliver_forecasts(table, options.out, len(forecasts), problems)


def _only_client(model: ForecastModel, options: argparse.Namespace, is_folder: bool) -> str | None:
    """The client of a file of models that has one, whose readings the files have; None of others
    and with `--new`."""
    is_only = not (is_folder or options.newcomer) and len(model.clients) == 1
    return model.clients[0] if is_only else None


def _print_sum_warnings(
    kept_forecasters: Forecasters | None, forecasts: Collection[str], forecaster: str
) -> None:
    """Print that forecasts with a sum are not to be added, if the test of the study shows it."""
    if kept_forecasters is None or SUM not in forecasts:
        return
    study = kept_forecasters.any_model.study
    for state, warning in warn_of_sums(
        kept_forecasters.results, study, forecaster or IN_USE
    ).items():
        place = f"{SUM} of {state}" if len(study.data.states) > 1 else SUM
        print(f"{place}: {warning}", file=sys.stderr)


def _print_remarks(kept_forecasters: Forecasters | None, tables: dict[str, pd.DataFrame]) -> None:
    """Print what there is to know about the new readings of participants that are forecast."""
    if kept_forecasters and tables:
        print_by_text(kept_forecasters.remarks(tables))
        print_by_text(kept_forecasters.lags(tables))


def _read(
    options: argparse.Namespace,
    kept_forecasters: Forecasters | None,
    reader: ForecastModel,
    client: str | None,
    keys: dict[str, Any],
) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame], list[Problem]]:
    """The readings in the files as they are, and over the intervals of the study, by meter, and the
    problems of others. Participants whose files have no reading yet have an empty table."""
    selection = keys_of_selection(client, options.newcomer)
    with word_keys(first_day.word_for_study):
        if kept_forecasters is None:
            tables, problems = reader.read_all(options.new, client, selection | keys, options.file)
            return tables, tables, problems
        readings, tables, problems = kept_forecasters.read(options.new, client, selection | keys)
    files = raw_files(options.new, with_subfolders=True)
    if client is None and not options.newcomer and len(files) < len(readings):
        absent_names = _absent(kept_forecasters.clients, tables, problems)
        print_by_text(dict.fromkeys(absent_names, "not in these files"))
    # Where a file is that of a participant, the others are each of one meter, too.
    has_strangers = options.newcomer or any(
        client_name(file) in kept_forecasters.clients for file in files
    )
    waiting_names = take_waiting(problems, kept_forecasters.clients, tables, client, has_strangers)
    return readings, tables | dict.fromkeys(waiting_names, pd.DataFrame()), problems


def _absent(
    participants: Collection[str], tables: Collection[str], problems: Sequence[Problem]
) -> list[str]:
    """The participants of which nothing is in the files, neither readings nor problems."""
    present_names = {*tables, *(problem.meter for problem in problems)}
    return [name for name in participants if name not in present_names]


def take_waiting(
    problems: list[Problem],
    participants: Collection[str],
    tables: Collection[str],
    client: str | None,
    has_strangers: bool = False,
) -> list[str]:
    """The participants, or the only `client`, whose files have no reading yet; these problems are
    taken out of the list. A file that has none, and is not that of a single participant, may be of
    all that are not among the `tables` of readings."""
    said_names = {problem.meter for problem in problems if problem.kind == NO_READING}
    names = said_names & {*participants}
    if said_names != names and not has_strangers:
        names |= {*participants} if client is None else {client} & {*participants}
        said_names |= names
    else:
        said_names = names
    problems[:] = [
        problem
        for problem in problems
        if problem.kind != NO_READING or problem.meter not in said_names
    ]
    refused_names = {problem.meter for problem in problems}
    return [
        name
        for name in participants
        if name in names and name not in tables and name not in refused_names
    ]


def _check_output_format(options: argparse.Namespace) -> None:
    """Refuse a file of forecasts in a format that is unknown, or whose package is missing."""
    if options.out is None:
        return
    suffix = options.out.suffix.lower()
    if suffix == ".xlsx":
        require("xlsx", f"--out {options.out}")
    if suffix not in FORMATS:
        raise PlflError(
            Problem(
                f"--out {options.out}",
                "its format is unknown",
                f"name a file that ends in one of {', '.join(FORMATS)}",
            )
        )


def _check(options: argparse.Namespace, is_folder: bool) -> None:
    """Refuse options that do not fit together."""
    if not options.newcomer and options.save is not None:
        raise DataError(
            Problem(
                "--save",
                "keeps the model of a meter that did not take part",
                "add --new, or leave it out",
            )
        )
    if options.keep_readings and (not is_folder or options.all):
        raise DataError(Problem("--keep-readings", "only with a results folder, without --all"))
    check_with(options, is_folder)


def _say_nothing(client: str, text: str) -> None:
    """Leave unsaid what there is to say of a meter."""


def _name_participants(names: list[str], model_file: Path | None) -> None:
    """Say with `--new` that meters took part in the study, so that they are not new. DataError if
    the model of one of them is to be kept in a file."""
    if model_file is not None:
        raise DataError(
            Problem(
                "--save",
                f"keeps the model of a new meter, but {names[0]} took part",
                "leave it out, or choose another meter with --client",
            )
        )
    is_one = len(names) == 1
    print(
        f"{counted_names(names)}: took part in the study, so {'it is' if is_one else 'they are'} "
        f"not new and {'keeps its' if is_one else 'keep their'} forecaster",
        file=sys.stderr,
    )


def check_with(options: argparse.Namespace, is_folder: bool) -> None:
    """Refuse `--with` where there is no choice."""
    if options.wanted and not is_folder:
        raise DataError(
            Problem("--with", "chooses among the forecasters of a results folder", "name one")
        )


def choose_model(
    kept_forecasters: Forecasters, client: str, forecaster: str, say: Callable[[str, str], None]
) -> ForecastModel:
    """The model for a meter that took part; a line says why."""
    choice = kept_forecasters.choose(client, forecaster)
    say(client, f"{choice.name}, {choice.why}")
    return kept_forecasters.model(choice.file)


def _model(
    kept_forecasters: Forecasters | None,
    reader: ForecastModel,
    client: str,
    readings: pd.DataFrame,
    is_new: bool,
    options: argparse.Namespace,
    say: Callable[[str, str], None],
) -> ForecastModel:
    """The model for a meter; of a results folder, a line says why, in the first of the calls that
    keep readings."""
    if not is_new:
        if kept_forecasters is None:
            return reader
        is_repeated = options.keep_readings and client in kept_forecasters.recent
        tell = _say_nothing if is_repeated else say
        return choose_model(kept_forecasters, client, options.wanted, tell)
    logging.getLogger("plfl.forecast").setLevel(logging.INFO)
    if kept_forecasters is None:
        model = reader.adapt(readings, client)
    else:
        choice, model = kept_forecasters.choose_for_new(client, readings, options.wanted)
        say(client, f"{choice.name}, {choice.why}")
    if options.save is not None:
        model.save(options.save)
        print(f"wrote {options.save}", file=sys.stderr)
    return model


def _forecasts(
    model: ForecastModel,
    client: str,
    readings: pd.DataFrame,
    first: pd.Timestamp,
    reported_from: pd.Timestamp | None,
    options: argparse.Namespace,
) -> pd.DataFrame:
    """The forecasts for a meter, with the offsets of their stamps. `first`: the first reading in
    its files; those before it are known. `reported_from`: as of `predict_next`."""
    forecasts = (
        model.predict(readings, client, options.model, fills_lags=True, since=first)
        if options.all
        else model.predict_next(readings, client, options.model, reported_from)
    )
    if forecasts.empty:
        remedy = "add readings, or let a longer gap be filled with --max-gap MINUTES"
        raise DataError(model.explain_no_forecast(readings, client, remedy))
    return model.with_offsets(forecasts, client)
