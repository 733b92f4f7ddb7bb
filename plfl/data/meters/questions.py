"""What new files leave open, the unit of the readings and what a stamp marks, is settled by what is
possible and told, or asked."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from plfl.base.errors import DataError, data_error
from plfl.base.keys import Key
from plfl.base.text import count_in_words
from plfl.config.error_messages import flow
from plfl.config.meters import Meters
from plfl.data.checks import ENOUGH_CHANGES, is_register
from plfl.data.meters import quantities
from plfl.data.meters.cleaning import POWER_UNITS, Piece, usual_step
from plfl.data.meters.tables import RawTable


class LargestLoads(NamedTuple):
    """The largest mean load in kW that a meter may have."""

    in_kwh: float
    """If the readings are kWh, the usual unit,"""
    otherwise: float
    """and if they are in another unit."""


LARGEST_LOADS = {
    "homes": LargestLoads(100.0, 100.0),
    "buildings": LargestLoads(10_000.0, 10_000.0),
    # Another unit than the usual one is read only if that is impossible for all kinds.
    None: LargestLoads(10_000.0, 100.0),
}
"""Those of meters of a kind; None: it is not known."""
_LEAST_KW = 0.01
"""The least mean load of a meter in kW; a refrigerator needs twice as much."""
_HOUR = 60
_NO_LOAD_RISES_FOR = pd.Timedelta(days=3)
_MOST_COLUMNS = 8
"""Columns that are shown in a question."""
_ENOUGH_METERS = 50
"""Meters that tell the unit of all."""
PLACE, UNIT, STAMP = "PLACE", "UNIT", "STAMP"
"""What stands in an answer for a value that only the user can name."""
_WITH_Z = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d(|:\d\d)(|\.\d+)Z")
"""A stamp in UTC, and what may differ in its form."""
READ_AS = {PLACE: "UTC", UNIT: "kWh", STAMP: "start"}
"""As what each is read to find the questions that come after it."""


@dataclass(frozen=True)
class Assumption:
    """What was settled about files that do not say it."""

    value: str | bool
    """That of the key."""
    words: str
    """What it is, why, and how to change it; empty if it is certain."""


def question(table: RawTable, text: str, remedy: str, *answers: Key) -> DataError:
    """The error that asks about a file: what is open, what answers it, and what the file has, the
    first, second and last value of each column, those in the text before the others. `answers`: the
    keys of the first way."""
    parts = []
    first, *other_columns = map(str, table.cells)
    by_relevance = [first, *sorted(other_columns, key=lambda column: repr(column) not in text)]
    for column in by_relevance[:_MOST_COLUMNS]:
        values = table.cells[column]
        samples = list(dict.fromkeys([*map(str, values.iloc[:2]), str(values.iloc[-1])]))
        parts.append(f"{column!r}: {', '.join(samples)}")
    hidden_count = len(table.cells.columns) - _MOST_COLUMNS
    remainder = f"; and {hidden_count} more" if hidden_count > 0 else ""
    rows = count_in_words(len(table.cells), "row")
    excerpt = f"seen, first to last of {rows}: {'; '.join(parts)}{remainder}"
    return data_error(table.path, text, remedy, *answers, excerpt=excerpt)


def apply_answers(meters: Meters, answers: Iterable[Key]) -> Meters:
    """The keys with some answers to questions; what the user must name is as in `READ_AS`."""
    update: dict[str, Any] = {}
    for key in answers:
        name, value = key.path.rpartition(".")[2], yaml.safe_load(key.value)
        former_value = update.get(name, getattr(meters, name))
        if isinstance(value, dict):
            value |= former_value
        elif isinstance(value, list):
            value = [*former_value, *value]
        elif isinstance(value, str):
            value = READ_AS.get(value, value)
        update[name] = value
    return meters.model_copy(update=update)


def column_key(role: str, column: str) -> Key:
    """The key that chooses a column."""
    return Key("data.meters.columns", flow({role: column}))


def choices(role: str, columns: Sequence[str]) -> str:
    """The keys that choose one of some columns."""
    keys = [column_key(role, column) for column in columns[:_MOST_COLUMNS]]
    return " or ".join(map(str, keys)) + (
        f" or another of {len(columns)}" if len(columns) > _MOST_COLUMNS else ""
    )


def settle_unit(
    pieces: Mapping[str, Sequence[Piece]],
    keys: Mapping[str, Meters],
    by_day: Collection[str],
    largest: LargestLoads,
) -> Assumption:
    """The unit of meters whose files do not state it: the only one in which their mean load is
    possible, at most the `largest`. Registers, and the meters `by_day`, whose files have a row for
    each day and a column for each of its intervals, count energy.

    Raises:
        DataError: several units are possible; the message says what was seen, and what to set.
    """
    pieces = {name: parts for name, parts in pieces.items() if parts[0].readings[name].count() > 1}
    names = list(pieces)[:: max(1, len(pieces) // _ENOUGH_METERS)]
    means = [_mean_load(pieces[name][0], name, keys[name].cumulative) for name in names]
    means = [(mean, minutes) for mean, minutes in means if minutes <= _HOUR]
    if not means:  # refused for their rhythm
        return Assumption("kWh", "")
    kw_of = {
        unit: float(
            np.median([m * factor * (1 if unit in POWER_UNITS else _HOUR / t) for m, t in means])
        )
        for unit, factor in quantities.KWH.items()
    }
    kinds = {
        "energy"
        if keys[name].cumulative or name in by_day
        else quantities.kind_of(pieces[name][0].columns[name])
        for name in names
    }
    excluded_units = {
        unit for unit in kw_of if kinds == {"energy" if unit in POWER_UNITS else "power"}
    }
    possible_units = [
        unit
        for unit, kw in kw_of.items()
        if _LEAST_KW <= kw <= (largest.in_kwh if unit == "kWh" else largest.otherwise)
        and unit not in excluded_units
    ]
    unit, *other_units = possible_units or ["kWh", "Wh"]
    if possible_units and all(kw_of[other_unit] == kw_of[unit] for other_unit in other_units):
        return Assumption(
            unit,
            f"nothing says the unit of the readings: read as {unit}, a mean load of "
            f"{kw_of[unit]:.2g} kW; in another one it would be below {_LEAST_KW:g} or above "
            f"{largest.otherwise:g} kW; if that is wrong, set {Key('data.meters.unit')}",
        )
    name, (piece, *_) = next(iter(pieces.items()))
    units = [unit, *other_units]
    remedies = " or ".join(str(Key("data.meters.unit", unit)) for unit in units)
    more_columns = f" and of {len(pieces) - 1} more" if len(pieces) > 1 else ""
    mean_loads = ", ".join(f"{kw_of[unit]:.2g} kW if in {unit}" for unit in units)
    raise data_error(
        piece.table.path,
        f"nothing says the unit of {piece.columns[name]!r}{more_columns}",
        f"set {remedies}",
        Key("data.meters.unit", UNIT),
        excerpt=f"seen: {_readings_in_words(piece, name)}; mean load: {mean_loads}",
    )


def settle_cumulative(pieces: Iterable[Piece]) -> Assumption | None:
    """That readings which never decrease for days, as no load does, are totals of registers; None
    if those of some piece decrease, or are too few to tell."""
    for piece in pieces:
        stamps = piece.times.stamps.loc[piece.readings.index]
        for readings in (piece.readings[name].dropna() for name in piece.readings):
            ordered_stamps = stamps.loc[readings.index].sort_values(kind="stable")
            steps = np.diff(readings.loc[ordered_stamps.index])
            span = ordered_stamps.max() - ordered_stamps.min()
            if span < _NO_LOAD_RISES_FOR or (steps < 0).any() or (steps > 0).sum() < ENOUGH_CHANGES:
                return None
    return Assumption(
        True,
        "the readings never decrease: read as totals of registers, whose differences are the loads "
        f"(should it be {Key('data.meters.cumulative', 'false')}?)",
    )


def settle_stamp(pieces: Collection[Piece], zone: str, is_asked: bool) -> Assumption:
    """What the stamps of files that do not say it mark: starts of intervals if these fill whole
    days then, otherwise ends.

    Raises:
        DataError: `is_asked`, and hours fill no whole days; the message says what to set.
    """
    marks = {mark for piece in pieces if (mark := _mark_of_days(piece, zone))}
    if len(marks) == 1 and (form := _form_if_days_of_utc(pieces, zone)):
        (mark,) = marks
        return Assumption(
            mark,
            f"the stamps fill whole days of UTC, not of {zone}: read as UTC, and as the {mark}s of "
            "intervals; if they are times of the place in spite of their Z, set "
            f"{Key('data.meters.date_format', repr(form))}",
        )
    if marks == {"end"}:
        return Assumption("end", "")
    for piece in pieces if is_asked and not marks else ():
        if usual_step(pd.DatetimeIndex(piece.times.stamps)) == _HOUR:
            raise _question_of_stamp(piece)
    reason = "so that whole days are filled" if marks == {"start"} else "which nothing says"
    mark, other_mark = ("start", "end") if marks == {"start"} else ("end", "start")
    return Assumption(
        mark,
        f"stamps are read as the {mark}s of intervals, {reason} "
        f"(should {Key('data.meters.stamp')} be {other_mark}?)",
    )


def _question_of_stamp(piece: Piece) -> DataError:
    """The error that asks whether hours come before or after their stamps."""
    first = piece.times.stamps.min()
    hour_before, hour_after = (f"{first + pd.Timedelta(hours=hours):%H:%M}" for hours in (-1, 1))
    start, end = (Key("data.meters.stamp", mark) for mark in ("start", "end"))
    readings = _readings_in_words(piece, str(piece.readings.count().idxmax()))
    return data_error(
        piece.table.path,
        f"nothing says whether the reading of {first:%H:%M} is that of the hour after or before it",
        f"set {start} if it is of {first:%H:%M} to {hour_after}, or {end} if it is of "
        f"{hour_before} to {first:%H:%M}",
        Key("data.meters.stamp", STAMP),
        excerpt=f"seen: {readings}",
    )


def _mark_of_days(piece: Piece, zone: str) -> str | None:
    """Whether the stamps are starts or ends, if the intervals then fill whole days; else None."""
    stamps = pd.DatetimeIndex(piece.times.stamps)
    minutes = usual_step(stamps)
    if minutes is None:
        return None
    span, step = pd.DatetimeIndex([stamps.min(), stamps.max()]), pd.Timedelta(minutes=minutes)
    first_offset = piece.times.offset or timedelta(0)
    last_offset = piece.times.last_offset  # another one if clocks have changed; 0 is one, too
    last_offset = first_offset if last_offset is None else last_offset
    utc = span.tz_localize(None)
    walls = [utc + first_offset, utc + pd.to_timedelta([first_offset, last_offset])]
    if span.tz is not None:
        walls.append(span.tz_convert(zone).tz_localize(None))
    return next(filter(None, (_mark_between(first, last, step) for first, last in walls)), None)


def _mark_between(first: pd.Timestamp, last: pd.Timestamp, step: pd.Timedelta) -> str | None:
    """Whether stamps from `first` to `last` are starts or ends, if whole days are filled then."""
    for mark, edges in (("start", (first, last + step)), ("end", (first - step, last))):
        if all(edge == edge.normalize() for edge in edges):
            return mark
    return None


def _form_if_days_of_utc(pieces: Iterable[Piece], zone: str) -> str | None:
    """The format of stamps that end with Z, with it as a letter, if they fill whole days of UTC in
    all files, but none of the place; None for others."""
    form = None
    for piece in pieces:
        stamps = pd.DatetimeIndex(piece.times.stamps)
        ends_of_stamps = map(_WITH_Z.fullmatch, map(str, piece.table.cells.iloc[0]))
        with_z = next(filter(None, ends_of_stamps), None)
        if stamps.tz is None or with_z is None:
            return None
        step = pd.Timedelta(minutes=usual_step(stamps) or 0)
        for clock, is_whole in (("UTC", True), (zone, False)):
            local = stamps.tz_convert(clock).tz_localize(None)
            if (_mark_between(local.min(), local.max(), step) is None) == is_whole:
                return None
        form = f"%Y-%m-%d{with_z[1]}%H:%M{with_z[2] and ':%S'}{with_z[3] and '.%f'}Z"
    return form


def _mean_load(piece: Piece, name: str, cumulative: bool) -> tuple[float, float]:
    """The mean reading of a meter, or the mean rise of a register, and the minutes between the
    readings."""
    stamps = piece.times.stamps.loc[piece.readings.index].to_numpy()
    readings = piece.readings[name].iloc[np.argsort(stamps, kind="stable")].dropna()
    minutes = usual_step(pd.DatetimeIndex(piece.times.stamps.loc[readings.index])) or _HOUR
    if cumulative or is_register(readings):
        rises = readings.diff().clip(lower=0)
        return float(rises[rises <= rises.quantile(0.99)].mean()), minutes
    return float(readings.abs().mean()), minutes


def _readings_in_words(piece: Piece, name: str) -> str:
    """The readings of a meter in words: three of them, their number, rhythm and span."""
    readings = piece.readings[name].dropna()
    stamps = pd.DatetimeIndex(piece.times.stamps.loc[readings.index])
    values = ", ".join(f"{value:g}" for value in [*readings.iloc[:2], *readings.iloc[-1:]])
    return (
        f"{values}; {count_in_words(len(readings), 'reading')} every "
        f"{usual_step(stamps) or 0:g} minutes "
        f"from {stamps.min():%Y-%m-%d %H:%M} to {stamps.max():%Y-%m-%d %H:%M}"
    )
