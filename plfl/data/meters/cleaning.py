"""From the raw readings of one meter to a regular series in kWh at interval ends in UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.config.messages import flow
from plfl.config.sections import Meters
from plfl.data.checks import ENOUGH_CHANGES, counted, is_register
from plfl.data.meters.faults import differences, without_jumps, without_outages
from plfl.data.meters.gaps import longest_gap, runs
from plfl.data.meters.layout import unit_of
from plfl.data.meters.stamps import (
    Instants,
    Times,
    clock_change,
    fixed_zone,
    instants,
    standard_offset,
)
from plfl.data.meters.tables import Table

STATIC = ("floor_area", "wall_area", "window_area")
"""Inputs that are one number per building."""
_POWER = ("kW", "W", "MW")
_KWH = {"kWh": 1.0, "Wh": 1e-3, "MWh": 1e3, "kW": 1.0, "W": 1e-3, "MW": 1e3}
_INTERVALS = (15, 30, 60)
_CHANCE = 1e-3
"""Missing readings make at least this fraction of the runs of equal steps that are there."""
_ENOUGH = 12
"""Longer steps that tell whether the readings beside them are larger."""
EXPECTED = ("outside since and until", "newest first", "missing", "gaps")
"""Changes to a meter that need no warning; `fill_gaps` warns of gaps."""


@dataclass
class Piece:
    """The readings of one meter in one file."""

    table: Table
    times: Times
    readings: pd.Series
    """Numbers, indexed by line and named like their column; NaN where a reading is missing."""
    inputs: pd.DataFrame
    """Inputs of the model in the same form, in the units of their features."""


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
    done: Counter[str] = field(default_factory=Counter)
    """Changes by name: number of readings."""

    @property
    def summary(self) -> str:
        """The meter in a few words: its readings, their span in standard time, and the changes."""
        local = pd.DatetimeIndex(self.load.index).tz_localize(None) + standard_offset(self.zone)
        done = [f"{what}: {number}" for what, number in self.done.items()]
        if gap := longest_gap(self.load.set_axis(local), self.minutes):
            done.append(f"longest gap: {gap}")
        return (
            f"{len(local)} readings, {local[0]:%Y-%m-%d} to {local[-1]:%Y-%m-%d}; "
            f"{', '.join(done) or 'nothing changed'}"
        )


def clean(
    name: str,
    pieces: Sequence[Piece],
    zone: ZoneInfo,
    meters: Meters,
    interval: int | None,
    weather: pd.DataFrame | None = None,
) -> Meter:
    """The series of a meter.

    Args:
        name: the name of the meter, for messages.
        pieces: its readings.
        zone: its time zone.
        meters: how its readings are understood.
        interval: minutes between the rows of the series; None: those between the readings.
        weather: further inputs, indexed by the time in UTC from which they are known.

    Raises:
        DataError: the readings are ambiguous; the message names the line and the key to set.
    """
    done: Counter[str] = Counter()
    here = _Place(name, pieces)
    placed = [in_utc(piece, zone, meters, done).assign(_piece=i) for i, piece in enumerate(pieces)]
    readings = _in_range(pd.concat(placed), zone, meters, done)
    if readings.empty:
        raise DataError(f"{pieces[0].table.path}: {name}: no readings; {here.leave_out}")
    readings = _in_order(here, readings, meters, done)
    values = readings["_value"].dropna()
    if len(values) < 2:
        raise DataError(f"{here(readings, 0)}: fewer than two readings; {here.leave_out}")
    standard = standard_offset(zone)
    minutes = _minutes(values, meters)
    readings = readings.assign(_minutes=minutes.reindex(readings.index).ffill().bfill())
    if meters.stamp == "start":
        readings.index += pd.to_timedelta(readings["_minutes"], unit="min").array
    known = readings[readings["_value"].notna()]
    raw = _raw(here, known, interval, standard)
    target = interval or raw
    if target not in _INTERVALS or target % raw:
        raise DataError(
            f"{here(known, 0)}: its readings are {raw:g} minutes apart"
            + (f", data.meters.interval is {target}" if interval else "")
            + "; set data.meters.interval to 15, 30 or 60, a multiple of that"
        )
    _refuse_changes(here, known, raw, target, done)
    _note_clocks(here, readings, raw, zone, done)
    for piece in pieces:
        _note_unit(piece, meters, done)
    _note_starts(readings, raw, meters, done)
    if "cumulative" not in meters.model_fields_set and len(values) > ENOUGH_CHANGES:
        _refuse_register(here, known)
    load = _load(readings, raw, target, standard, meters, done)
    if load.notna().sum() < 2:
        raise DataError(f"{here(known, 0)}: fewer than two readings; {here.leave_out}")
    if meters.cut:
        load = _without_long_gaps(load, target, meters, done)
    _check_values(here, readings, load, target, meters)
    inputs = _inputs(here, readings, raw, target, standard, pd.DatetimeIndex(load.index))
    if weather is not None:
        joined = _joined(here, weather, pd.DatetimeIndex(load.index), target, meters.max_gap)
        lengths = runs(joined.isna().any(axis=1).to_numpy())[1]
        done["without weather"] += int(lengths[lengths * target > meters.max_gap].sum())
        inputs = inputs.join(joined)
    gaps = runs(load.isna().to_numpy())[1]
    done["missing"] += int(gaps.sum())
    done["gaps"] += len(gaps)
    return Meter(load, inputs, target, zone, +done)


@dataclass(frozen=True)
class _Place:
    """A meter and its files, for messages."""

    name: str
    pieces: Sequence[Piece]

    def __call__(self, readings: pd.DataFrame, at: int) -> str:
        """The place of a reading in its file."""
        return f"{self.line(readings, at)}: {self.name}"

    def line(self, readings: pd.DataFrame, at: int) -> str:
        """The file and the line of a reading."""
        return self._piece(readings, at).table.at(readings["_line"].iloc[at])

    def typed(self, readings: pd.DataFrame, at: int) -> str:
        """A reading as written in its file."""
        piece = self._piece(readings, at)
        cell = piece.table.cells[str(piece.readings.name)].loc[readings["_line"].iloc[at]]
        return f"{cell:g}" if isinstance(cell, float) else str(cell).strip()

    def local(self, readings: pd.DataFrame, at: int) -> bool:
        """Whether the stamp of a reading is a local time."""
        return self._piece(readings, at).times.offset is None

    @property
    def leave_out(self) -> str:
        """The key that leaves the meter out."""
        return f"data.meters.leave_out: {flow([self.name])}"

    def _piece(self, readings: pd.DataFrame, at: int) -> Piece:
        return self.pieces[int(readings["_piece"].iloc[at])]


def in_utc(piece: Piece, zone: ZoneInfo, meters: Meters, done: Counter[str]) -> pd.DataFrame:
    """The readings of a piece at their stamps in UTC, in any order.

    Columns: the inputs, and each reading's `_value`, `_line` and stamp as written, without an
    offset (`_wall`). Padding in the hour that clocks skip in spring is left out.

    Raises:
        DataError: a reading is at a local time that does not exist.
    """
    stamps = pd.DatetimeIndex(piece.times.stamps.loc[piece.readings.index])
    readings = piece.inputs.assign(
        _value=piece.readings.to_numpy(),
        _line=piece.readings.index,
        _wall=stamps.tz_localize(None),
    )
    steps = np.diff(stamps.asi8)
    if (steps < 0).sum() > (steps > 0).sum():
        done["newest first"] += len(stamps)
        readings, stamps = readings.iloc[::-1], stamps[::-1]
    if stamps.tz is not None:
        _note_offset(piece, zone, done)
        return readings.set_axis(stamps)
    values = readings["_value"].to_numpy()
    is_reading = ~(np.isnan(values) | (values == 0))
    found = instants(stamps, zone, pd.Timedelta(0))
    if meters.stamp == "end" and ((found.skipped & is_reading).any() or found.lone.any()):
        # Some meters write the time at the start of the interval plus its length.
        usual = _usual(stamps[~np.isnan(values)]) or 0
        other = instants(stamps, zone, pd.Timedelta(minutes=usual))
        if not ((other.skipped & is_reading).any() or other.lone.any()):
            found = other
    if (real := found.skipped & is_reading).any():
        at = int(real.argmax())
        raise DataError(
            f"{piece.table.at(readings['_line'].iloc[at])}: {stamps[at]} does not exist in "
            f"{zone.key}, where clocks go forward; set data.meters.timezone to the meter's own "
            f"zone, or to a fixed one{fixed_zone(zone)} if its clock never changes"
        )
    done["padding of the hour that clocks skip dropped"] += int(found.skipped.sum())
    done["readings of the repeated hour that are there once"] += int(found.lone.sum())
    if (lost := found.twins & ~_in_line(stamps, found)).any():
        readings["_value"] = readings["_value"].mask(lost)
        done["readings of the repeated hour, whose order is lost, made gaps"] += int(lost.sum())
    return readings.set_axis(found.utc)[~found.skipped]


def _in_line(stamps: pd.DatetimeIndex, found: Instants) -> NDArray[np.bool_]:
    """Whether rows are in order of time, as far as rows within a day of them are concerned: then
    the first of two equal stamps in the repeated hour is the earlier one."""
    is_ordered = np.ones(len(stamps), bool)
    for day in np.unique(stamps[found.twins].normalize()):
        near = np.abs(stamps - day) <= pd.Timedelta(hours=36)
        if not (found.utc[near].is_monotonic_increasing or stamps[near].is_monotonic_increasing):
            is_ordered &= ~near
    return is_ordered


def _note_offset(piece: Piece, zone: ZoneInfo, done: Counter[str]) -> None:
    """Note UTC offsets that differ from those of the zone, which determines the time of day for
    models."""
    written = piece.times.offset
    if written and written != piece.times.stamps.min().tz_convert(zone).utcoffset():
        sign, size = "-" if written < timedelta(0) else "+", abs(written)
        what = f"UTC offset {sign}{size} in the stamps, {zone.key} in data.meters.timezone"
        done[f"{what} (is that the meter's zone?)"] += len(piece.readings)


def _note_unit(piece: Piece, meters: Meters, done: Counter[str]) -> None:
    """Note readings that the file says are in another unit than the one they are read in."""
    stated = unit_of(piece.table, str(piece.readings.name))
    if stated not in (None, meters.unit):
        what = f"readings in {stated} by their header, but read as {meters.unit}"
        done[f"{what} (is data.meters.unit right?)"] += len(piece.readings)


def _note_starts(readings: pd.DataFrame, minutes: int, meters: Meters, done: Counter[str]) -> None:
    """Note whole days of stamps that begin at midnight, unless the user says what stamps mark."""
    if "stamp" in meters.model_fields_set or meters.cumulative:
        return
    first, last = readings["_wall"].iloc[0], readings["_wall"].iloc[-1]
    end = last + pd.Timedelta(minutes=minutes)
    if first == first.normalize() and end == end.normalize():
        what = f"stamps from {first:%H:%M} to {last:%H:%M}, read as ends of intervals"
        done[f"{what} (should data.meters.stamp be start?)"] += len(readings)


def _in_range(
    readings: pd.DataFrame, zone: ZoneInfo, meters: Meters, done: Counter[str]
) -> pd.DataFrame:
    """The readings of the intervals between `meters.since` and `until`."""
    ends = pd.DatetimeIndex(readings.index)
    if meters.stamp == "start":
        ends += pd.Timedelta(minutes=_usual(ends) or 0)
    keep = np.ones(len(readings), dtype=bool)
    if meters.since is not None:
        keep &= ends > _instant(meters.since, zone, is_first=True)
    if meters.until is not None:
        keep &= ends <= _instant(meters.until, zone, is_first=False)
    done["outside since and until"] += int((~keep).sum())
    return readings if keep.all() else readings[keep]


def _instant(local: str, zone: ZoneInfo, is_first: bool) -> pd.Timestamp:
    """A local time as an instant; of the hour that clocks repeat, the first or the last one."""
    return pd.Timestamp(local).tz_localize(zone, ambiguous=is_first, nonexistent="shift_forward")


def _in_order(
    here: _Place, readings: pd.DataFrame, meters: Meters, done: Counter[str]
) -> pd.DataFrame:
    """Readings in order of time, one for each time."""
    if not readings.index.is_monotonic_increasing:
        if len(here.pieces) == 1:
            done["sorted"] += len(readings)
        readings = readings.sort_index(kind="stable")
    if readings.index.is_unique:
        return readings
    # A missing reading does not contradict another one.
    different = np.zeros(len(readings), dtype=bool)
    twice = readings.index.duplicated(keep=False)
    filled = readings["_value"][twice].groupby(level=0).transform("nunique")
    different[twice] = filled > 1
    if different.any() and meters.duplicates is None:
        raise DataError(_ambiguous(here, readings, different))
    has_value = readings["_value"].notna()
    known = readings[has_value | ~readings.index.isin(readings.index[has_value])]
    rule = meters.duplicates or "first"
    single = known[~known.index.duplicated(keep="last" if rule == "last" else "first")]
    if rule == "mean":
        single = single.assign(_value=known["_value"].groupby(level=0).mean())
    unequal = int(readings.index[different].nunique())
    equal = len(readings) - len(single) - int(different.sum()) + unequal
    done["equal duplicates dropped"] += equal
    done[f"times with different readings ({rule} kept)"] += unequal
    return single


def _ambiguous(here: _Place, readings: pd.DataFrame, different: NDArray[np.bool_]) -> str:
    at = int(different.argmax())
    wall, times = readings["_wall"].iloc[at], len(set(readings.index[different]))
    fixed = clock_change(wall) if here.local(readings, at) else None
    clock = (
        f"; if the meter has daylight saving time, set data.meters.timezone ({fixed})"
        if fixed
        else ""
    )
    return (
        f"{here.line(readings, at + 1)}: differs from "
        f"{here.line(readings, at)} for the same time, {wall} ({counted(times, 'such time')}); "
        f"choose data.meters.duplicates: first, last or mean{clock}; if several columns or files "
        "are mixed up, set data.meters.columns.load"
    )


def _usual(index: pd.DatetimeIndex) -> float | None:
    """The most common step between the times of an index in minutes, in whatever order they are;
    None if there is none."""
    steps, counts = np.unique(np.diff(np.unique(_seconds(index))), return_counts=True)
    return float(steps[counts.argmax()]) / 60 if len(steps) else None


def _seconds(index: pd.DatetimeIndex) -> NDArray[np.float64]:
    """Seconds since 1970."""
    return np.asarray(index.as_unit("us").asi8 / 1e6)


def _minutes(values: pd.Series, meters: Meters) -> pd.Series:
    """The length of the interval of each reading in minutes, given known readings in order.

    A step between two readings is an interval if it is the usual step; if steps of its length
    follow each other more often than missing readings would make them; or if the readings beside
    such steps are larger in proportion. Other steps span missing readings.
    """
    index = pd.DatetimeIndex(values.index)
    is_start = meters.stamp == "start"
    steps = np.diff(_seconds(index)) / 60
    usual = _usual(index) or 0
    is_interval = steps == usual
    if is_interval.all():
        return pd.Series(usual, index)
    run = np.cumsum(np.concatenate([[0], steps[1:] != steps[:-1]]))
    follow = np.bincount(run)[run]
    lengths, of_length, counts = np.unique(steps, return_inverse=True, return_counts=True)
    by_chance = len(steps) * (counts[of_length] / len(steps)) ** follow
    alike = of_length * (len(steps) + 1) + follow
    _, of_alike, steps_alike = np.unique(alike, return_inverse=True, return_counts=True)
    there = steps_alike[of_alike] / follow  # runs of this length of steps of this length
    found = np.isin(steps, steps[(by_chance < _CHANCE * there) & (follow >= 4)])
    is_interval |= found & (follow >= 4) | (steps < usual) & (follow >= 2)
    if not meters.cumulative and meters.unit not in _POWER:
        energy = pd.Series(values.to_numpy()[:-1] if is_start else values.to_numpy()[1:])
        beside = energy.where(steps == usual)
        ratio = energy / (beside.ffill() + beside.bfill()) * 2
        for length in lengths[(lengths > usual) & (counts >= _ENOUGH)]:
            if ratio[steps == length].median() > np.sqrt(length / usual):
                is_interval |= steps == length
    ends = [np.inf]
    reach = np.concatenate([steps, ends] if is_start else [ends, steps])
    known = np.concatenate([is_interval, [False]] if is_start else [[False], is_interval])
    minutes = pd.Series(np.where(known, reach, np.nan), index)
    minutes = minutes.ffill().bfill() if is_start else minutes.bfill().ffill()
    # A reading does not cover the one before it.
    return minutes.where((reach >= minutes) | (reach < minutes.min()), reach)


def _raw(here: _Place, readings: pd.DataFrame, target: int | None, standard: timedelta) -> int:
    """The shortest of the intervals, in minutes, whose ends must lie on a regular grid of the
    standard time."""
    lengths, counts = np.unique(readings["_minutes"], return_counts=True)
    usual, step = float(lengths[counts.argmax()]), float(lengths[0])
    if usual > max(_INTERVALS) or step != round(step):
        raise DataError(
            f"{here(readings, 0)}: its readings are {usual:g} minutes apart; {here.leave_out}, "
            "or export it with readings every 15, 30 or 60 minutes"
        )
    index = pd.DatetimeIndex(readings.index) + standard
    minutes = _seconds(index) / 60
    phases = minutes % step
    values, counts = np.unique(phases, return_counts=True)
    phase = values[counts.argmax()]
    # Half hours may end at :15 and :45, unless they are summed.
    is_summed = target is not None and target != step
    allowed = phase % (step if is_summed else min(step, 15)) == 0
    off = (phases != phase) | (not allowed)
    if len(lengths) > 1:
        off |= (readings["_minutes"] % step > 0) | (minutes % readings["_minutes"] > 0)
    if off.any():
        at = int(np.argmax(off))
        raise DataError(
            f"{here(readings, at)}: {readings['_wall'].iloc[at]} is off the grid of {step:g} "
            f"minutes ({counted(int(off.sum()), 'such line')}); round or remove the stamps, or "
            f"{here.leave_out}"
        )
    return round(step)


def _refuse_changes(
    here: _Place, readings: pd.DataFrame, raw: int, target: int, done: Counter[str]
) -> None:
    """Refuse intervals that are longer than the rows of the series; note others that change."""
    minutes = readings["_minutes"].to_numpy()
    changes = np.flatnonzero(np.diff(minutes)) + 1
    if not len(changes):
        return
    longest = int(minutes.max())
    if target % longest == 0:
        done[f"readings of up to {longest} minutes among those of {raw}"] += int(
            (minutes > raw).sum()
        )
        return
    at = int(changes[0])
    remedy = f"set data.meters.interval: {longest}"
    if longest not in _INTERVALS:
        remedy = "leave one part out with data.meters.since or data.meters.until"
    raise DataError(
        f"{here(readings, at)}: the interval changes from {minutes[at - 1]:g} to "
        f"{minutes[at]:g} minutes at {readings['_wall'].iloc[at]} "
        f"({counted(len(changes), 'change')}); {remedy}"
    )


def _refuse_register(here: _Place, readings: pd.DataFrame) -> None:
    """Ask whether readings that look like those of a cumulative register are."""
    if not is_register(readings["_value"]):
        return
    falls = (np.diff(readings["_value"]) < 0).any()
    often = "hardly ever decrease" if falls else "never decrease"
    raise DataError(
        f"{here(readings, 0)}: the readings {often}, like those of a cumulative register; set "
        "data.meters.cumulative: true, or data.meters.cumulative: false if they are loads"
    )


def _note_clocks(
    here: _Place, readings: pd.DataFrame, minutes: int, zone: ZoneInfo, done: Counter[str]
) -> None:
    """Note gaps of an hour where clocks go forward in some zone: a fixed zone may be wrong."""
    walls = pd.DatetimeIndex(readings["_wall"])
    if len({walls[0].replace(month=month, day=1, tzinfo=zone).utcoffset() for month in (1, 7)}) > 1:
        return  # the meter's clock does change
    steps = np.diff(_seconds(pd.DatetimeIndex(readings.index))) / 60
    for at in map(int, np.flatnonzero(steps == minutes + 60) + 1):
        clock = clock_change(walls[at])
        if clock and here.local(readings, at):
            what = f"gap of an hour when clocks change in {clock}"
            done[f"{what} (is data.meters.timezone right?)"] += 1


def _load(
    readings: pd.DataFrame,
    raw: int,
    target: int,
    standard: timedelta,
    meters: Meters,
    done: Counter[str],
) -> pd.Series:
    """kWh in each interval from the first reading to the last one, NaN in gaps and faults."""
    known = readings[readings["_value"].notna()]
    outside = (readings.index < known.index[0]) | (readings.index > known.index[-1])
    done["missing at the beginning or end"] += int(outside.sum()) - meters.cumulative
    values, minutes = known["_value"], known["_minutes"]
    if meters.cumulative:
        values = differences(values, done)
        minutes = pd.Series(
            [raw, *np.diff(_seconds(pd.DatetimeIndex(values.index))) / 60], values.index
        )
        # What is known of a longer time counts if it belongs to one row.
        ends = _rows(values.index, target, standard)
        starts = _rows(
            values.index - pd.to_timedelta(minutes - raw, unit="min").array, target, standard
        )
        values = values.mask((minutes > raw) & (starts != ends))
    load = _on_grid(values, minutes, raw, is_power=meters.unit in _POWER)
    hours = raw / 60 if meters.unit in _POWER else 1.0
    load *= _KWH[meters.unit or "kWh"] * hours
    if meters.max_jump is not None:
        load = _faults(load, without_jumps(load, meters.max_jump), "jumps made gaps", done)
    if raw != target:
        # A gap if one of the readings is missing.
        load = load.groupby(_rows(load.index, target, standard)).sum(min_count=target // raw)
        load = load.rename_axis("timestamp").asfreq(f"{target}min")
    if meters.zero_run is not None:
        kept = without_outages(load, target, meters.zero_run)
        load = _faults(load, kept, "zeros of outages made gaps", done)
    rows = len(load)
    load = load.loc[load.first_valid_index() : load.last_valid_index()]
    done["missing at the beginning or end"] += rows - len(load)
    return load


def _rows(index: pd.Index, minutes: int, standard: timedelta) -> pd.DatetimeIndex:
    """The ends of the rows of a series, which begin at whole multiples of their length in standard
    time, to which the ends of shorter intervals belong."""
    return (pd.DatetimeIndex(index) + standard).ceil(f"{minutes}min") - standard


def _on_grid(values: pd.Series, minutes: pd.Series, raw: int, is_power: bool) -> pd.Series:
    """Readings on a regular grid. Of an interval that is longer than its step, all parts have the
    same energy; NaN where nothing is known."""
    parts = (minutes / raw).astype(int).to_numpy()
    before = np.concatenate([np.arange(count)[::-1] for count in parts]) * raw
    ends = pd.DatetimeIndex(np.repeat(values.index, parts)) - pd.to_timedelta(before, unit="min")
    spread = values.to_numpy() if is_power else values.to_numpy() / parts
    return pd.Series(np.repeat(spread, parts), ends.rename("timestamp"), name="load").asfreq(
        f"{raw}min"
    )


def _faults(load: pd.Series, kept: pd.Series, what: str, done: Counter[str]) -> pd.Series:
    """The load without its faults, which are counted."""
    done[what] += int(kept.isna().sum() - load.isna().sum())
    return kept


def _inputs(
    here: _Place,
    readings: pd.DataFrame,
    raw: int,
    target: int,
    standard: timedelta,
    index: pd.DatetimeIndex,
) -> pd.DataFrame:
    """The inputs in the rows of the load: means of the known values in an interval, and constants.

    Raises:
        DataError: a constant has no value, or several.
    """
    inputs = readings[list(here.pieces[0].inputs)]
    constants = {
        role: _constant(here, readings, role) for role in map(str, inputs) if role in STATIC
    }
    if raw != target:
        inputs = inputs.groupby(_rows(inputs.index, target, standard)).mean()
    return inputs.reindex(index).assign(**constants)


def _joined(
    here: _Place, weather: pd.DataFrame, index: pd.DatetimeIndex, minutes: int, max_gap: int
) -> pd.DataFrame:
    """The weather in the rows of the load: means of the values that became known in each interval.

    The last values hold for up to `max_gap` minutes, so that the newest loads are not lost.

    Raises:
        DataError: there are none.
    """
    inside = weather[weather.index > index[0] - pd.Timedelta(minutes=minutes)]
    inside = inside[inside.index <= index[-1]]
    found = inside.groupby(index[index.searchsorted(inside.index)]).mean().reindex(index)
    if empty := [str(role) for role in found if found[role].isna().all()]:
        times = f"{index[0]:%Y-%m-%d} to {index[-1]:%Y-%m-%d}"
        raise DataError(
            f"{here.pieces[0].table.path}: {here.name}: data.meters.weather has no "
            f"{', '.join(empty)} from {times}; give the weather of that time, or {here.leave_out}"
        )
    last = int(np.flatnonzero(found.notna().all(axis=1))[-1])
    if (len(found) - 1 - last) * minutes <= max_gap:
        found.iloc[last:] = found.iloc[last:].ffill()
    return found


def _constant(here: _Place, readings: pd.DataFrame, role: str) -> float:
    """The only value of a static input, given on every line or once."""
    values = readings[role].to_numpy()
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        raise DataError(
            f"{here(readings, 0)}: {role} is empty; give it once, or remove it from "
            "data.meters.columns"
        )
    first = values[known[0]]
    if (other := known[values[known] != first]).size:
        raise DataError(
            f"{here(readings, int(other[0]))}: {role} changes from {first:g} to "
            f"{values[other[0]]:g}; it must be one number per building"
        )
    return float(first)


def _without_long_gaps(
    load: pd.Series, minutes: int, meters: Meters, done: Counter[str]
) -> pd.Series:
    """The longest part without a gap that the study would not fill."""
    starts, lengths = runs(load.isna().to_numpy())
    long = lengths * minutes > meters.max_gap
    firsts = [0, *(starts + lengths)[long].tolist()]
    ends = [*starts[long].tolist(), len(load)]
    first, end = max(zip(firsts, ends, strict=True), key=lambda part: part[1] - part[0])
    kept = load.iloc[first:end]
    lost = int(load.notna().sum() - kept.notna().sum())
    done["readings outside of the longest part cut off"] += lost
    return kept


def _check_values(
    here: _Place, readings: pd.DataFrame, load: pd.Series, minutes: int, meters: Meters
) -> None:
    """Refuse negative and constant loads."""
    negative = np.asarray(load < 0)
    if negative.any() and not meters.allow_negative:
        end = load.index[negative][0]
        inside = readings.index > end - pd.Timedelta(minutes=minutes)
        inside &= readings.index <= end
        at = int(np.where(inside, readings["_value"], np.inf).argmin())
        raise DataError(
            f"{here(readings, at)}: {counted(int(negative.sum()), 'negative value')}, first "
            f"{here.typed(readings, at)}; set data.meters.allow_negative: true, "
            f"data.meters.missing: [{readings['_value'].iloc[at]:.15g}], or {here.leave_out}"
        )
    if load.nunique() < 2:
        raise DataError(
            f"{here(readings, 0)}: all values are {load.dropna().iloc[0]:g} kWh; {here.leave_out}"
        )
