"""`plfl forecast`: forecasts of trained models from files of new readings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

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
from plfl.forecast.output import FORMATS, Form
from plfl.forecast.study_forecasts import SayOfMeter, StudyForecasts
from plfl.forecast.sums import SUM
from plfl.public.models import METER_KINDS, card

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


def _forecast_with_study(options: argparse.Namespace, say: SayOfMeter) -> int:
    """Forecast with the models of a study."""
    study_forecasts = StudyForecasts(
        options.file,
        say,
        forecaster=options.wanted,
        has_new=options.newcomer,
        has_earlier=options.all,
        model_kind=options.model,
        accepts_misfits=options.accept_misfits,
        keeps_readings=options.keep_readings,
    )
    if study_forecasts.folder is not None and study_forecasts.folder.are_of_plfl:
        import_without("sklearn", "lightgbm")
    _check(options, study_forecasts.folder is not None)
    reader = study_forecasts.any_model
    keys = first_day.keys_for_study(options, options.file)
    with word_keys(first_day.word_for_study):
        selection = keys_of_selection(options.client, options.newcomer)
        readings, client_readings, problems, absent_names = study_forecasts.read(
            options.new, options.client, selection | keys
        )
    print_by_text(dict.fromkeys(absent_names, "not in these files"))
    if options.save is not None and len(client_readings) > 1:
        raise DataError(
            Problem(
                "--save",
                f"keeps one model, but the files have {len(client_readings)} meters",
                "choose one with --client",
            )
        )
    known_names = [name for name in client_readings if name in study_forecasts.participants]
    if options.newcomer and known_names:
        _name_participants(known_names, options.save)

    def forecast(name: str, readings: pd.DataFrame) -> tuple[pd.DataFrame, str]:
        model = study_forecasts.choose_model(name, readings)
        if options.save is not None:
            model.save(options.save)
            print(f"wrote {options.save}", file=sys.stderr)
        return study_forecasts.forecast(model, name, readings), model.short_name

    try:
        forecasts_of_meters = for_each_meter(client_readings, problems, forecast, action="forecast")
    finally:  # those without a forecast need them in a later call
        study_forecasts.keep_readings(readings)
    if options.remember:
        first_day.remember(options.file, keys)
    for texts in study_forecasts.remarks(
        {name: client_readings[name] for name in forecasts_of_meters}
    ):
        print_by_text(texts)
    forecasts = {name: table for name, (table, _) in forecasts_of_meters.items()}
    forecasters = {name: forecaster for name, (_, forecaster) in forecasts_of_meters.items()}
    form = Form(reader.interval, options.unit, options.timezone, options.stamp, options.wide)
    names_used = ", ".join(dict.fromkeys(forecasters.values()))
    first_day.add_sum(options, forecasts, forecasters, problems)
    if SUM in forecasts:
        for name, warning in study_forecasts.sum_warnings().items():
            print(f"{name}: {warning}", file=sys.stderr)
    table = form.table(forecasts, forecasters)
    suffix = reader.study.data.sample_suffix
    print(f"{names_used}{suffix}: {form.unit_of_loads}", file=sys.stderr)
    return deliver_forecasts(table, options.out, len(forecasts), problems)


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
