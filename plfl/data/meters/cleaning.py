"""From the raw readings of a meter to a regular series in kWh at interval ends in UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError, Place, Problem
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.base.text import count_in_words, short_number
from plfl.config.error_messages import flow
from plfl.config.meters import SERIES_MINUTES, Meters
from plfl.data.checks import (
    CONSTANT_FROM,
    ENOUGH_CHANGES,
    RARE,
    are_two_registers,
    is_register,
)
from plfl.data.meters.faults import (
    differences,
    fill_short,
    longest_gap,
    mask_jumps,
    mask_outages,
    runs,
)
from plfl.data.meters.quantities import KWH
from plfl.data.meters.stamps import (
    Times,
    fixed_zone,
    instants,
    may_be_clock_change,
    standard_offset,
)
from plfl.data.meters.tables import RawTable

POWER_UNITS = ("kW", "W", "MW")
"""Units of mean power."""
_EXPORT_AGAIN = "export it with readings every 15, 30 or 60 minutes"
_FEWEST_ROWS = 4
"""Fewer readings may have gaps between all of them, so that they do not tell their step."""
_HOUR = 60
_GRID = 15
"""Minutes of the clock at which intervals end, unless they are shorter."""
_ENOUGH_STEPS = 12
"""Longer steps that tell whether the readings beside them are larger."""
_MOSTLY = 0.9
"""Few readings of a register that is read at regular times are at others."""
_DELAY = 0.05
"""The part of their distance by which readings at regular times may be late."""
_USUAL_PART = 0.9
"""The part of the rises of a register that are usual."""
_OFTEN_BACK = 1 / 3
"""More than this part of the changes of a power are falls; of a register that is reset each hour
and read each quarter hour, a quarter is."""
_MOST_MARKS = 3
"""Different negative readings that may be marks of missing ones."""
_ROUNDING_ERROR = 1e-9
"""Energy, in kWh, by which differences of binary numbers may be below zero."""
_DIFFERENCES = "differences of a register"
_SUMS = {minutes: f"summed to intervals of {minutes} minutes" for minutes in SERIES_MINUTES}
_CONVERTED = "converted to kWh"
REGISTER_SUMS = "sums of registers"
FACTOR_CHANGE = "multiplied by a factor of the file"
EXPECTED = (
    "outside since and until",
    "newest first",
    "missing",
    "gaps",
    _DIFFERENCES,
    *_SUMS.values(),
    _CONVERTED,
    REGISTER_SUMS,
    FACTOR_CHANGE,
)
"""Changes to a meter that need no warning; the reader warns of gaps."""


@dataclass
class Piece:
    """The readings of meters in the same rows of a file."""

    table: RawTable
    times: Times
    readings: pd.DataFrame
    """Numbers by line, a column per meter; NaN where a reading is missing."""
    inputs: pd.DataFrame
    """Inputs of the model in the same rows, in the units of their features."""
    columns: Mapping[str, str]
    """The column of each meter in the file, the first one if several are added."""
    changes: Mapping[str, Counter[str]] = field(default_factory=dict)
    """What the reader of the file has changed, by meter: number of readings, as in `Meter`."""


@dataclass
class Meter:
    """A meter after cleaning."""

    load: pd.Series
    """kWh in each interval, indexed by its end in UTC; regular, NaN in gaps."""
    inputs: pd.DataFrame
    """The inputs of the model, their means over the intervals, in the same rows."""
    minutes: int
    """Length of the intervals."""
    zone: ZoneInfo
    """The time zone of the meter."""
    changes: Counter[str] = field(default_factory=Counter)
    """Changes by name: number of readings."""
    later_inputs: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The inputs in the rows after the last load, such as a forecast of the weather."""
    step: int = 0
    """Minutes between the readings in the files, of which each interval has one or several."""
    lone: pd.DatetimeIndex = field(default_factory=lambda: pd.DatetimeIndex([]))
    """The ends of intervals with readings whose local time clocks repeat, but which are there once:
    they are taken for those of the first hour."""

    @property
    def summary(self) -> str:
        """The meter in a few words: its readings, their sum in kWh, which a bill can confirm, the
        local days in which the first and the last interval begin, and the changes."""
        ends, values = self.load.index, self.load.to_numpy()
        first, last = (_day_of_start(end, self.minutes, self.zone) for end in (ends[0], ends[-1]))
        known_rows, rows = int(np.count_nonzero(~np.isnan(values))), len(ends)
        share = f"{known_rows} of " if known_rows < rows else ""
        count = f"{share}{count_in_words(rows, 'reading')}"
        return (
            f"{count}, {short_number(np.nansum(values))} kWh, {first} to {last}; "
            f"{self.changes_in_words or 'nothing changed'}"
        )

    @property
    def changes_in_words(self) -> str:
        """The changes to it, and its longest gap; empty if nothing changed."""
        changes = [f"{change}: {number}" for change, number in self.changes.items()]
        if np.isnan(self.load.to_numpy()).any():
            ends = pd.DatetimeIndex(self.load.index).tz_convert(self.zone)
            changes.append(f"longest gap: {longest_gap(self.load.set_axis(ends), self.minutes)}")
        return ", ".join(changes)


@lru_cache  # thousands of meters have the same
def _day_of_start(end: pd.Timestamp, minutes: int, zone: ZoneInfo) -> str:
    """The local day in which an interval begins."""
    return f"{(end - pd.Timedelta(minutes=minutes)).tz_convert(zone):%Y-%m-%d}"


REPEATED_HOUR = "different readings in an hour that clocks may repeat"
"""What is wrong with readings that another time zone may make right."""
TOO_FEW = "fewer than two readings"
OTHER_INTERVAL = "readings in another interval"
"""What is wrong with a meter that has no interval."""


@dataclass(frozen=True)
class _MeterRows:
    """A meter and its files, for messages."""

    name: str
    pieces: Sequence[Piece]

    def __call__(self, rows: pd.DataFrame, row: int) -> Place:
        """The place of a row in its file, and the meter."""
        line = self.line(rows, row)
        return Place(line.file, line.spot, self.name)

    def line(self, rows: pd.DataFrame, row: int) -> Place:
        """The file and the line of a row."""
        return self.piece(rows, row).table.place_of(rows["_line"].iloc[row])

    def piece(self, rows: pd.DataFrame, row: int) -> Piece:
        """The piece with a row."""
        return self.pieces[int(rows["_piece"].iloc[row])]

    def refusal(
        self, rows: pd.DataFrame, row: int, kind: str, text: str, remedy: str, *answers: Key
    ) -> DataError:
        """The error about a row, of a kind that many meters may have; see `Problem`."""
        place = self(rows, row)
        return DataError(Problem(place, text, remedy, self.name, kind, answers=answers))

    @property
    def leave_out(self) -> str:
        """The key that leaves the meter out."""
        return str(Key("data.meters.leave_out", flow([self.name])))


def clean(
    name: str,
    pieces: Sequence[Piece],
    zone: ZoneInfo,
    keys: Meters,
    interval: int | None,
    weather: pd.DataFrame | None,
    may_be_lone: bool = False,
    keeps_steps: bool = False,
) -> Meter:
    """The series of a meter every `interval` minutes (None: at the steps of the readings, or the
    shortest intervals that they make). The `weather` has further inputs, indexed by the time in UTC
    from which they are known.
    `may_be_lone`: a single reading is enough if `keys` say how long it is (`step_of`).
    `keeps_steps`: loads without inputs that are as long as `keys` say are not summed.

    Raises:
        DataError: the readings are ambiguous; the message names the line and the key to set.
    """
    changes = sum((piece.changes.get(name, Counter()) for piece in pieces), Counter[str]())
    meter_rows = _MeterRows(name, pieces)
    parts = [rows_in_utc(piece, name, zone, keys, changes) for piece in pieces]
    order = _order_of_files(pieces, parts)
    rows = pd.concat([parts[number].assign(_piece=number) for number in order])
    is_inside = _is_in_range(pd.DatetimeIndex(rows.index), zone, keys)
    if not is_inside.all():
        changes["outside since and until"] += int((~is_inside).sum())
        rows = rows[is_inside]
    rows = _rows_in_order(meter_rows, rows, keys, changes)
    fewest = 1 if may_be_lone and keys.step_of(name) else 2
    if rows["_load"].count() < fewest:
        meter_place = Place(pieces[0].table.path, meter=name)
        raise DataError(Problem(meter_place, TOO_FEW, meter_rows.leave_out, name, TOO_FEW))
    has_inputs = weather is not None or len(pieces[0].inputs.columns) > 0
    if keeps_steps and not has_inputs and (step := keys.summed_step_of(name)):
        usual = _step_between(rows[rows["_load"].notna()], step, interval)
        interval = step if usual == step else interval
    return _Readings(meter_rows, rows, zone, keys, interval, changes).meter(weather, fewest)


class Cleaner:
    """Cleans meters one after the other. In a wide file, most of them have the same times and
    nothing that needs a look: they are like the first one with the same gaps, but for their loads.
    """

    def __init__(
        self,
        keys_of: Mapping[str, Meters],
        interval: int | None,
        may_be_lone: bool = False,
        keeps_steps: bool = False,
    ):
        """`keys_of`: the keys of each meter; for the others see `clean`."""
        self._keys_of, self._interval, self._may_be_lone = keys_of, interval, may_be_lone
        self._keeps_steps = keeps_steps
        self._plain_loads: dict[int, Mapping[str, NDArray[np.float64]]] = {}
        self._plain_meters: dict[tuple[int, int | None, bytes], Meter] = {}

    def clean(
        self, name: str, pieces: Sequence[Piece], zone: ZoneInfo, weather: pd.DataFrame | None
    ) -> Meter:
        """The series of a meter; see `clean`."""
        keys, (piece, *other_pieces) = self._keys_of[name], pieces
        if id(piece) not in self._plain_loads:
            self._plain_loads[id(piece)] = _plain_loads(piece, self._keys_of)
        rules = self._interval, weather, self._may_be_lone, self._keeps_steps
        if other_pieces or weather is not None or name not in self._plain_loads[id(piece)]:
            return clean(name, pieces, zone, keys, *rules)
        loads = self._plain_loads[id(piece)][name]
        is_known = ~np.isnan(loads)
        row_numbers = np.flatnonzero(is_known)
        span = slice(row_numbers[0], row_numbers[-1] + 1)
        form = id(piece), keys.step_of(name), np.packbits(is_known).tobytes()
        plain_meter = self._plain_meters.get(form)
        if plain_meter is None or plain_meter.zone != zone:
            plain_meter = clean(name, pieces, zone, keys, *rules)
            # No other intervals, nor an hour lost and one gained.
            if np.array_equal(plain_meter.load.notna(), is_known[span]):
                self._plain_meters[form] = plain_meter
            return plain_meter
        values = loads[span] * _factor(keys, plain_meter.minutes)
        load = pd.Series(values, plain_meter.load.index, name="load")
        return replace(plain_meter, load=load, changes=Counter(plain_meter.changes))


def _plain_loads(piece: Piece, keys_of: Mapping[str, Meters]) -> Mapping[str, NDArray[np.float64]]:
    """The loads of a piece that need no look, by meter: they vary, are those of no register and in
    the unit of the keys, in rows in order of time, none may hold the energy of a gap, and no key
    changes single ones. NaN where a reading is missing.
    """
    values, stamps = piece.readings.to_numpy(), piece.times.stamps
    is_in_order = stamps.is_monotonic_increasing and stamps.is_unique
    if not is_in_order or len(stamps) != len(values) or len(piece.inputs.columns):
        return {}
    lowest, highest = np.fmin.reduce(values), np.fmax.reduce(values)
    is_varied = (lowest >= 0) & (lowest < highest) & (highest < np.inf)
    return {
        name: loads
        for name, loads in zip(piece.readings.columns[is_varied], values.T[is_varied], strict=True)
        if not piece.changes.get(name)
        and not _has_changing_key(keys_of[name])
        and piece.table.unit_of(piece.columns[name]) in (None, keys_of[name].unit)
        and _are_plain(loads, keys_of[name])
    }


def _are_plain(loads: NDArray[np.float64], keys: Meters) -> bool:
    """Whether loads, a row each, are those of no register, and none may hold the energy of a gap
    beside it. NaN: missing."""
    row_numbers = np.flatnonzero(~np.isnan(loads))
    known_loads = loads[row_numbers]
    if len(row_numbers) > ENOUGH_CHANGES and is_register(pd.Series(known_loads)):
        return False
    steps = np.diff(row_numbers)
    if (steps > 1).any() and (_excess_beside_gaps(pd.Series(known_loads), steps, keys) > 1).any():
        return False
    return not are_two_registers(known_loads)


def _excess_beside_gaps(
    known_loads: pd.Series, steps: NDArray[np.float64] | NDArray[np.intp], keys: Meters
) -> pd.Series:
    """How many times as large the load in each of the `steps` between known loads is as it may be,
    if it is not that of the step; above 1, it may hold the energy of a gap. `steps`: in usual ones.
    """
    loads = known_loads.iloc[slice(-1) if keys.stamp == "start" else slice(1, None)]
    usual_loads = loads.where(steps == 1)
    # A load of the whole step is about as large, or larger.
    expected: pd.Series = (usual_loads.ffill() + usual_loads.bfill()) / 2 * np.sqrt(steps)
    return (loads / (np.inf if keys.unit in POWER_UNITS else expected)).where(steps != 1)


def _has_changing_key(keys: Meters) -> bool:
    """Whether a key changes single loads."""
    return any((keys.cumulative, keys.max_jump, keys.zero_run, keys.since, keys.until))


def _factor(keys: Meters, minutes: int) -> float:
    """What turns readings every so many minutes into kWh."""
    return KWH[keys.unit or "kWh"] * (minutes / 60 if keys.unit in POWER_UNITS else 1)


def rows_in_utc(
    piece: Piece, name: str, zone: ZoneInfo, keys: Meters, changes: Counter[str]
) -> pd.DataFrame:
    """The rows of a meter in a piece at their stamps in UTC, in any order.

    They have the reading (`_load`), the inputs, the `_line` and the stamp as written, without an
    offset (`_wall`), and whether it is there once though clocks repeat it (`_lone`). Padding in the
    hour that clocks skip in spring is left out; readings in it are refused.
    """
    load = piece.readings[name]
    stamps = pd.DatetimeIndex(piece.times.stamps.loc[load.index])
    walls = stamps.tz_localize(None) + (piece.times.offset or timedelta(0))
    columns = {**piece.inputs, "_load": load, "_line": load.index, "_wall": walls, "_lone": False}
    rows = pd.DataFrame(columns, load.index)
    steps = np.diff(stamps.asi8)
    if (steps < 0).sum() > (steps > 0).sum():
        changes["newest first"] += len(stamps)
        rows, stamps = rows.iloc[::-1], stamps[::-1]
    if stamps.tz is not None:
        # The zone determines the time of day for models.
        if (stated_offset := piece.times.offset) and piece.times.contradict(zone):
            sign, size = "-" if stated_offset < timedelta(0) else "+", abs(stated_offset)
            zone_words = f"{zone.key} in {Key('data.meters.timezone')}"
            change = f"UTC offset {sign}{size} in the stamps, {zone_words}"
            changes[f"{change} (is that the meter's zone?)"] += len(stamps)
        return rows.set_axis(stamps)
    is_known = rows["_load"].notna().to_numpy()
    is_reading = is_known & (rows["_load"] != 0).to_numpy()
    moments = instants(stamps, zone, pd.Timedelta(0))
    if keys.stamp == "end" and ((moments.is_skipped & is_reading).any() or moments.lone.any()):
        # Some meters write the time at the start of the interval plus its length.
        usual = usual_step(stamps[is_known]) or 0
        lagged_moments = instants(stamps, zone, pd.Timedelta(minutes=usual))
        if not ((lagged_moments.is_skipped & is_reading).any() or lagged_moments.lone.any()):
            moments = lagged_moments
    if (real := moments.is_skipped & is_reading).any() and not keys.drop_skipped:
        row = int(real.argmax())
        text = f"does not exist in {zone.key}, where clocks go forward"
        raise DataError(
            Problem(
                piece.table.place_of(rows["_line"].iloc[row]),
                f"{stamps[row]} {text}",
                f"set {Key('data.meters.timezone')} to the meter's own zone, or to a fixed one"
                f"{fixed_zone(zone)} if its clock never changes (its days then follow the sun, not "
                "people); if the portal fills the hour, set "
                f"{Key('data.meters.drop_skipped', 'true')}",
                name,
                text,
            )
        )
    changes["padding of the hour that clocks skip dropped"] += int(
        (moments.is_skipped & ~real).sum()
    )
    changes["readings of the hour that clocks skip dropped"] += int(real.sum())
    changes["readings of the hour that clocks repeat, there once so far"] += int(moments.lone.sum())
    rows["_lone"] = moments.lone
    has_instant = ~moments.is_skipped
    # The first of two equal stamps is the earlier one if the rows are in order.
    is_ordered = moments.utc[has_instant].is_monotonic_increasing or stamps.is_monotonic_increasing
    if moments.duplicates.any() and not is_ordered:
        rows["_load"] = rows["_load"].mask(moments.duplicates)
        change = "readings of the repeated hour, whose order is lost, made gaps"
        changes[change] += int(moments.duplicates.sum())
    rows = rows.set_axis(moments.utc)
    return rows if has_instant.all() else rows[has_instant]


def _order_of_files(pieces: Sequence[Piece], parts: Sequence[pd.DataFrame]) -> list[int]:
    """The numbers of pieces by the time of their last reading; of equal ones, by when their file
    was written."""
    if len(parts) == 1:
        return [0]

    def age(number: int) -> tuple[float, int]:
        path = pieces[number].table.path
        file = next(file for file in (path, *path.parents) if file.exists())  # it may be an archive
        known_times = parts[number].index[parts[number]["_load"].notna()]
        last = _seconds(pd.DatetimeIndex(known_times)).max(initial=-np.inf)
        return last, file.stat().st_mtime_ns

    return sorted(range(len(parts)), key=age)


def _is_in_range(ends: pd.DatetimeIndex, zone: ZoneInfo, keys: Meters) -> NDArray[np.bool_]:
    """Which intervals are between `data.meters.since` and `until`."""
    if keys.stamp == "start":
        ends += pd.Timedelta(minutes=usual_step(ends) or 0)
    keep = np.ones(len(ends), dtype=bool)
    if keys.since is not None:
        keep &= ends > _instant(keys.since, zone, is_first=True)
    if keys.until is not None:
        keep &= ends <= _instant(keys.until, zone, is_first=False)
    return keep


def _instant(local: str, zone: ZoneInfo, is_first: bool) -> pd.Timestamp:
    """A local time as an instant; of the hour that clocks repeat, the first or the last one."""
    return pd.Timestamp(local).tz_localize(zone, ambiguous=is_first, nonexistent="shift_forward")


def _rows_in_order(
    meter_rows: _MeterRows, rows: pd.DataFrame, keys: Meters, changes: Counter[str]
) -> pd.DataFrame:
    """The rows in order of time, one for each time."""
    if not rows.index.is_monotonic_increasing:
        if len(meter_rows.pieces) == 1:
            _refuse_exchanged_dates(meter_rows, rows)
            changes["sorted"] += len(rows)
        rows = rows.iloc[np.argsort(rows.index, kind="stable")]
    if rows.index.is_unique:
        return rows
    # A missing reading does not contradict another one.
    loads = rows.groupby(level=0)["_load"]
    is_different = (loads.transform("max") > loads.transform("min")).to_numpy()
    times = rows.index[is_different].nunique()
    if times and keys.duplicates is None:
        raise _ambiguity(meter_rows, rows, int(is_different.argmax()), times)
    rule = keys.duplicates or "first"
    single = loads.agg(rule)
    equal_times = rows.index[~is_different & rows["_load"].notna().to_numpy()]
    changes["equal duplicates dropped"] += len(equal_times) - equal_times.nunique()
    changes[f"times with different readings ({rule} kept)"] += times
    rows = rows.groupby(level=0).agg("last" if rule == "last" else "first")
    return rows.assign(_load=single)


def _refuse_exchanged_dates(meter_rows: _MeterRows, rows: pd.DataFrame) -> None:
    """Refuse rows of which days up to the twelfth have day and month exchanged, as a program writes
    them that guesses the order of each date by itself: with these exchanged again, all rows are in
    order."""
    walls = pd.DatetimeIndex(rows["_wall"])
    going_back = np.flatnonzero(np.diff(walls.asi8) < 0)
    if len(going_back) < 2:
        return
    months = np.where(walls.day <= 12, walls.day, walls.month)
    days = np.where(walls.day <= 12, walls.month, walls.day)
    dates = pd.to_datetime(pd.DataFrame({"year": walls.year, "month": months, "day": days}))
    if not (pd.DatetimeIndex(dates) + (walls - walls.normalize())).is_monotonic_increasing:
        return
    is_exchangeable = (walls.day <= 12) & (walls.day != walls.month)
    text = "day and month of its stamps are exchanged up to the twelfth of a month"
    problem = Problem(
        meter_rows.line(rows, int(going_back[0]) + 1),
        f"{text} ({count_in_words(int(is_exchangeable.sum()), 'such reading')})",
        "exchange them again, or export the file with dates as in 2024-12-31; the rows are in the "
        "right order",
        meter_rows.name,
        text,
    )
    raise DataError(problem)


def _ambiguity(meter_rows: _MeterRows, rows: pd.DataFrame, row: int, times: int) -> DataError:
    """The error about different readings for the same times, of which `row` is the first."""
    if are_two_registers(rows["_load"].dropna().to_numpy()):
        return _mixed_registers(meter_rows, rows)
    wall, clock = rows["_wall"].iloc[row], ""
    if meter_rows.piece(rows, row).times.offset is None and may_be_clock_change(wall):
        key = Key("data.meters.timezone")
        clock = f"; if the meter has daylight saving time, set {key} to its place"
    problem = Problem(
        meter_rows.line(rows, row + 1),
        f"differs from {meter_rows.line(rows, row)} for the same time, {wall} "
        f"({count_in_words(times, 'such time')})",
        f"choose {Key('data.meters.duplicates', 'first')}, last or mean{clock}; if several columns "
        f"or files are mixed up, set {Key('data.meters.columns.load')}",
        meter_rows.name,
        kind=REPEATED_HOUR if clock else "different readings for the same time",
    )
    return DataError(problem)


def _mixed_registers(meter_rows: _MeterRows, rows: pd.DataFrame) -> DataError:
    text = "the readings are those of two registers in turns"
    remedy = (
        "write each into a column of its own, or name the column that tells them apart in "
        f"{Key('data.meters.columns.meter')}"
    )
    return meter_rows.refusal(rows, 0, text, text, remedy)


def usual_step(index: pd.DatetimeIndex) -> float | None:
    """The most common step between the times of an index in minutes, in whatever order they are;
    None if there is none."""
    steps, counts = np.unique(np.diff(np.unique(_seconds(index))), return_counts=True)
    return float(steps[counts.argmax()]) / 60 if len(steps) else None


def _step_between(known_rows: pd.DataFrame, step: int | None, interval: int | None) -> float:
    """The most common step between rows in minutes. Of few rows it is the known `step`, if there is
    one, unless they are as far apart as an `interval`; 0 if nothing tells it."""
    usual = usual_step(pd.DatetimeIndex(known_rows.index))
    if usual is None:
        return step or 0
    is_doubtful = len(known_rows) < _FEWEST_ROWS and usual != interval
    return step if step and is_doubtful and usual % step == 0 else usual


def refusal_of_days(place: Place | Path, meter: str = "") -> DataError:
    """The error about readings a day apart."""
    text = "its readings are a day apart"
    remedy = (
        f"{_EXPORT_AGAIN}; if each row has the readings of a day, name its columns by times such "
        "as 00:00 and 00:15"
    )
    return DataError(Problem(place, text, remedy, meter, text))


def _seconds(index: pd.DatetimeIndex) -> NDArray[np.float64]:
    """Seconds since 1970."""
    return np.asarray(index.as_unit("us").asi8 / 1e6)


def _minutes_for_irregular(rows: pd.DataFrame, interval: int | None) -> int | None:
    """The length of intervals, at least twice the usual step, in which a register that is read at
    irregular times is known; at least that step, if most are alike, or late by a small part of it,
    and many are not at times at which intervals end. None if readings are at regular times, a
    minute or more apart."""
    times = _seconds(pd.DatetimeIndex(rows.index[rows["_load"].notna()])) / 60
    steps = np.diff(times)
    if len(steps) < _ENOUGH_STEPS:
        return None
    values, counts = np.unique(steps, return_counts=True)
    is_regular = counts.max() * 2 > len(steps)
    step, usual = values[counts.argmax()], np.median(steps)
    if (
        is_regular
        and step >= 1
        and (_HOUR % step or (times % min(step, _GRID) == 0).mean() > _MOSTLY)
    ):
        return None
    is_late_at_most = (np.abs(steps - round(usual)) <= _DELAY * usual).mean() > 0.5
    shortest = usual if is_regular else round(usual) if is_late_at_most else 2 * usual
    lengths = SERIES_MINUTES if interval is None else (interval,)
    return next((length for length in lengths if length >= shortest), None)


class _Readings:
    """The readings of a meter, on the way to its series."""

    def __init__(
        self,
        meter_rows: _MeterRows,
        rows: pd.DataFrame,
        zone: ZoneInfo,
        keys: Meters,
        interval: int | None,
        changes: Counter[str],
    ):
        """Find out the interval of the readings in `rows`, which are in order of time; unusable
        ones are refused. `interval`: see `clean`. What changes is counted in `changes`."""
        self.meter_rows, self.rows, self.zone = meter_rows, rows, zone
        self.keys, self.changes = keys, changes
        self.standard = standard_offset(zone)
        if keys.cumulative and (minutes := _minutes_for_irregular(rows, interval)):
            self.rows = rows = self._on_grid(rows, minutes)
        self.known_rows = rows[rows["_load"].notna()]
        self.raw = self._interval(
            _step_between(self.known_rows, keys.step_of(meter_rows.name), interval)
        )
        lengths = [minutes for minutes in SERIES_MINUTES if minutes % self.raw == 0]
        self.target = interval or next(iter(lengths), self.raw)
        if self.target not in lengths:
            text = f"its readings are {self.raw:g} minutes apart"
            text += f" and do not make intervals of {interval}" if interval else ""
            remedy = (
                f"set {Key('data.meters.interval', ' or '.join(map(str, lengths)))}; "
                f"or {meter_rows.leave_out}"
                if lengths
                else f"{meter_rows.leave_out}, or {_EXPORT_AGAIN}"
            )
            raise meter_rows.refusal(self.known_rows, 0, OTHER_INTERVAL, text, remedy)
        self._check_steps()
        if keys.stamp == "start":
            length = pd.Timedelta(minutes=self.raw)
            self.rows = rows.set_axis(rows.index + length)
            self.known_rows = self.known_rows.set_axis(self.known_rows.index + length)
        self._check_grid(is_summed=interval is not None and interval != self.raw)

    def _interval(self, step: float) -> int:
        """The step between readings in minutes, unless it is unusual."""
        if step == MINUTES_PER_DAY:
            raise refusal_of_days(self.meter_rows.line(self.known_rows, 0), self.meter_rows.name)
        if step > max(SERIES_MINUTES) or step != round(step):
            text = f"its readings are {step:g} minutes apart"
            remedy = f"{self.meter_rows.leave_out}, or {_EXPORT_AGAIN}"
            kind = "readings in an unusual interval"
            raise self.meter_rows.refusal(self.known_rows, 0, kind, text, remedy)
        return round(step)

    def _on_grid(self, rows: pd.DataFrame, length: int) -> pd.DataFrame:
        """The rows of a register that was read at irregular times, such as at each change, at the
        ends of intervals of `length` minutes, between whose readings it rises evenly; NaN where it
        was not read for longer, and has counted more than it mostly does from one to the next."""
        known_rows = rows[rows["_load"].notna()]
        first, last = pd.DatetimeIndex(known_rows.index[[0, -1]]) + self.standard
        step = f"{length}min"
        ends = pd.date_range(first.ceil(step), last.floor(step), freq=step) - self.standard
        times, readings = _seconds(pd.DatetimeIndex(known_rows.index)), known_rows["_load"]
        grid = _seconds(ends)
        rises = np.diff(readings)
        is_unread = (np.diff(times) > 60 * length * (1 + _DELAY)) & (
            rises > np.quantile(rises, _USUAL_PART)
        )
        after = np.searchsorted(times, grid)
        is_inside = is_unread[after - 1] & (times[after] > grid) & (after > 0)
        values = np.where(is_inside, np.nan, np.interp(grid, times, readings))
        change = "readings of a register at irregular times, between which it rises evenly"
        self.changes[change] += len(known_rows)
        return known_rows.iloc[np.maximum(after - 1, 0)].set_axis(ends).assign(_load=values)

    def _check_grid(self, is_summed: bool) -> None:
        """Refuse readings whose ends are not on a regular grid of the standard time."""
        meter_rows, rows, step = self.meter_rows, self.known_rows, self.raw
        ends = _seconds(pd.DatetimeIndex(rows.index) + self.standard) / 60
        values, counts = np.unique(ends % step, return_counts=True)
        phase = values[counts.argmax()]
        # Half hours may end at :15 and :45, unless they are summed.
        is_allowed = phase % (step if is_summed else min(step, _GRID)) == 0
        is_off = (ends % step != phase) | (not is_allowed)
        if is_off.any():
            row = int(np.argmax(is_off))
            kind = f"off the grid of {step:g} minutes"
            line_count = count_in_words(int(is_off.sum()), "such line")
            text = f"{rows['_wall'].iloc[row]} is {kind} ({line_count})"
            remedy = f"round or remove the stamps, or {meter_rows.leave_out}"
            raise meter_rows.refusal(rows, row, kind, text, remedy)

    def _check_steps(self) -> None:
        """Refuse loads whose interval changes. A longer step than the usual one spans missing
        readings, unless most steps of its length follow each other, or the loads beside many of
        them are larger in proportion; single loads that are so large are made gaps."""
        steps = np.diff(_seconds(pd.DatetimeIndex(self.known_rows.index))) / 60
        is_usual = steps == self.raw
        if self.keys.cumulative or is_usual.all():
            return
        run = np.cumsum(np.concatenate([[0], steps[1:] != steps[:-1]]))
        follow = np.bincount(run)[run]
        is_start = self.keys.stamp == "start"
        excess = _excess_beside_gaps(self.known_rows["_load"], steps / self.raw, self.keys)
        for length in np.unique(steps[~is_usual]):
            is_alike = steps == length
            has_runs = np.mean(follow[is_alike] >= (4 if length > self.raw else 2)) > 0.5
            if has_runs or (is_alike.sum() >= _ENOUGH_STEPS and excess[is_alike].median() > 1):
                row = int(is_alike.argmax()) + (not is_start)
                kind = f"the interval changes from {self.raw} to {length:g} minutes"
                text = (
                    f"{kind} at {self.known_rows['_wall'].iloc[row]} "
                    f"({count_in_words(int(is_alike.sum()), 'such reading')})"
                )
                remedy = (
                    f"choose one part with {Key('data.meters.since')} or "
                    f"{Key('data.meters.until')}, or {self.meter_rows.leave_out}"
                )
                raise self.meter_rows.refusal(self.known_rows, row, kind, text, remedy)
        is_doubtful = (excess > 1) & np.isin(steps, SERIES_MINUTES) & self.keys.drop_gap_sums
        change = "readings beside a gap that may hold its energy, left out"
        self.changes[change] += int(is_doubtful.sum())
        is_doubtful = is_doubtful.reindex(self.known_rows.index, fill_value=False)
        self.known_rows = self.known_rows.assign(_load=self.known_rows["_load"].mask(is_doubtful))

    def meter(self, weather: pd.DataFrame | None, fewest: int = 2) -> Meter:
        """The cleaned meter, with the inputs that are joined to it; refused with fewer than
        `fewest` loads."""
        meter_rows, changes = self.meter_rows, self.changes
        self._note_doubts()
        self._refuse_registers()
        load = self._load()
        positions = np.flatnonzero(load.notna())
        if len(positions) < fewest:
            raise meter_rows.refusal(self.known_rows, 0, TOO_FEW, TOO_FEW, meter_rows.leave_out)
        length, load = len(load), load.iloc[positions[0] : positions[-1] + 1].rename("load")
        changes["missing at the beginning or end"] += length - len(load)
        changes[_DIFFERENCES] += len(load) * self.keys.cumulative
        changes[_SUMS[self.target]] += len(load) * (self.raw != self.target)
        changes[_CONVERTED] += len(load) * (_factor(self.keys, self.raw) != 1)
        if not self.keys.allow_negative and (load < 0).any():
            load = load.mask(load.between(-_ROUNDING_ERROR, 0), 0.0)
        self._check_values(load)
        index = pd.DatetimeIndex(load.index)
        inputs = self._inputs(index, weather)
        if weather is not None:
            lengths = runs(inputs[list(weather)].isna().any(axis=1).to_numpy())[1]
            long = lengths[lengths * self.target > self.keys.max_gap]
            changes["without weather"] += int(long.sum())
        gaps = runs(load.isna().to_numpy())[1]
        changes["missing"] += int(gaps.sum())
        changes["gaps"] += len(gaps)
        later_inputs = self._inputs_after(index, inputs, weather)
        lone = self._rows_of(self.known_rows.index[self.known_rows["_lone"]]).unique()
        return Meter(load, inputs, self.target, self.zone, +changes, later_inputs, self.raw, lone)

    def _inputs_after(
        self, index: pd.DatetimeIndex, inputs: pd.DataFrame, weather: pd.DataFrame | None
    ) -> pd.DataFrame:
        """The inputs that are known in the rows after the last load, without gaps of more than
        `max_gap` minutes; those up to it are `inputs`."""
        if inputs.empty:
            return inputs.iloc[:0]
        stamps_of_inputs = [self.rows.index, *([] if weather is None else [weather.index])]
        end = max(stamps.max() for stamps in stamps_of_inputs)
        later_rows = pd.date_range(index[-1], end, freq=f"{self.target}min")
        if len(later_rows) < 2:
            return inputs.iloc[:0]
        all_inputs = pd.concat(
            [inputs.iloc[-1:], self._inputs(later_rows, weather, False).iloc[1:]]
        )
        return fill_short(all_inputs, self.keys.max_gap // self.target).iloc[1:]

    def _note_doubts(self) -> None:
        """Note clocks, units and ends of intervals that may be understood wrongly."""
        meter_rows, keys, changes = self.meter_rows, self.keys, self.changes
        walls = pd.DatetimeIndex(self.rows["_wall"])
        steps = np.diff(_seconds(pd.DatetimeIndex(self.rows.index))) / 60
        for row in map(int, np.flatnonzero(steps == self.raw + 60) + 1):
            is_local = meter_rows.piece(self.rows, row).times.offset is None
            ends = pd.DatetimeIndex(self.rows.index[[row - 1, row]]) - pd.Timedelta(minutes=1)
            offset, next_offset = (end.utcoffset() for end in ends.tz_convert(self.zone))
            is_clock_change = offset != next_offset
            if is_local and may_be_clock_change(walls[row]) and not is_clock_change:
                changes[
                    f"gaps of an hour on a Sunday (is {Key('data.meters.timezone')} right?)"
                ] += 1
        for piece in meter_rows.pieces:
            stated_unit = piece.table.unit_of(piece.columns[meter_rows.name])
            if stated_unit not in (None, keys.unit):
                change = f"readings in {stated_unit} by their header, but read as {keys.unit}"
                changes[f"{change} (is {Key('data.meters.unit')} right?)"] += len(piece.readings)
        end = walls[-1] + pd.Timedelta(minutes=self.raw)
        is_told = "stamp" in keys.model_fields_set or keys.cumulative
        if not is_told and walls[0] == walls[0].normalize() and end == end.normalize():
            change = f"stamps from {walls[0]:%H:%M} to {walls[-1]:%H:%M}, read as ends of intervals"
            changes[f"{change} (should {Key('data.meters.stamp')} be start?)"] += len(walls)

    def _refuse_registers(self) -> None:
        """Ask whether readings like those of a register are; refuse those of two registers."""
        readings, is_asked = (
            self.known_rows["_load"],
            "cumulative" not in self.keys.model_fields_set,
        )
        if len(readings) <= ENOUGH_CHANGES or not (is_asked or self.keys.cumulative):
            return
        is_one = is_register(readings)
        if not is_one and are_two_registers(readings.dropna().to_numpy()):
            raise _mixed_registers(self.meter_rows, self.known_rows)
        if "cumulative" in self.keys.model_fields_set and not is_one:
            self._refuse_steps_back(readings)
        if is_one and is_asked:
            often = "hardly ever decrease" if (np.diff(readings) < 0).any() else "never decrease"
            text = f"the readings {often}, like those of a cumulative register"
            register = Key("data.meters.cumulative", "true")
            remedy = (
                f"set {register}, or {Key('data.meters.cumulative', 'false')} if they are loads"
                f", or {self.meter_rows.leave_out} beside meters with loads"
            )
            raise self.meter_rows.refusal(self.known_rows, 0, text, text, remedy, register)

    def _refuse_steps_back(self, readings: pd.Series) -> None:
        """Refuse totals of a register that decrease as often as powers do, and not at resets."""
        values = readings.to_numpy()
        changes = np.diff(values)
        is_back = changes < 0
        is_reset = values[1:][is_back] <= RARE * values[:-1][is_back]
        if is_back.sum() > _OFTEN_BACK * np.count_nonzero(changes) and is_reset.mean() < 0.5:
            kind = "no register, as its readings often decrease"
            text = f"{kind} ({count_in_words(int(is_back.sum()), 'time')})"
            key = Key("data.meters.leave_out", flow([self.meter_rows.name]))
            remedy = f"set {key}, or read loads and registers in studies of their own"
            raise self.meter_rows.refusal(
                self.known_rows, int(is_back.argmax()), kind, text, remedy, key
            )

    def _load(self) -> pd.Series:
        """kWh in each interval from the first reading to the last one, NaN in gaps and faults."""
        keys, changes, ends = self.keys, self.changes, self.known_rows.index
        is_outside = (self.rows.index < ends[0]) | (self.rows.index > ends[-1])
        changes["missing at the beginning or end"] += int(is_outside.sum())
        if keys.cumulative:  # its first reading ends no interval, and is not missing
            changes["missing at the beginning or end"] -= 1
        load = (
            self._register_load()
            if keys.cumulative
            else self.known_rows["_load"].asfreq(f"{self.raw}min")
        )
        load *= _factor(keys, self.raw)
        if keys.max_jump is not None:
            plausible_load = mask_jumps(load, keys.max_jump)
            changes["jumps made gaps"] += int(plausible_load.isna().sum() - load.isna().sum())
            load = plausible_load
        if self.raw != self.target:
            # A gap if one of the readings is missing.
            parts = self.target // self.raw
            load = load.groupby(self._rows_of(load.index)).sum(min_count=parts)
            load = load.asfreq(f"{self.target}min")
        if keys.zero_run is not None:
            plausible_load = mask_outages(load, self.target, keys.zero_run)
            changes["zeros of outages made gaps"] += int(
                plausible_load.isna().sum() - load.isna().sum()
            )
            load = plausible_load
        return load.rename_axis("timestamp")

    def _register_load(self) -> pd.Series:
        """What a register counted in each interval. What it counted while readings are missing is
        spread evenly over a gap that may be filled, and within a row of the series; NaN in other
        gaps."""
        counts = differences(self.known_rows["_load"], self.changes)
        minutes = np.diff(_seconds(pd.DatetimeIndex(counts.index)), prepend=np.nan) / 60
        minutes[0] = self.raw
        missing = minutes - self.raw
        ends = self._rows_of(counts.index)
        starts = self._rows_of(counts.index - pd.to_timedelta(missing, unit="min"))
        is_spread = (missing > 0) & ((missing <= self.keys.max_gap) | (starts == ends))
        is_lost = (missing > 0) & ~is_spread
        change = "missing readings of the register, whose use is spread evenly"
        self.changes[change] += round(missing[is_spread].sum() / self.raw)
        if is_lost.any():
            energy = counts[is_lost].sum() * KWH[self.keys.unit or "kWh"]
            self.changes[
                f"{energy:.6g} kWh that the register counted while it was not read are no loads "
                f"({Key('data.meters.max_gap', str(int(missing[is_lost].max())))} spreads them "
                "evenly), gaps"
            ] += int(is_lost.sum())
        even = (counts / (minutes / self.raw)).mask(is_lost).fillna(np.inf)
        return even.asfreq(f"{self.raw}min").bfill().replace(np.inf, np.nan)

    def _rows_of(self, ends: pd.Index) -> pd.DatetimeIndex:
        """The ends of the rows of a series, which begin at whole multiples of their length in
        standard time, to which the ends of shorter intervals belong."""
        return (pd.DatetimeIndex(ends) + self.standard).ceil(f"{self.target}min") - self.standard

    def _inputs(
        self, index: pd.DatetimeIndex, weather: pd.DataFrame | None, is_needed: bool = True
    ) -> pd.DataFrame:
        """The inputs in the rows of the load: means of the known values in an interval, and the
        weather: means of the values that became known in each interval.

        The last weather holds for up to `max_gap` minutes, so that the newest loads are not lost.
        An input without values is refused if it `is_needed`.
        """
        roles = list(self.meter_rows.pieces[0].inputs)
        if weather is None and not roles:
            return pd.DataFrame(index=index, columns=self.rows.columns[:0])
        inputs = self.rows[roles]
        if self.raw != self.target:
            inputs = inputs.groupby(self._rows_of(inputs.index)).mean()
        inputs = inputs.reindex(index)
        if weather is None:
            return inputs
        weather_in_range = weather[weather.index > index[0] - pd.Timedelta(minutes=self.target)]
        weather_in_range = weather_in_range[weather_in_range.index <= index[-1]]
        filled = (
            weather_in_range.groupby(index[index.searchsorted(weather_in_range.index)])
            .mean()
            .reindex(index)
        )
        if not is_needed:
            return inputs.join(filled)
        if empty := [str(role) for role in filled if filled[role].isna().all()]:
            times = f"{index[0]:%Y-%m-%d} to {index[-1]:%Y-%m-%d}"
            kind = f"{Key('data.meters.weather')} has no {', '.join(empty)}"
            meter_place = Place(self.meter_rows.pieces[0].table.path, meter=self.meter_rows.name)
            remedy = f"give the weather of that time, or {self.meter_rows.leave_out}"
            text = f"{kind} from {times}"
            raise DataError(Problem(meter_place, text, remedy, self.meter_rows.name, kind))
        for column, role in enumerate(filled):
            last = int(np.flatnonzero(filled[role].notna())[-1])
            if (len(filled) - 1 - last) * self.target <= self.keys.max_gap:
                filled.iloc[last:, column] = filled[role].to_numpy()[last]
        return inputs.join(filled)

    def _check_values(self, load: pd.Series) -> None:
        """Refuse negative loads, and those that never change."""
        meter_rows, values, readings = self.meter_rows, load.to_numpy(), self.known_rows["_load"]
        is_negative = values < 0
        if is_negative.any() and not self.keys.allow_negative:
            end = load.index[is_negative][0]
            is_part = readings.index > end - pd.Timedelta(minutes=self.target)
            is_part &= readings.index <= end
            row = int(np.nanargmin(np.where(is_part, readings, np.inf)))
            value = f"{readings.iloc[row]:.15g}"
            text = f"{count_in_words(int(is_negative.sum()), 'negative value')}, first {value}"
            is_mark = readings[readings < 0].nunique() <= _MOST_MARKS
            remedy = f"set {Key('data.meters.allow_negative', 'true')}" + (
                f", {Key('data.meters.missing', f'[{value}]')}, or {meter_rows.leave_out}"
                if is_mark
                else " if they are what is fed in, name a column of the import or of the use in "
                f"{Key('data.meters.columns.load')}, or {meter_rows.leave_out}"
            )
            raise meter_rows.refusal(self.known_rows, row, "negative values", text, remedy)
        is_constant = np.nanmin(values) == np.nanmax(values)
        if is_constant and len(values) * self.target >= CONSTANT_FROM:
            text = f"all values are {np.nanmin(values):g} kWh"
            raise meter_rows.refusal(
                self.known_rows, 0, "constant values", text, meter_rows.leave_out
            )
