"""`plfl forecast` and `plfl backtest` of exports without a study, by models of public meters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from plfl.base.errors import ConfigError, DataError, PlflError, Problem, shared_lines
from plfl.base.files import write_text
from plfl.base.keys import Key, Wording, word_keys
from plfl.base.lazy import pandas as pd
from plfl.cli.common import progress_bar
from plfl.cli.init import add_meters_options, meters_of, word_as_option
from plfl.cli.meters import (
    INCOMPLETE_STATUS,
    deliver_errors,
    deliver_forecasts,
    for_each_meter,
    print_by_text,
)
from plfl.config.meters import Meters
from plfl.data.meters.doubts import doubts
from plfl.data.meters.exports import read_exports
from plfl.data.meters.paths import client_name, is_series, raw_files
from plfl.data.meters.questions import LARGEST_LOADS
from plfl.first_study.meters import place_problem, zone_lines, zone_problem
from plfl.forecast.backtest import describe_all
from plfl.forecast.first_day import RawMeter, describe, raw_meters, score_meter, summary
from plfl.forecast.kept_errors import warn_of_sum
from plfl.forecast.output import Form
from plfl.forecast.reading_keys import READING_FILE, read_remembered
from plfl.forecast.sums import SUM, add_up, check_members, score_sum
from plfl.public.inputs import LeadTime
from plfl.public.models import METER_KINDS

OTHER_NAMES = {"stamp": "read_stamp", "unit": "read_as"}
"""Keys of `data.meters` whose options have other names here, where forecasts have these."""
MODEL_KEYS = ("interval", "since", "until")
"""Keys of `data.meters` that are settled where a study's models forecast."""
ABOUT_STUDIES = {
    "wanted": "--with",
    "newcomer": "--new",
    "save": "--save",
    "all": "--all",
    "remember": "--remember",
    "keep_readings": "--keep-readings",
    "accept_misfits": "--accept-misfits",
}
"""Options that need the models of a study."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for raw exports."""
    text = "without a study: what the meters are; a model of public meters then forecasts them"
    parser.add_argument("--kind", choices=METER_KINDS, help=text)
    text = "without a study: the next hour, or the next 24; default: day"
    parser.add_argument("--ahead", choices=["hour", "day"], help=text)
    text = "with a results folder: read later files in this way, too, without the options below"
    parser.add_argument("--remember", action="store_true", help=text)
    text = "with a study: take readings on another scale than its own, or of another year"
    parser.add_argument("--accept-misfits", action="store_true", help=text)
    text = "also the sum of all meters, such as a feeder, a campus or an energy community"
    parser.add_argument("--sum", action="store_true", help=text)
    group = parser.add_argument_group(
        "options of the files of readings",
        "those of `plfl init meters`; with a study, only where these files differ from its own; "
        "without one, --timezone is also for stamps without a UTC offset",
    )
    text = "with a study: zone of stamps without a UTC offset"
    group.add_argument("--read-timezone", metavar="ZONE", help=text)
    text = "what the stamps of the readings mark; default: what the files say, or end"
    group.add_argument(
        "--read-stamp", choices=["start", "end"], default=argparse.SUPPRESS, help=text
    )
    add_meters_options(group, ["timezone", *OTHER_NAMES])


def is_study(options: argparse.Namespace) -> bool:
    """Whether the first path is a file of models or a results folder, and not an export."""
    first, *other_paths = options.paths
    if (first / "study.json").is_file() or first.suffix == ".safetensors":
        return True
    if options.kind is not None:
        return False
    if first.is_dir():
        return not any(map(is_series, first.iterdir()))
    return not is_series(first) or bool(other_paths and not first.is_file())


def _word_as_option(key: Key, wording: Wording) -> str:
    """A key in a message as the option of `plfl forecast` without a study."""
    return word_as_option(key, wording, OTHER_NAMES)


def word_for_study(key: Key, wording: Wording) -> str:
    """A key in a message as the option of `plfl forecast` for new files of a study."""
    return word_as_option(key, wording, OTHER_NAMES | {"timezone": "read_timezone"})


@word_keys(word_for_study)
def keys_for_study(options: argparse.Namespace, study_path: Path) -> dict[str, Any]:
    """The keys of `data.meters` for new files of a study, where they differ from its own: those of
    the options, over those that its results folder remembers.

    Raises:
        PlflError: an option is wrong, or only for exports without a study.
    """
    options_given = keys_of_options(options)
    options_given.pop("timezone", None)  # of forecasts
    if options.read_timezone is not None:
        options_given["timezone"] = options.read_timezone
    refused_keys = [key for key in ("kind", "ahead") if getattr(options, key) is not None]
    refused_keys += [key for key in MODEL_KEYS if key in options_given]
    if refused_keys:
        raise PlflError(
            Problem(f"--{refused_keys[0]}", "is settled by the models of the study", "leave it out")
        )
    keys = read_remembered(study_path)
    try:
        keys |= meters_of(options_given).model_dump(exclude_unset=True)
    except ConfigError as error:
        raise DataError(*error.problems) from None
    if options.remember and not study_path.is_dir():
        raise PlflError(Problem("--remember", f"{study_path} is no results folder", "name one"))
    return keys


def remember(study_path: Path, keys: dict[str, Any]) -> None:
    """Write keys of `data.meters` with which new files were read into the results folder, so that
    later ones are read alike."""
    file = study_path / READING_FILE
    text = "# How `plfl forecast` and `plfl backtest` read new files: keys of data.meters.\n"
    write_text(file, text + yaml.safe_dump(_as_yaml(keys), sort_keys=False))
    print(f"wrote {file}", file=sys.stderr)


def _as_yaml(keys: dict[str, Any]) -> dict[str, Any]:
    """Keys as YAML has them."""
    return Meters.model_validate(keys).model_dump(mode="json", exclude_unset=True)


def keys_of_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keys of `data.meters` among the options."""
    options_given: dict[str, Any] = {}
    for key in Meters.model_fields:
        value = getattr(options, OTHER_NAMES.get(key, key), None)
        if value is not None:
            options_given[key] = value
    return options_given


@word_keys(_word_as_option)
def read(
    options: argparse.Namespace, paths: list[Path]
) -> tuple[dict[str, RawMeter], list[Problem]]:
    """The meters in raw exports, by `--client` a single one, and the problems of what cannot be
    used."""
    if options.read_timezone is not None:
        raise PlflError(
            Problem("--read-timezone", "is for new files of a study", "say --timezone instead")
        )
    for key, name in ABOUT_STUDIES.items():
        if getattr(options, key, None):
            raise PlflError(
                Problem(name, "needs a study", "name its results folder before the files")
            )
    if options.kind is None:
        raise PlflError(
            Problem(
                paths[0],
                "is no results folder",
                "to forecast its meters without a study, say what they are: --kind homes or "
                "--kind buildings",
            )
        )
    try:
        files = raw_files(paths)
        meters = meters_of(keys_of_options(options)).model_copy(update={"exports": files})
        interval = meters.interval if "interval" in meters.model_fields_set else None
        # Several files with one meter each are several meters, even if their columns are alike.
        names = None if meters.join_files or len(files) == 1 else {f: client_name(f) for f in files}
        with progress_bar("read", "step") as progress:
            exports = read_exports(
                files, meters, interval, names, progress, largest=LARGEST_LOADS[options.kind]
            )
        if problem := zone_problem(exports, meters) or place_problem(exports, meters):
            raise DataError(problem)
        known_meters, problems = raw_meters(exports)
        for line in [*exports.assumptions, *zone_lines(exports, meters)]:
            print(line, file=sys.stderr)
        for doubt in doubts(exports.meters, LARGEST_LOADS[options.kind]):
            print(f"odd: {doubt}", file=sys.stderr)
    except ConfigError as error:
        raise DataError(*error.problems) from None
    print_by_text(describe(known_meters))
    if not known_meters:
        raise DataError(*shared_lines(problems or [Problem(paths[0], "has no meter")]))
    if options.client is not None:
        if options.client not in known_meters:
            has = ", ".join(map(repr, known_meters))
            raise DataError(
                Problem(
                    f"--client {options.client}", "there is no such meter", f"name one of {has}"
                )
            )
        known_meters = {options.client: known_meters[options.client]}
    return known_meters, problems


def forecast(options: argparse.Namespace, paths: list[Path]) -> int:
    """Print or write the forecasts; one line says what made them and how it did before."""
    meters, problems = read(options, paths)
    lead_time: LeadTime = options.ahead or "day"
    forecasts = for_each_meter(
        meters,
        problems,
        lambda name, meter: meter.forecast(name, options.kind, lead_time),
        action="forecast",
    )
    minutes = next(iter(meters.values())).minutes
    form = Form(minutes, options.unit, options.timezone, options.stamp, options.wide)
    tables = {name: meters[name].localise(forecast.table) for name, forecast in forecasts.items()}
    forecasters = {
        name: "public and own" if f.own_weight else "public" for name, f in forecasts.items()
    }
    add_sum(options, tables, forecasters, problems)
    table = form.table(tables, forecasters)
    seen_meters = sum(meters[name].is_seen(options.kind) for name in forecasts)
    print(f"{form.unit_of_loads}, {summary(forecasts, options.kind, seen_meters)}", file=sys.stderr)
    return deliver_forecasts(table, options.out, len(forecasts), problems)


def add_sum(
    options: argparse.Namespace,
    tables: dict[str, pd.DataFrame],
    forecasters: dict[str, str],
    problems: list[Problem],
) -> None:
    """Add the sum of the meters' forecasts to their tables, if `--sum` asks for it; see
    `can_add_up`. Without a common time a line says that there is no sum, a further problem."""
    if can_add_up(options, [*tables], problems):
        try:
            tables[SUM] = add_up(tables, ["forecast"])
        except DataError as error:
            print(f"plfl: {error}; the sum is left out", file=sys.stderr)
            problems += error.problems
            return
        forecasters[SUM] = "sum of the meters"


def sum_row(
    options: argparse.Namespace,
    pairs: dict[str, pd.DataFrame],
    problems: list[Problem],
    zones: Mapping[str, ZoneInfo | None],
    are_medians: bool,
) -> list[dict[str, Any]]:
    """The errors of the sum of the meters' forecasts, as a row below theirs, if `--sum` asks for
    it; see `can_add_up` and `score_sum`. A line warns of a sum that is worse than repeating the
    load of a day before."""
    if not can_add_up(options, [*pairs], problems):
        return []
    scores = score_sum(pairs, zones)
    if warning := warn_of_sum(scores, are_medians):
        print(f"{SUM}: {warning}", file=sys.stderr)
    return [{"client": SUM, "forecaster": "sum of the meters", **scores}]


def can_add_up(options: argparse.Namespace, names: list[str], problems: list[Problem]) -> bool:
    """Whether to add the sum of meters. If one of them is missing, a line says that there is no
    sum. DataError: there is only one meter, or one has the name of the sum."""
    if not options.sum:
        return False
    if problems:
        print(
            f"plfl: {SUM}: left out, because not all meters are there (see above); to add up the "
            "others, leave out the files of these",
            file=sys.stderr,
        )
        return False
    check_members(names)
    return True


def backtest(options: argparse.Namespace, paths: list[Path]) -> int:
    """Print or write the errors of forecasts of the last weeks, meter by meter."""
    if options.plot is not None:
        raise PlflError(
            Problem("--plot", "needs a study", "name its results folder before the files")
        )
    meters, problems = read(options, paths)
    lead_time: LeadTime = options.ahead or "day"
    results = for_each_meter(
        meters,
        problems,
        lambda name, meter: meter.forecast(name, options.kind, lead_time),
        action="forecast",
    )
    seen_meters = sum(meters[name].is_seen(options.kind) for name in results)
    print(summary(results, options.kind, seen_meters), file=sys.stderr)
    by_meter = for_each_meter(
        results, problems, lambda name, result: score_meter(name, result, meters[name].zone)
    )
    rows = [*by_meter.values()]
    if line := describe_all(rows):
        print(line, file=sys.stderr)
    pairs = {name: result.pairs for name, result in results.items()}
    zones = {name: meters[name].zone for name in pairs}
    rows += sum_row(options, pairs, problems, zones, are_medians=True)
    deliver_errors(rows, options.out)
    return INCOMPLETE_STATUS if problems else 0
