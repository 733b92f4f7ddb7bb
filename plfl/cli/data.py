"""`plfl data`: imports raw exports of meters, and checks the clients' series before training."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from plfl.cli.common import Commands, add_parser, as_text
from plfl.config.study import Study
from plfl.errors import DataError

if TYPE_CHECKING:  # the commands should not wait for them
    import pandas as pd

    from plfl.tasks import Task

EXAMPLES = """
plfl data check config/meters.yaml
plfl data check meters              # a folder of meters, with the default settings
"""
IMPORT_EXAMPLES = """
plfl data import export.csv --to meters --timezone America/New_York
plfl data import *.xlsx --to meters --timezone Etc/GMT+7 --stamp start --unit kW
plfl data import long.csv --to meters --name meter --load value --missing -9999 --cut
"""
COLUMNS = (
    *("rows", "first", "last", "mean", "std", "min", "max", "load_factor"),
    *("persistence_ratio", "gaps", "filled", "windows", "skipped", "features"),
)
"""Columns of `plfl.data.describe.describe` that are printed."""


def add(commands: Commands) -> None:
    """Add `data` to the commands of `plfl`."""
    parser = commands.add_parser("data", help="import meters, and check series before training")
    checks = parser.add_subparsers(required=True, metavar="COMMAND")
    about = "describe the series of a study or folder and list possible problems"
    check = add_parser(checks, "check", about, EXAMPLES, run)
    check.add_argument(
        "what",
        type=Path,
        metavar="CONFIG_OR_FOLDER",
        help="a configuration, or a folder of meters that needs only the default settings",
    )

    about = "turn raw exports of meters into the folder of a study"
    _add_import(add_parser(checks, "import", about, IMPORT_EXAMPLES, run_import))


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "raw",
        type=Path,
        nargs="+",
        metavar="RAW",
        help="CSV, Parquet or XLSX files, or folders of them: one file per meter, wide (a column "
        "per meter) or long (a column of names)",
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="folder to create")
    time = parser.add_argument_group("time")
    time.add_argument(
        "--timezone",
        action="append",
        default=[],
        metavar="[METER=]ZONE",
        help="IANA zone of timestamps without a UTC offset; METER, with wildcards, limits it to "
        "some meters; repeatable",
    )
    time.add_argument(
        "--stamp",
        choices=["end", "start"],
        default="end",
        help="whether a timestamp marks the end or the start of its interval; default: %(default)s",
    )
    time.add_argument(
        "--interval",
        type=int,
        choices=[15, 30, 60],
        help="length of the intervals to write, in minutes; shorter ones are summed",
    )
    time.add_argument("--from", dest="since", metavar="TIME", help="leave earlier intervals out")
    time.add_argument("--until", metavar="TIME", help="leave later intervals out")
    time.add_argument(
        "--date-format", metavar="FORMAT", help="of the timestamps, such as '%%d/%%m/%%Y %%H:%%M'"
    )
    load = parser.add_argument_group("readings")
    load.add_argument(
        "--unit",
        choices=["kWh", "Wh", "kW", "W"],
        default="kWh",
        help="energy in the interval or mean power; default: %(default)s",
    )
    load.add_argument(
        "--register", action="store_true", help="cumulative readings: take their differences"
    )
    load.add_argument("--decimal", choices=[".", ","], help="decimal separator")
    load.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="VALUE",
        help="a number that stands for a missing reading, such as -9999; repeatable",
    )
    load.add_argument(
        "--zero-run", type=float, metavar="HOURS", help="zeros for this long or longer become a gap"
    )
    load.add_argument(
        "--max-jump",
        type=float,
        metavar="FACTOR",
        help="a load becomes a gap if it differs from the median of the five readings before it by "
        "more than FACTOR times the meter's median load",
    )
    load.add_argument(
        "--duplicates",
        choices=["first", "last", "mean"],
        help="which of several different readings for the same time to keep; default: an error",
    )
    load.add_argument("--allow-negative", action="store_true", help="accept negative load")
    load.add_argument(
        "--max-gap",
        type=int,
        default=60,
        metavar="MINUTES",
        help="longest gap that the study fills; longer gaps stay; default: %(default)s",
    )
    load.add_argument(
        "--cut",
        action="store_true",
        help="keep only the longest part without a gap above --max-gap",
    )
    inputs = parser.add_argument_group("further inputs of the model")
    inputs.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="an input and its column in every file, such as temperature=Ta; repeatable",
    )
    inputs.add_argument(
        "--input-unit",
        dest="units",
        action="append",
        default=[],
        metavar="NAME=UNIT",
        help="unit of an input, such as temperature=°F; units of names of your own, such as "
        "radiation=W/m², are noted, not converted; repeatable",
    )
    layout = parser.add_argument_group("layout, where it is not detected")
    layout.add_argument("--header", type=int, metavar="LINE", help="line of the header")
    layout.add_argument(
        "--time",
        action="append",
        default=[],
        metavar="COLUMN",
        help="column of the timestamps; give it twice for date and time",
    )
    layout.add_argument(
        "--name", metavar="COLUMN", help="column of the meters' names, in a long file"
    )
    layout.add_argument("--load", metavar="COLUMN", help="column of the readings")
    layout.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="METER",
        help="import only these meters; wildcards; repeatable",
    )
    layout.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="METER",
        help="skip these meters; wildcards; repeatable",
    )
    parser.add_argument(
        "--format", choices=["csv", "parquet"], default="csv", help="format to write; default: csv"
    )


def run_import(options: argparse.Namespace) -> None:
    """Import raw exports, and print what was done and the configuration of the folder."""
    from plfl.data.importing import Options, import_meters

    given = {key: value for key, value in vars(options).items() if key in Options.__annotations__}
    zones = [zone for zone in given.pop("timezone") if "=" not in zone]
    if len(zones) > 1:
        raise DataError(f"--timezone: {' and '.join(zones)} for all meters; name the meters of one")
    given["timezone"] = zones[0] if zones else None
    given["timezones"] = [zone for zone in options.timezone if "=" in zone]
    for key, option in (("timezones", "timezone"), ("inputs", "input"), ("units", "input-unit")):
        given[key] = [_pair(option, text) for text in given[key]]
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    imported = import_meters(options.raw, options.to, Options(**given))
    for source in imported.sources:
        print(f"{source['file']}: {source['form']}, {source['layout']}, stamps {source['stamps']}")
    for name, meter in imported.meters.items():
        span = f"{meter.load.index[0]:%Y-%m-%d} to {meter.load.index[-1]:%Y-%m-%d}"
        done = [f"{what}: {number}" for what, number in meter.done.items()]
        if meter.longest:
            done.append(f"longest gap: {meter.longest} min")
        print(f"{name}: {len(meter.load)} readings, {span}; {', '.join(done) or 'nothing changed'}")
    print(f"\nwritten to {options.to}, with import.json (the receipt) and data.yaml; check with")
    print(
        f"  plfl data check {options.to / 'data.yaml'}\n\nfor a study:\n\n{imported.block}", end=""
    )


def _pair(option: str, text: str) -> tuple[str, str]:
    """The two parts of `NAME=VALUE`.

    Raises:
        DataError: there are no two.
    """
    name, _, value = text.rpartition("=") if option == "timezone" else text.partition("=")
    if not (name and value):
        raise DataError(f"--{option}: {text!r} is not NAME=VALUE")
    return name, value


def run(options: argparse.Namespace) -> None:
    """Print one row per client, and what may spoil a study of them.

    Raises:
        DataError: files cannot be used; the message lists the errors of all files of all states.
    """
    study = _folder_study(options.what) if options.what.is_dir() else Study.load(options.what)
    if study.data.is_images:
        raise DataError(
            f"data.source: {study.data.source} has images; this command checks series of loads"
        )
    from plfl.data import source
    from plfl.data.checks import counted
    from plfl.data.describe import describe, judge

    problems = []
    for state in study.data.states:
        try:
            source.fetch(study.data, state)
            tables = source.load(study.data, state)
        except DataError as error:
            problems.append(str(error))
            continue
        interval = study.data.interval
        description = describe(tables, interval, study.windows)
        clients = f"{state}{study.sample_suffix}: {counted(len(tables), 'client')}"
        print(f"{clients}, load in kWh per {interval} min")
        print(as_text(description[list(COLUMNS)].reset_index()))
        warnings = [f"- {warning}" for warning in judge(description, study.windows)]
        refused = _refused(study, tables)
        problems += [f"{state}: {refused}"] if refused else []
        found = warnings or ([] if refused else ["no problems found"])
        print("\n".join([*found, ""]))
    if problems:
        raise DataError("\n".join(problems))


def _refused(study: Study, tables: Mapping[str, pd.DataFrame]) -> str:
    """Why the study cannot make windows of these clients, or margins; empty if it can."""
    from plfl.data.windows import build

    try:
        dataset = build(tables, study.windows)
    except DataError as error:
        return str(error)
    return "\n".join(cast("Task", study.task).uncalibrated(dataset))


def _folder_study(folder: Path) -> Study:
    from plfl.data.meters import is_series

    found = [path for path in folder.iterdir() if is_series(path)]
    meters = {"folder": str(folder)}
    data = {"source": "meters", "states": ["all"], "clients": max(1, len(found)), "meters": meters}
    return Study.parse({"data": data}, str(folder))
