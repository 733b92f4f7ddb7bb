"""`plfl data import`: turns raw exports of meters into the folder of a study."""

from __future__ import annotations

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser
from plfl.errors import DataError

EXAMPLES = """
plfl data import export.csv --to meters --timezone America/New_York
plfl data import *.xlsx --to meters --timezone Etc/GMT+7 --stamp start --unit kW
plfl data import long.csv --to meters --name meter --load value --missing -9999 --cut
"""


def add(commands: Commands) -> None:
    """Add `import` to the commands of `plfl data`."""
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
    _add_time(parser.add_argument_group("time"))
    _add_readings(parser.add_argument_group("readings"))
    _add_inputs(parser.add_argument_group("further inputs of the model"))
    _add_layout(parser.add_argument_group("layout, where it is not detected"))
    parser.add_argument(
        "--format", choices=["csv", "parquet"], default="csv", help="format to write; default: csv"
    )


def _add_time(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--timezone",
        action="append",
        default=[],
        metavar="[METER=]ZONE",
        help="IANA zone of timestamps without a UTC offset; METER, with wildcards, limits it to "
        "some meters; repeatable",
    )
    group.add_argument(
        "--stamp",
        choices=["end", "start"],
        default="end",
        help="whether a timestamp marks the end or the start of its interval; default: %(default)s",
    )
    group.add_argument(
        "--interval",
        type=int,
        choices=[15, 30, 60],
        help="length of the intervals to write, in minutes; shorter ones are summed",
    )
    group.add_argument("--from", dest="since", metavar="TIME", help="leave earlier intervals out")
    group.add_argument("--until", metavar="TIME", help="leave later intervals out")
    group.add_argument(
        "--date-format", metavar="FORMAT", help="of the timestamps, such as '%%d/%%m/%%Y %%H:%%M'"
    )


def _add_readings(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--unit",
        choices=["kWh", "Wh", "kW", "W"],
        default="kWh",
        help="energy in the interval or mean power; default: %(default)s",
    )
    group.add_argument(
        "--register", action="store_true", help="cumulative readings: take their differences"
    )
    group.add_argument("--decimal", choices=[".", ","], help="decimal separator")
    group.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="VALUE",
        help="a number that stands for a missing reading, such as -9999; repeatable",
    )
    group.add_argument(
        "--zero-run", type=float, metavar="HOURS", help="zeros for this long or longer become a gap"
    )
    group.add_argument(
        "--max-jump",
        type=float,
        metavar="FACTOR",
        help="a load becomes a gap if it differs from the median of the five readings before it by "
        "more than FACTOR times the meter's median load",
    )
    group.add_argument(
        "--duplicates",
        choices=["first", "last", "mean"],
        help="which of several different readings for the same time to keep; default: an error",
    )
    group.add_argument("--allow-negative", action="store_true", help="accept negative load")
    group.add_argument(
        "--max-gap",
        type=int,
        default=60,
        metavar="MINUTES",
        help="longest gap that the study fills; longer gaps stay; default: %(default)s",
    )
    group.add_argument(
        "--cut",
        action="store_true",
        help="keep only the longest part without a gap above --max-gap",
    )


def _add_inputs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="an input and its column in every file, such as temperature=Ta; repeatable",
    )
    group.add_argument(
        "--input-unit",
        dest="units",
        action="append",
        default=[],
        metavar="NAME=UNIT",
        help="unit of an input, such as temperature=°F; units of names of your own, such as "
        "radiation=W/m², are noted, not converted; repeatable",
    )


def _add_layout(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--header", type=int, metavar="LINE", help="line of the header")
    group.add_argument(
        "--time",
        action="append",
        default=[],
        metavar="COLUMN",
        help="column of the timestamps; give it twice for date and time",
    )
    group.add_argument(
        "--name", metavar="COLUMN", help="column of the meters' names, in a long file"
    )
    group.add_argument("--load", metavar="COLUMN", help="column of the readings")
    group.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="METER",
        help="import only these meters; wildcards; repeatable",
    )
    group.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="METER",
        help="skip these meters; wildcards; repeatable",
    )


def run(options: argparse.Namespace) -> None:
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
        f"  plfl data check {options.to / 'data.yaml'}\n\n"
        f"for a study, such as that of `plfl init meters`:\n\n{imported.block}",
        end="",
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
