"""Own meters that a study reads straight from raw exports, as `plfl data import` reads them."""

import logging
import re
from collections.abc import Callable
from glob import escape
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.config.features import FEATURES
from plfl.config.sections import Data, Meters
from plfl.data.importing import Exports, Options, raw_files, read_exports
from plfl.data.importing.folder import file_names
from plfl.data.meters.columns import constant
from plfl.data.meters.series import STATIC, collected, finished
from plfl.errors import DataError, did_you_mean

logger = logging.getLogger(__name__)

_KEYS = {
    "from": "since",
    "register": "cumulative",
    "name": "columns.meter",
    "load": "columns.load",
    "input": "columns",
    "input-unit": "units",
}
"""Keys of `data.meters` whose names are not those of the options of `plfl data import`."""

_EXPECTED = ("readings before --from or after --until", "newest first", "missing", "gaps")
"""What is done to a meter without a warning, or with one when its gaps are filled."""

T = TypeVar("T")


def files(meters: Meters, state: str) -> list[Path]:
    """The raw files of a state.

    Raises:
        DataError: one does not exist, or a folder holds none.
    """
    paths = (Path(str(path).replace("{state}", state)) for path in meters.exports)
    try:
        return raw_files(paths)
    except DataError as error:
        raise DataError(f"{error}\ncorrect the paths in data.meters.exports") from None


def clients(data: Data, state: str) -> dict[str, Path]:
    """The names of a state's clients, in order, and the first file with readings of each.

    Raises:
        DataError: see `read`.
    """
    exports = _read(files(data.meters, state), _options(data.meters, state))
    return {client: exports.files[name] for client, name in _chosen(exports, data, state).items()}


def read(data: Data, state: str) -> dict[str, pd.DataFrame]:
    """The series of a state's clients, by name.

    They are those of the folder that `plfl data import` would write: the names of its files, the
    first `data.clients` of them in alphabetical order.

    Raises:
        DataError: something is wrong or not certain, or there are too few meters; the message lists
            all problems of all files and names the keys to set.
    """
    meters = data.meters
    exports = _read(files(meters, state), _options(meters, state))
    found: dict[str, pd.DataFrame] = {}
    problems: list[str] = []
    for client, name in _chosen(exports, data, state).items():
        with collected(problems):
            found[client] = _series(exports, name, meters)
    if problems:
        raise DataError("\n".join(problems))
    return found


def read_file(path: Path, meters: Meters, client: str) -> pd.DataFrame:
    """The series of one meter in a further export; see `plfl.data.meters.read_file`.

    Raises:
        DataError: the file cannot be used, or has no such meter.
    """
    # The client is named like a file, in which a hyphen can stand for another character.
    options = _options(
        meters.model_copy(
            update={
                "timezone": meters.timezone_of(client),
                "timezones": {},
                "only": [escape(client).replace("-", "?")],
                "leave_out": [],
                "since": None,
                "until": None,
            }
        )
    )
    exports = _in_keys(lambda: read_exports([path], options, client))
    if exports.names and client not in file_names(exports.names, "").values():
        raise DataError(
            f"{path}: has no meter {client!r}; it has {', '.join(map(repr, exports.names))}; "
            f"choose one (plfl forecast --client){did_you_mean(client, exports.names)}"
        )
    _refuse(exports)
    return _series(exports, _by_client(exports)[client], meters)


def _options(meters: Meters, state: str = "") -> Options:
    columns = meters.columns
    times = (columns.get(role) for role in ("timestamp", "time_of_day"))
    return Options(
        timezone=meters.timezone,
        timezones=tuple(meters.timezones.items()),
        since=meters.since,
        until=meters.until,
        stamp=meters.stamp,
        unit=meters.unit,
        register=meters.cumulative,
        interval=meters.interval,
        date_format=meters.date_format,
        decimal=meters.decimal,
        header=meters.header,
        time=tuple(column for column in times if column is not None),
        name=columns.get("meter"),
        load=columns.get("load"),
        inputs=tuple(meters.inputs.items()),
        units=tuple(meters.units.items()),
        only=tuple(pattern.replace("{state}", state) for pattern in meters.only),
        leave_out=tuple(meters.leave_out),
        missing=tuple(map(str, meters.missing)),
        zero_run=meters.zero_run,
        max_jump=meters.max_jump,
        duplicates=meters.duplicates,
        max_gap=meters.max_gap,
        cut=meters.cut,
        allow_negative=meters.allow_negative,
    )


def _read(paths: list[Path], options: Options) -> Exports:
    """What is in the exports.

    Raises:
        DataError: something is wrong or not certain; the message names the keys of `data.meters`.
    """
    exports = _in_keys(lambda: read_exports(paths, options))
    _refuse(exports)
    return exports


def _refuse(exports: Exports) -> None:
    if exports.problems:
        raise DataError(_with_keys("\n".join(exports.problems)))


def _in_keys(read: Callable[[], T]) -> T:
    try:
        return read()
    except DataError as error:
        raise DataError(_with_keys(str(error))) from None


def _with_keys(message: str) -> str:
    """A message of the import with keys of a study instead of options of the command."""
    message = message.replace("--time DATE --time TIME", "columns.timestamp and time_of_day")
    message = re.sub(r"--time(?![-\w])", "data.meters.columns.timestamp", message)
    message = re.sub(
        r"--(input|input-unit) (?=\S)", lambda m: f"data.meters.{_KEYS[m[1]]}.", message
    )
    return re.sub(
        r"--([a-z][a-z-]*)",
        lambda m: f"data.meters.{_KEYS.get(m[1], m[1].replace('-', '_'))}",
        message,
    )


def _by_client(exports: Exports) -> dict[str, str]:
    """The names of the meters, by the names that the import would give to their files."""
    return {client: name for name, client in file_names(list(exports.meters), "").items()}


def _chosen(exports: Exports, data: Data, state: str) -> dict[str, str]:
    """The meters of a state's clients, by the name of the client.

    Raises:
        DataError: there are too few.
    """
    named = _by_client(exports)
    # As files of a folder are in order.
    clients = sorted(named, key=lambda client: f"{client}.csv")[: data.clients]
    if len(clients) < data.clients:
        raise DataError(
            f"data.meters.exports: {state} has {len(named)} of {data.clients} meters "
            f"(data.clients); add exports, or lower data.clients to {len(named)}"
        )
    return {client: named[client] for client in clients}


def _series(exports: Exports, name: str, meters: Meters) -> pd.DataFrame:
    meter, where = exports.meters[name], f"{exports.files[name]}: {name}"
    if done := {what: n for what, n in meter.done.items() if what not in _EXPECTED}:
        logger.warning("%s: %s", where, ", ".join(f"{what}: {n}" for what, n in done.items()))
    table = meter.load.to_frame().join(meter.inputs)
    # Known features first, in their order.
    roles = [role for role in dict.fromkeys([*FEATURES, *map(str, table)]) if role in table]
    constants = {role: constant(where, table[role]) for role in roles if role in STATIC}
    table = table[[role for role in roles if role not in STATIC]]
    return finished(where, table, constants, meters, ZoneInfo(exports.zones[name]))
