"""The user's own meters: a folder of files, or raw exports, become the clients' series.

A folder of clean files is an export that needs no keys: one reader (`plfl.data.meters.exports`)
reads both, for a study and for `plfl init meters`.

All work is done in UTC, where the grid of every meter is regular: local time skips an hour in
spring and repeats one in autumn. The resulting series are indexed by local *standard* time, which
is UTC plus a constant offset. That grid is regular, too, and the time of day keeps its meaning
except for the hour of daylight saving time.
"""

import logging
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from glob import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from plfl.base.errors import (
    DataError,
    Place,
    Problem,
    collect_problems,
    data_error,
    shared_lines,
    suggest_name,
)
from plfl.base.keys import Key
from plfl.base.text import count_in_words, counted_names
from plfl.config.data import Data
from plfl.config.meters import Meters
from plfl.config.named import FEATURE_UNITS
from plfl.data.checks import CONSTANT_FROM, ENOUGH_CHANGES, check_load, is_register
from plfl.data.meters.cleaning import EXPECTED, OTHER_INTERVAL, TOO_FEW, Meter
from plfl.data.meters.exports import Exports, read_exports
from plfl.data.meters.faults import fill_short, longest, runs
from plfl.data.meters.file_contents import NO_READING
from plfl.data.meters.meter_selection import check_chosen, is_chosen, is_left_out
from plfl.data.meters.paths import client_name, client_names, raw_files
from plfl.data.meters.paths import files_of_state as files
from plfl.data.meters.stamps import standard_offset

__all__ = [
    "client_name",
    "clients",
    "files",
    "raw_files",
    "read",
    "read_files",
]

log = logging.getLogger(__name__)
note_logger = log.getChild("notes")
"""Where notes about changes to meters go."""

_LOAD = pd.Index(["load"])
"""The column of the load; one index for thousands of meters, as each takes long to make."""
GAPS = ": gaps "
"""Within the kinds of notes about gaps."""
MOST_NOTES = 12
"""Lines about single meters that are shown at once."""


def clients(data: Data, state: str) -> dict[str, Path]:
    """The names of a state's clients, in order, and the first file with readings of each.

    Raises:
        DataError: see `files`; exports are read, and the message lists what is wrong with them.
    """
    if not data.meters.exports:
        return {client_name(path): path for path in files(data, state)}
    exports = _read(data, state)
    return {
        client: exports.files[name]
        for client, name in _meters_of_clients(exports, data, state).items()
    }


def read(data: Data, state: str) -> dict[str, pd.DataFrame]:
    """The series of a state's clients, by name.

    Clients from exports have the names of `client_names`. The first `data.clients` in alphabetical
    order take part. Faults that the configuration names become gaps.
    In gaps of up to `meters.max_gap` minutes, the last reading before the gap is carried forward,
    so that no value depends on a later one. Longer gaps stay NaN. Warnings report all of this. Rows
    before the first complete row and after the last one are removed.

    Returns:
        For each client `load` (kWh in the interval) and the other mapped columns, float64, indexed
        by `timestamp`: naive local standard time at the end of each interval, regular and unique.
        `attrs` has the number of `gaps` in the load, of readings `filled` there and of those left
        `missing`, and all changes in words, `remarks`.

    Raises:
        DataError: see `files`, or something is wrong or ambiguous; the message lists the problems
            of all files, with the line of the file and the keys to set.
    """
    exports = _read(data, state)
    for line in exports.describe_forms():
        log.info("%s", line)
    client_series: dict[str, pd.DataFrame] = {}
    problems: list[Problem] = []
    notes: list[Problem] = []
    for client, name in _meters_of_clients(exports, data, state).items():
        with collect_problems(problems, client):
            client_series[client] = _series(exports, name, data.meters, notes)
    if problems:
        raise DataError(*problems)
    _tell(notes)
    return client_series


def read_files(
    paths: Iterable[Path],
    meters: Meters,
    client: str | None = None,
    by_file: bool = True,
    with_later: bool = False,
    fills_gaps: bool = True,
    keeps_steps: bool = False,
    models: Path | None = None,
    last_known: Mapping[str, pd.Timestamp] = MappingProxyType({}),
    apart: Collection[str] = (),
) -> tuple[dict[str, pd.DataFrame], list[Problem]]:
    """The series of the meters in files of the study's layout, by client, and the problems of files
    and meters that cannot be used; see `read`.

    The files may have later readings: `meters.since` and `until` are ignored. If several files have
    a meter, its readings are joined; where they overlap, those of the file that ends last count,
    and of several such files those of the one that was written last. Without a `client`, all meters
    that `meters` selects are read. `by_file`: a file has one, named like it. A file of one meter is
    taken for the `client` if it is the only file, or if no meter in the files has that name.
    Several such files may be of several meters, and are refused if they differ where they overlap.
    `with_later`: also the rows after the last load in which the inputs are known; their load is
    NaN. `fills_gaps`: short gaps are filled; otherwise the caller does it, after it has added what
    it knows of them. `keeps_steps`: loads are not summed to longer intervals if the study says how
    long they are; `attrs["minutes"]` of a series says how long its own are. `attrs["lone"]`: see
    `Meter.lone`, here in standard time; only if there are such readings. `models`: the results
    folder or the file of models that forecast, for messages. `last_known`: of clients, the time of
    the last known reading; gaps are told if one is later. `apart`: clients of which nothing is
    returned or said.
    """
    paths = list(paths)
    exports, meters = _read_new_exports(paths, meters, client, by_file, keeps_steps, last_known)
    left_out = [name for name in exports.names if name not in exports.meters]
    client_of = client_names(exports.names)
    exports.leave_out([name for name, own_client in client_of.items() if own_client in apart])
    problems = list(_problems_of_files(exports, client_of, meters))
    notes = list[Problem]()
    client_series: dict[str, pd.DataFrame] = {}
    for meter_client, name in _names_by_client(exports).items():
        with collect_problems(problems, meter_client):
            meter_notes = list[Problem]()
            series = _new_series(exports, name, meters, meter_notes, fills_gaps)
            later_load = series["load"].loc[last_known.get(meter_client, series.index[0]) :]
            has_new_gaps = meter_client not in last_known or later_load.isna().any()
            notes += [note for note in meter_notes if has_new_gaps or GAPS not in note.kind]
            if keeps_steps:
                series.attrs["minutes"] = exports.meters[name].minutes
            client_series[meter_client] = (
                _with_later(series, exports.meters[name]) if with_later else series
            )
    is_waiting = any(problem.kind == NO_READING for problem in problems)
    has_client = client in client_of.values()
    if client is not None and exports.names and not (has_client or is_waiting):
        remedy = (
            f"it has {', '.join(map(repr, exports.names))}; choose one (plfl forecast --client)"
        )
        remedy += suggest_name(client, exports.names)
        problems.append(Problem(paths[0], f"has no meter {client!r}", remedy))
    elif client is None and not problems:
        notes += _problems_of_left_out(left_out, meters, paths, models)
    _tell(notes)
    return client_series, problems


def _read_new_exports(
    paths: Sequence[Path],
    meters: Meters,
    client: str | None,
    by_file: bool,
    keeps_steps: bool,
    last_known: Collection[str],
) -> tuple[Exports, Meters]:
    """The content of new files of the study's layout, of a `client` if there is one, with the keys
    that they are read with; see `read_files`."""
    # Dates in names are those of parts only if the study's files were parts; else they tell meters.
    names_of_parts: dict[Path, str] | None = None if meters.join_files else {}
    keys: dict[str, Any] = {"since": None, "until": None, "join_files": True}
    rule_of_meter = {"duplicates": meters.duplicates}
    keys["duplicates"] = meters.duplicates or ("last" if len(paths) > 1 else None)
    keys["only"] = [pattern.replace("{state}", "*") for pattern in meters.only]
    if client is not None:
        # In the name of a client, a hyphen can replace another character.
        keys |= {"only": [escape(client).replace("-", "?")], "leave_out": []}
    meters = meters.model_copy(update=keys)
    own_names = {path: client_name(path) for path in paths} if by_file else names_of_parts
    names = dict.fromkeys(paths, client) if client is not None else own_names
    # Few readings may rise by chance.
    read_new = partial(
        read_exports,
        paths,
        interval=meters.interval,
        is_settled=True,
        keeps_steps=keeps_steps,
        clients=last_known,
    )
    if client is None:
        return read_new(meters=meters, names=names), meters
    exports = read_new(meters=meters, names=names if len(paths) == 1 else own_names)
    # A file with the name may be empty or refused; a lone one may be an archive of its parts.
    meter_names = [*exports.names, *(map(client_name, paths) if len(paths) > 1 else ())]
    if not any(is_chosen(name, meters) for name in meter_names):
        meters = meters.model_copy(update=rule_of_meter)
        exports = read_new(meters=meters, names=names, are_of_one=True)
    # Its pattern may fit others, such as school_1 beside school-1.
    other_names = [name for name in exports.names if client_names([name])[name] != client]
    exports.leave_out(other_names)
    return exports, meters


def _problems_of_files(
    exports: Exports, client_of: Mapping[str, str], meters: Meters
) -> Iterator[Problem]:
    """The problems of new files, with remedies for those who forecast; last those of files that
    have no reading of a whole interval. `client_of`: the client of each meter."""
    remedies = {
        OTHER_INTERVAL: f"the study forecasts intervals of {meters.interval} minutes, so export "
        "these or shorter ones; without the study, `plfl forecast --kind` takes the readings as "
        "they are",
    }
    for problem in exports.problems:
        if problem.kind != TOO_FEW:
            yield replace(problem, remedy=remedies.get(problem.kind, problem.remedy))
    for problem in exports.problems:
        if problem.kind == TOO_FEW:
            yield without_reading(exports.files[problem.meter], client_of[problem.meter])


def without_reading(place: Path | str, client: str) -> Problem:
    """The problem of a client of which files have no reading of a whole interval yet."""
    return Problem(
        place, "no reading of a whole interval yet", "add readings", client, kind=NO_READING
    )


def _problems_of_left_out(
    names: Sequence[str], meters: Meters, paths: Sequence[Path], models: Path | None
) -> list[Problem]:
    """What is said of meters in the files that are not read, by the key because of which."""
    place = paths[0] if len(paths) == 1 else ""
    by_key = [name for name in names if is_left_out(name, meters)]
    unknown = [name for name in names if name not in by_key]
    problems = []
    if unknown:
        text = f"{counted_names(unknown)}: not among the study's meters"
        problems.append(Problem(place, text, "`plfl forecast --new` forecasts new ones"))
    if by_key:
        text = f"{counted_names(by_key)}: left out by the study (`leave_out`)"
        files = [path for path in paths if client_name(path) == by_key[0]] or paths
        arguments = [models or "RESULTS", *files, "--new", "--client", by_key[0]]
        command = f"plfl forecast {shlex.join(map(str, arguments))}"
        which = "it" if len(by_key) == 1 else "one"
        problems.append(Problem(place, text, f"`{command}` forecasts {which} as a new meter"))
    return problems


def _read(data: Data, state: str) -> Exports:
    """The content of the files of a state, unless something is wrong or ambiguous."""
    meters = data.meters.of_state(state)
    exports = read_exports(files(data, state), meters, meters.interval)
    if meters.exports:
        with collect_problems(exports.problems):
            check_chosen(exports.names, meters, exports.registers, len(data.states) > 1)
    exports.refuse()
    return exports


def _names_by_client(exports: Exports) -> dict[str, str]:
    """The names of the meters, by the names of their clients."""
    return {client: name for name, client in client_names(list(exports.meters)).items()}


def _meters_of_clients(exports: Exports, data: Data, state: str) -> dict[str, str]:
    """The meters of a state's clients, by the name of the client; too few are refused."""
    if not data.meters.exports:
        return {name: name for name in exports.meters}
    meters_by_client = _names_by_client(exports)
    # In the order that files in a folder have.
    client_count = data.clients_of(state)
    clients = sorted(meters_by_client, key=lambda client: f"{client}.csv")[:client_count]
    if len(clients) < client_count:
        raise data_error(
            Key("data.meters.exports"),
            f"{state} has {len(meters_by_client)} of {client_count} meters (data.clients)",
            f"add exports, or lower data.clients to {len(meters_by_client)}",
        )
    return {client: meters_by_client[client] for client in clients}


def _series(
    exports: Exports, name: str, meters: Meters, notes: list[Problem], fills_gaps: bool = True
) -> pd.DataFrame:
    """The series of a meter. Changes to it are added to the notes."""
    meter, file = exports.meters[name], exports.files[name]
    place: Path | Place = file if name == client_name(file) else Place(file, meter=name)
    if any(change not in EXPECTED for change in meter.changes):
        notes.append(Problem(place, meter.summary, meter=name, kind="summary"))
    series = _finished_table(place, meter, meters, fills_gaps)
    gap_notes: list[Problem] = series.attrs.pop("notes")
    remarks = [meter.changes_in_words, *(note.text for note in gap_notes)]
    series.attrs["remarks"] = "; ".join(filter(None, remarks))
    notes += [replace(note, meter=name) for note in gap_notes]
    return series


def _new_series(
    exports: Exports, name: str, meters: Meters, notes: list[Problem], fills_gaps: bool
) -> pd.DataFrame:
    """The series of a meter in a new file, which may not be what the study has read."""
    series = _series(exports, name, meters, notes, fills_gaps)
    meter, load = exports.meters[name], series["load"]
    lone = meter.lone.tz_localize(None) + standard_offset(meter.zone)
    if (is_there := lone.isin(series.index)).any():
        series.attrs["lone"] = [*lone[is_there]]
    if load.diff().count() >= ENOUGH_CHANGES and is_register(load):  # fewer rise by chance
        text = "the load hardly ever decreases, like a cumulative register"
        remedy = f"set {Key('data.meters.cumulative')}, which uses its differences"
        notes.append(Problem(Place(exports.files[name], meter=name), text, remedy, name))
    return series


def _with_later(series: pd.DataFrame, meter: Meter) -> pd.DataFrame:
    """A series with the rows after its last load in which the inputs are known."""
    if meter.later_inputs.empty:
        return series
    utc = pd.DatetimeIndex(meter.later_inputs.index).tz_localize(None).as_unit("us")
    later_rows = meter.later_inputs.set_axis(utc + standard_offset(meter.zone))
    last = pd.DatetimeIndex(meter.load.index).tz_localize(None)[-1] + standard_offset(meter.zone)
    if series.index[-1] != last:
        return series
    all_rows = pd.concat([series, later_rows.reindex(columns=series.columns)]).rename_axis(
        "timestamp"
    )
    all_rows.attrs = dict(series.attrs)
    return all_rows


def _tell(notes: list[Problem]) -> None:
    """Warn of changes to the meters; what many share, once. If there are many notes, the first are
    shown."""
    lines = shared_lines(notes)
    for line in lines[:MOST_NOTES]:
        note_logger.warning("%s", line)
    if (hidden_count := len(lines) - MOST_NOTES) > 0:
        note_logger.warning(
            "%d more lines of this kind; `plfl data check` shows all of them", hidden_count
        )


def _finished_table(
    place: Path | Place, meter: Meter, meters: Meters, fills_gaps: bool
) -> pd.DataFrame:
    """The load and the inputs of a meter in local standard time, perhaps with short gaps filled.
    Loads that cannot be used are refused."""
    table = pd.DataFrame(meter.load.to_numpy()[:, None], meter.load.index, _LOAD)
    if len(meter.inputs.columns):
        table = table.join(meter.inputs)
    table.index = _local_ends(table.index[0], len(table), meter.minutes, meter.zone)
    # Known features first, in their order.
    columns = [*map(str, table)]
    roles = [role for role in dict.fromkeys([*FEATURE_UNITS, *columns]) if role in columns]
    table = table if roles == columns else table[roles]
    table = _cut_to_complete_rows(place, table, meters, meter, fills_gaps)
    values = table["load"]
    if "load" in meters.columns:
        values = values.rename(meters.columns["load"])
    is_short = len(values) * meter.minutes < CONSTANT_FROM
    negative = meters.allow_negative
    check_load(place, values, allow_negative=negative, allow_constant=is_short, may_have_gaps=True)
    return table


@lru_cache  # thousands of meters have the same
def _local_ends(first: pd.Timestamp, count: int, minutes: int, zone: ZoneInfo) -> pd.DatetimeIndex:
    """The ends of intervals in local standard time, of which the first is given in UTC."""
    local = first.tz_localize(None) + standard_offset(zone)
    step = f"{minutes}min"
    stamps = pd.date_range(local, periods=count, freq=step, unit="us")
    return pd.DatetimeIndex(stamps.to_numpy(), name="timestamp")


def _cut_to_complete_rows(
    place: Path | Place, table: pd.DataFrame, meters: Meters, meter: Meter, fills_gaps: bool
) -> pd.DataFrame:
    """The table from its first to its last complete row, with gaps of up to `max_gap` filled,
    unless the caller will.

    The rows are on a regular grid, with NaN where a reading is missing. `attrs` of the result has
    the number of `gaps` in the load, of readings `filled` there and of those left `missing`, and
    `notes` about the changes, for the user, in local time. A table without a complete
    row is refused.
    """
    minutes = meter.minutes
    complete = pd.notna(table.to_numpy()).all(axis=1)
    if complete.all():
        table.attrs = {"gaps": 0, "filled": 0, "missing": 0, "notes": []}
        return table
    if not complete.any():
        columns = ", ".join(repr(meters.columns.get(str(role), role)) for role in table)
        text = f"no row has a value in all of {columns}"
        raise data_error(place, text, "leave this meter out")
    first, last = np.flatnonzero(complete)[[0, -1]]
    notes: list[Problem] = []
    if cut := len(table) - (last + 1 - first):
        rows = count_in_words(int(cut), "incomplete row")
        fate = "cut off at the beginning or end"
        notes.append(Problem(place, f"{rows} {fate}", kind=fate))
    table = table.iloc[first : last + 1]
    # Interpolation would use the next reading, which forecasts made in the gap cannot know.
    filled = fill_short(table, meters.max_gap // minutes) if fills_gaps else table.copy()
    filling = "filled with the reading before" if fills_gaps else "filled"
    utc = (pd.DatetimeIndex(table.index) - standard_offset(meter.zone)).tz_localize("UTC")
    for role in map(str, table):
        starts, lengths = runs(table[role].isna().to_numpy())
        long = lengths * minutes > meters.max_gap
        for is_selected, fate in (
            (~long, filling),
            (
                long,
                f"longer than {Key('data.meters.max_gap')}; windows that touch them are not used",
            ),
        ):
            if is_selected.any():
                readings = count_in_words(int(lengths[is_selected].sum()), "missing reading")
                gap_count = count_in_words(int(is_selected.sum()), "gap")
                gap_runs = starts[is_selected], lengths[is_selected]
                longest_span = longest(utc.tz_convert(meter.zone), *gap_runs, minutes)
                text = f"{role}: {readings} in {gap_count}, the longest {longest_span}: {fate}"
                notes.append(Problem(place, text, kind=f"{role}{GAPS}{fate}"))
    gaps = runs(table["load"].isna().to_numpy())[1]
    missing = int(filled["load"].isna().sum())
    counts = {"gaps": len(gaps), "filled": int(gaps.sum()) - missing, "missing": missing}
    filled.attrs = counts | {"notes": notes}
    return filled
