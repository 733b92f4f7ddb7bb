"""`plfl init`: writes a study into the current folder, ready-made or of the user's own meters."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import ValidationError

from plfl.base import shipped
from plfl.base.errors import ConfigError, DataError, PlflError, Problem
from plfl.base.keys import Key, Wording, word_keys
from plfl.cli.common import Commands, add_parser, progress_bar
from plfl.config.data import Data
from plfl.config.meters import NOT_INPUTS, Meters
from plfl.config.windows import Holidays
from plfl.first_study import meters as first_study
from plfl.first_study.format_samples import check_own_samples
from plfl.public.models import METER_KINDS, MeterKind
from plfl.study import Study

EXAMPLES = """
plfl init                           # list the ready-made studies
plfl init demo                      # write demo.yaml
plfl init meters export.csv --timezone America/New_York    # write meters.yaml, which reads it
plfl init meters *.xlsx --name campus --timezone Etc/GMT+7 --stamp start --unit kW
plfl init meters long.csv --columns meter=id --columns load=value --missing -9999
"""
METERS = "data.meters."
"""What the paths of keys of own meters begin with."""
NOT_OPTIONS = ("folder", "exports")
"""Keys of `data.meters` that are not about the content of files."""
OF_EXPORTS = ("name", "ahead", "save_format", "kind", "origins", "holidays")
"""Further options that need exports."""
NO_DEFAULT = ("timezone", "interval")
"""Keys whose defaults apply only to studies."""


def add(commands: Commands) -> None:
    """Add `init`, with an option for each key of `data.meters`."""
    parser = add_parser(commands, "init", EXAMPLES, run)
    text = "name of a ready-made study, or `meters`; default: list them"
    parser.add_argument("study", nargs="?", help=text)
    text = (
        "with `meters`: exports of meters, or folders of them: CSV, Parquet or XLSX, with one "
        "meter in a file, a column per meter, or a column of names"
    )
    parser.add_argument("exports", type=Path, nargs="*", metavar="FILE", help=text)
    text = "name of the study of these meters; default: meters"
    parser.add_argument("--name", help=text)
    text = "with `meters`: forecast the next hour, or the next day; default: day"
    parser.add_argument("--ahead", choices=["hour", "day"], help=text)
    text = (
        "with `meters`: write what was found out about the first file and what the options say as "
        "a format file, which reads files like it without options (docs/own-data.md)"
    )
    parser.add_argument("--save-format", type=Path, metavar="FILE.toml", help=text)
    text = "with `meters`: what they are, so that a model of public meters can be compared with"
    parser.add_argument("--kind", choices=METER_KINDS, help=text)
    text = (
        "with `meters`: test at so many times of the year, each four weeks after readings that "
        "trained; 1: on the last weeks, which is faster; default: "
        f"{first_study.TEST_SEASONS} if all meters have {first_study.FEWEST_WEEKS} weeks of "
        "readings, or else 1"
    )
    parser.add_argument("--origins", type=_positive, metavar="NUMBER", help=text)
    text = (
        "with `meters`: have the model read the public holidays of a country (DE) or of one of its "
        "states or provinces (DE-BY)"
    )
    parser.add_argument("--holidays", metavar="COUNTRY[-SUBDIVISION]", help=text)
    keys = parser.add_argument_group(
        "options of `plfl init meters FILE`",
        "the keys of data.meters; lists and mappings are given once per entry",
    )
    add_meters_options(keys)


def add_meters_options(group: argparse._ArgumentGroup, left_out: Collection[str] = ()) -> None:
    """Add an option for each key of `data.meters` about the content of files but those left out."""
    for key, meaning in Meters.meanings().items():
        if key not in (*NOT_OPTIONS, *left_out):
            _add_option(group, key, " ".join(meaning.split()))


def _add_option(group: argparse._ArgumentGroup, key: str, meaning: str) -> None:
    """Add the option of a key of `data.meters`."""
    field = Meters.model_fields[key]
    if key not in NO_DEFAULT and field.default not in (None, False, [], {}):
        meaning += f" Default: {field.default}."
    arguments: dict[str, Any] = {"default": argparse.SUPPRESS, "help": meaning.replace("%", "%%")}
    if isinstance(field.default, bool):
        arguments["action"] = argparse.BooleanOptionalAction
    elif isinstance(field.default, dict):
        arguments |= {"action": "append", "type": _pair, "metavar": "NAME=VALUE"}
    elif isinstance(field.default, list):
        arguments |= {"action": "append", "metavar": "VALUE"}
    elif choices := _choices(field.annotation):
        arguments |= {"choices": choices, "type": type(choices[0])}
    else:
        arguments["metavar"] = "VALUE"
    group.add_argument(f"--{key.replace('_', '-')}", **arguments)


def _choices(kind: object) -> tuple[Any, ...]:
    """The values that a type allows, if it lists them."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next(filter(None, map(_choices, get_args(kind))), ())


def _positive(text: str) -> int:
    """A number above 0."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (name and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def run(options: argparse.Namespace) -> None:
    """Write the file of a study and print what to do with it, or list the studies."""
    meters_keys = {key: value for key, value in vars(options).items() if key in Meters.model_fields}
    exports = meters_keys.pop("exports")
    keys = [*(key for key in OF_EXPORTS if getattr(options, key) is not None), *meters_keys]
    if keys and not exports:
        key = keys[0].replace("_", "-")
        raise PlflError(
            Problem(f"--{key}", "needs exports", f"name them: plfl init meters FILE --{key} …")
        )
    if exports and options.study != "meters":
        raise PlflError(
            Problem(
                exports[0], "only the study `meters` reads files", "write plfl init meters FILE"
            )
        )
    if options.study is None:
        width = max(map(len, shipped.studies()))
        for name in shipped.studies():
            print(f"{name:{width}}  {shipped.about(name)}")
        print("\n`plfl init NAME` writes NAME.yaml into the current folder.")
        return
    if exports:
        path = Path(f"{options.name or 'meters'}.yaml")
        with word_keys(word_as_option):
            _write_study_of_exports(exports, meters_keys, path, options)
    else:
        path = shipped.write_study(options.study, Path())
        print(f"{path}: {shipped.about(options.study)}")
    print(f"next, with {path}:")
    has_meters = Study.load(path).data.source == "meters"
    for command in (*(["data check"] if has_meters else []), "cells", "study"):
        print(f"  plfl {command} {shlex.quote(str(path))}")


def _write_study_of_exports(
    exports: list[Path],
    meters_keys: dict[str, Any],
    path: Path,
    options: argparse.Namespace,
) -> None:
    """Write a study of raw exports, and print what they hold; also their format, if it has a file.
    Wrong options, and what is wrong or ambiguous in the files, are refused."""
    kind: MeterKind | None = options.kind
    format_file: Path | None = options.save_format
    if path.exists():
        raise PlflError(
            Problem(path, "exists already", "remove it, or choose another study with --name")
        )
    if format_file is not None and format_file.exists():
        raise PlflError(Problem(format_file, "exists already", "remove it, or choose another name"))
    try:
        meters = meters_of(meters_keys)
        check_own_samples(meters.format)
        holidays = None if options.holidays is None else holidays_of(options.holidays)
        with progress_bar("read", "step") as progress:
            exports_read, study = first_study.recognise(
                exports,
                meters,
                progress,
                lead_time=options.ahead or "day",
                kind=kind,
                holidays=holidays,
                origins=options.origins,
                command=shlex.join(["plfl", *options.words]),
            )
        first_study.write(path, study)
    except ConfigError as error:
        raise DataError(*error.problems) from None
    if format_file is not None:
        print(
            f"{first_study.save_format(format_file, exports_read, meters)}: the format of the files"
        )
    for line in [*exports_read.report(), *first_study.utc_lines(exports_read, meters)]:
        print(line)
    print(first_study.describe_tests(exports_read, study))
    for name in first_study.too_short(exports_read):
        command = (
            f"plfl forecast results/{path.stem} {shlex.quote(str(exports_read.files[name]))} --new"
        )
        print(
            f"{name}: takes no part, with less than two weeks of readings; after the study, "
            f"forecast it as a new meter:\n  {command} --client {shlex.quote(name)}"
        )
    if first_study.are_all_short(exports_read):
        files = " ".join(shlex.quote(str(file)) for file in exports)
        print(
            "all meters have less than two weeks of readings, too few for a study to test "
            "forecasts; the model of public meters forecasts them now:\n"
            f"  plfl forecast {files} --kind {kind or 'homes'}"
        )
    if kind is None:
        print(
            "without --kind homes or --kind buildings, no model of public meters is compared with "
            "(docs/public.md)"
        )
    elif first_study.is_seen_by_public(exports_read, kind):
        print(f"the model of public {kind} was trained on these meters: it does not count")
    print()


def meters_of(meters_keys: dict[str, Any]) -> Meters:
    """The keys of `data.meters` that the options give, checked like those of a study."""
    for key, value in meters_keys.items():
        if isinstance(Meters.model_fields[key].default, dict):
            names = [name for name, _ in value]
            if twice := [name for name in names if names.count(name) > 1]:
                problem = f"{Key(f'{METERS}{key}.{twice[0]}')}: is given twice"
                raise ConfigError("", [problem])
            meters_keys[key] = dict(value)
    inputs = [role for role in meters_keys.get("columns", {}) if role not in NOT_INPUTS]
    features = list(dict.fromkeys([*Data.model_fields["features"].default, *inputs]))
    data = {"source": "meters", "states": ["all"], "features": features, "meters": meters_keys}
    return Study.parse({"data": data}, "plfl init meters").data.meters


def holidays_of(text: str) -> Holidays:
    """The public holidays of a place such as `DE` or `DE-BY`; DataError: there is no such place."""
    country, _, subdivision = text.partition("-")
    try:
        return Holidays(name="holidays", country=country, subdivision=subdivision or None)
    except ValidationError as error:
        reason = error.errors()[0]["ctx"]["error"]
        raise DataError(Problem(f"--holidays {text}", reason)) from None


def word_as_option(key: Key, wording: Wording, names: Mapping[str, str] = {}) -> str:
    """A key of `data.meters` in a message as the option for it; others stay keys. `names`: those of
    the options, where they are not those of the keys."""
    name, _, entry = key.path.removeprefix(METERS).partition(".")
    if not key.path.startswith(METERS) or name in NOT_OPTIONS:
        return wording(key)
    flag = f"--{names.get(name, name).replace('_', '-')}"
    if entry and not entry.isdigit():
        return f"{flag} {entry}=…"
    if key.value in ("", "true"):
        return flag
    if key.value == "false":
        return f"--no-{flag[2:]}"
    # All values stay text.
    value = yaml.load(key.value, yaml.BaseLoader) if key.value[0] in '[{"' else key.value
    if isinstance(value, dict):
        value = [f"{name}={entry}" for name, entry in value.items()]
    if isinstance(value, list):
        return " ".join(_as_option(flag, str(entry)) for entry in value)
    return _as_option(flag, value) if value != key.value else f"{flag} {value}"


def _as_option(flag: str, entry: str) -> str:
    """An option and its value for a shell. Only of numbers may a separate value begin with `-`."""
    separator = " " if re.fullmatch(r"[^-].*|-\d+(\.\d*)?", entry) else "="
    return f"{flag}{separator}{shlex.quote(entry)}"
