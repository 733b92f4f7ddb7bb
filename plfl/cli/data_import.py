"""`plfl data import`: turns raw exports of meters into the folder of a study."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml

from plfl.base.errors import ConfigError, DataError
from plfl.cli.common import Commands, add_parser, progress_bar
from plfl.config.sections import NOT_INPUTS, Data, Meters
from plfl.config.study import Study

EXAMPLES = """
plfl data import export.csv --to meters --timezone America/New_York
plfl data import *.xlsx --to meters --timezone Etc/GMT+7 --stamp start --unit kW
plfl data import long.csv --to meters --columns meter=id --columns load=value --missing -9999
"""
NOT_OPTIONS = ("folder", "exports", "about")
"""Keys of `data.meters` that are not about the content of files."""
NO_DEFAULT = ("timezone", "interval")
"""Keys whose defaults apply only to studies."""


def add(commands: Commands) -> None:
    """Add `import` to the commands of `plfl data`, with an option for each key of `data.meters`."""
    about = "turn raw exports of meters into the folder of a study"
    parser = add_parser(commands, "import", about, EXAMPLES, run)
    parser.add_argument(
        "raw",
        type=Path,
        nargs="+",
        metavar="RAW",
        help="CSV, Parquet or XLSX files, or folders of them: one file per meter, wide (a column "
        "per meter) or long (a column of names)",
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="folder to create")
    parser.add_argument(
        "--format", choices=["csv", "parquet"], default="csv", help="format to write; default: csv"
    )
    keys = parser.add_argument_group(
        "options", "the keys of data.meters; lists and mappings are given once per entry"
    )
    for key, meaning in Meters.meanings().items():
        if key not in NOT_OPTIONS:
            _add_option(keys, key, " ".join(meaning.split()))


def _add_option(group: argparse._ArgumentGroup, key: str, meaning: str) -> None:
    """Add the option of a key of `data.meters`."""
    field = Meters.model_fields[key]
    if key not in NO_DEFAULT and field.default not in (None, False, [], {}):
        meaning += f" Default: {field.default}."
    known: dict[str, Any] = {"default": argparse.SUPPRESS, "help": meaning.replace("%", "%%")}
    if isinstance(field.default, bool):
        known["action"] = argparse.BooleanOptionalAction
    elif isinstance(field.default, dict):
        known |= {"action": "append", "type": _pair, "metavar": "NAME=VALUE"}
    elif isinstance(field.default, list):
        known |= {"action": "append", "metavar": "VALUE"}
    elif choices := _choices(field.annotation):
        known |= {"choices": choices, "type": type(choices[0])}
    else:
        known["metavar"] = "VALUE"
    group.add_argument(f"--{key.replace('_', '-')}", **known)


def _choices(kind: object) -> tuple[Any, ...]:
    """The values that a type allows, if it lists them."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next(filter(None, map(_choices, get_args(kind))), ())


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (name and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def run(options: argparse.Namespace) -> None:
    """Import raw exports, and print the changes and the configuration of the folder.

    Raises:
        DataError: an option is wrong, or something in the files is wrong or ambiguous.
    """
    from plfl.data.meters.imported import import_meters

    try:
        meters = _meters(options)
        with progress_bar("import", "step") as progress:
            imported = import_meters(options.raw, options.to, meters, options.format, progress)
    except ConfigError as error:
        raise DataError("\n".join(map(as_options, error.problems))) from None
    except DataError as error:
        raise DataError(as_options(str(error))) from None
    for source in imported.sources:
        print(f"{source['file']}: {source['form']}, {source['layout']}, stamps {source['stamps']}")
    print("all times in local standard time, whatever clocks do in summer:")
    for name, meter in imported.meters.items():
        print(f"{name}: {as_options(meter.summary)}")
    print(f"\nwritten to {options.to}, with import.json (the receipt) and data.yaml; next:")
    print(f"  plfl init meters --from {options.to / 'data.yaml'}")


def _meters(options: argparse.Namespace) -> Meters:
    """The keys of `data.meters` that the options give.

    Raises:
        ConfigError: they are not valid; the checks are those of a study.
    """
    given: dict[str, Any] = {k: v for k, v in vars(options).items() if k in Meters.model_fields}
    for key, value in given.items():
        if isinstance(Meters.model_fields[key].default, dict):
            names = [name for name, _ in value]
            if twice := [name for name in names if names.count(name) > 1]:
                raise ConfigError("", [f"data.meters.{key}.{twice[0]}: is given twice"])
            given[key] = dict(value)
    inputs = [role for role in given.get("columns", {}) if role not in NOT_INPUTS]
    features = list(dict.fromkeys([*Data.model_fields["features"].default, *inputs]))
    data = {"source": "meters", "states": ["all"], "features": features, "meters": given}
    return Study.parse({"data": data}, "plfl data import").data.meters


def as_options(message: str) -> str:
    """A message with options instead of the keys of a study."""

    def option(found: re.Match[str]) -> str:
        flag = f"--{found['key'].replace('_', '-')}"
        if found["role"]:
            return f"{flag} {found['role']}=…"
        if not found["value"]:
            return flag
        # All values stay text.
        value = yaml.load(found["value"], yaml.BaseLoader)
        if isinstance(value, dict):
            value = [f"{name}={entry}" for name, entry in value.items()]
        if isinstance(value, list):
            return " ".join(_given(flag, str(entry)) for entry in value)
        if value == "false":
            return f"--no-{flag[2:]}"
        return flag if value == "true" else f"{flag} {found['value']}"

    value = r"\[(?:'[^']*'|[^]])*\]|\{.*?\}|(?:true|false|end|start|[kM]?Wh?|\d+)\b"
    key = rf"data\.meters\.(?P<key>[a-z_]+)(?:\.(?P<role>\w+)|: (?P<value>{value}))?"
    return re.sub(key, option, message)


def _given(flag: str, entry: str) -> str:
    """An option and its value for a shell. Only of numbers may a separate value begin with `-`."""
    between = " " if re.fullmatch(r"[^-].*|-\d+(\.\d*)?", entry) else "="
    return f"{flag}{between}{shlex.quote(entry)}"
