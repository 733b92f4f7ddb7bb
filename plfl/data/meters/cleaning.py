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
from plfl.data.checks import counted
from plfl.data.meters.faults import without_jumps, without_outages
from plfl.data.meters.gaps import longest_gap, runs
from plfl.data.meters.layout import unit_of
from plfl.data.meters.stamps import Times, clock_change, fixed_zone, instants, standard_offset
from plfl.data.meters.tables import Table

STATIC = ("floor_area", "wall_area", "window_area")
"""Inputs that are one number per building."""
_KWH = {"kWh": 1.0, "Wh": 1e-3, "MWh": 1e3, "kW": 1.0, "W": 1e-3, "MW": 1e3}
_INTERVALS = (15, 30, 60)
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
        standard = standard_offset(self.zone, self.load.index[0].year)
        local = pd.DatetimeIndex(self.load.index).tz_localize(None) + standard
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
    placed = [at_ends(piece, zone, meters, done).assign(_piece=i) for i, piece in enumerate(pieces)]
    readings = _in_range(pd.concat(placed), zone, meters, done)
    if readings.empty:
        raise DataError(f"{pieces[0].table.path}: {name}: no readings; {here.leave_out}")
    readings = _in_order(here, readings, meters, done)
    raw = _step(here, readings, interval)
    target = interval or raw
    if target not in _INTERVALS or target % raw:
        raise DataError(
            f"{here(readings, 0)}: its readings are {raw:g} minutes apart"
            + (f", data.meters.interval is {target}" if interval else "")
            + "; set data.meters.interval to 15, 30 or 60, a multiple of that"
        )
    _note_clocks(here, readings, raw, zone, done)
    for piece in pieces:
        _note_unit(piece, meters, done)
    _note_starts(readings, raw, meters, done)
    load = _load(readings, raw, target, meters, done)
    if load.notna().sum() < 2:
        raise DataError(f"{here(readings, 0)}: fewer than two readings; {here.leave_out}")
    if meters.cut:
        load = _without_long_gaps(load, target, meters, done)
    _check_values(here, readings, load, target, meters)
    inputs = _inputs(here, readings, raw, target, pd.DatetimeIndex(load.index))
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


def at_ends(piece: Piece, zone: ZoneInfo, meters: Meters, done: Counter[str]) -> pd.DataFrame:
    """The readings of a piece at the ends of their intervals in UTC.

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
    length = pd.Timedelta(minutes=_usual(stamps) or 0)
    shift = length if meters.stamp == "start" else pd.Timedelta(0)
    if stamps.tz is not None:
        _note_offset(piece, stamps[0], zone, done)
        return readings.set_axis(stamps + shift)
    found = instants(stamps, zone, pd.Timedelta(0))
    if meters.stamp == "end" and (found.skipped.any() or found.lone.any()):
        # Some meters write the time at the start of the interval plus its length.
        other = instants(stamps, zone, length)
        if not (other.skipped.any() or other.lone.any()):
            found = other
    empty = readings["_value"].isna() | (readings["_value"] == 0)
    padding = found.skipped & empty.to_numpy()
    if (real := found.skipped & ~padding).any():
        at = int(real.argmax())
        raise DataError(
            f"{piece.table.at(readings['_line'].iloc[at])}: {stamps[at]} does not exist in "
            f"{zone.key}, where clocks go forward; set data.meters.timezone to the meter's own "
            f"zone, or to a fixed one{fixed_zone(zone, stamps[at].year)} if its clock never changes"
        )
    done["padding of the hour that clocks skip dropped"] += int(padding.sum())
    done["readings of the repeated hour that are there once"] += int(found.lone.sum())
    return readings.set_axis(found.utc + shift)[~padding]


def _note_offset(piece: Piece, first: pd.Timestamp, zone: ZoneInfo, done: Counter[str]) -> None:
    """Note UTC offsets that differ from those of the zone, which determines the time of day for
    models."""
    written = piece.times.offset
    if written and written != first.tz_convert(zone).utcoffset():
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
    keep = np.ones(len(readings), dtype=bool)
    if meters.since is not None:
        keep &= readings.index > _instant(meters.since, zone, is_first=True)
    if meters.until is not None:
        keep &= readings.index <= _instant(meters.until, zone, is_first=False)
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
    """The most common step in minutes."""
    steps, counts = np.unique(np.diff(_seconds(index)), return_counts=True)
    steps, counts = steps[steps > 0], counts[steps > 0]
    return float(steps[counts.argmax()]) / 60 if len(steps) else None


def _seconds(index: pd.DatetimeIndex) -> NDArray[np.float64]:
    """Seconds since 1970."""
    return np.asarray(index.as_unit("us").asi8 / 1e6)


def _step(here: _Place, readings: pd.DataFrame, target: int | None) -> int:
    """Minutes between the readings, which must lie on a regular grid."""
    index = pd.DatetimeIndex(readings.index)
    usual = _usual(index)
    if usual is None or usual != round(usual) or usual > max(_INTERVALS):
        raise DataError(
            f"{here(readings, 0)}: its readings are "
            f"{'too few' if usual is None else f'{usual:g} minutes apart'}; {here.leave_out}, "
            "or export it with readings every 15, 30 or 60 minutes"
        )
    step = round(usual)
    phases = (_seconds(index) / 60) % step
    values, counts = np.unique(phases, return_counts=True)
    phase = values[counts.argmax()]
    # Half hours may end at :15 and :45, unless they are summed.
    is_summed = target is not None and target != step
    allowed = phase % (step if is_summed else min(step, 15)) == 0
    off = (phases != phase) | (not allowed)
    if off.any():
        at = int(off.argmax())
        raise DataError(
            f"{here(readings, at)}: {readings['_wall'].iloc[at]} is off the grid of {step} "
            f"minutes ({counted(int(off.sum()), 'such line')}); round or remove the stamps, or "
            f"{here.leave_out}"
        )
    return step


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
    readings: pd.DataFrame, raw: int, target: int, meters: Meters, done: Counter[str]
) -> pd.Series:
    """kWh in each interval from the first reading to the last one, NaN in gaps and faults."""
    load = _energy(readings, raw, meters, done)
    if meters.max_jump is not None:
        load = _faults(load, without_jumps(load, meters.max_jump), "jumps made gaps", done)
    load = _sums(load, raw, target)
    if meters.zero_run is not None:
        kept = without_outages(load, target, meters.zero_run)
        load = _faults(load, kept, "zeros of outages made gaps", done)
    rows = len(load)
    load = load.loc[load.first_valid_index() : load.last_valid_index()]
    done["missing at the beginning or end"] += rows - len(load) - meters.cumulative
    return load


def _energy(readings: pd.DataFrame, minutes: int, meters: Meters, done: Counter[str]) -> pd.Series:
    """kWh in each interval of a regular grid, NaN in gaps."""
    grid = pd.date_range(
        readings.index[0], readings.index[-1], freq=f"{minutes}min", name="timestamp"
    )
    load = readings["_value"].reindex(grid).rename("load")
    if meters.cumulative:
        load = load.diff()
        back = np.asarray(load < 0)
        done["steps back of the register made gaps"] += int(back.sum())
        load = load.mask(back)
    hours = minutes / 60 if meters.unit in ("kW", "W", "MW") else 1.0
    return load * (_KWH[meters.unit or "kWh"] * hours)


def _faults(load: pd.Series, kept: pd.Series, what: str, done: Counter[str]) -> pd.Series:
    """The load without its faults, which are counted."""
    done[what] += int(kept.isna().sum() - load.isna().sum())
    return kept


def _sums(load: pd.Series, raw: int, target: int) -> pd.Series:
    """Sums over longer intervals; a gap if one of the readings is missing."""
    if raw == target:
        return load
    ends = pd.DatetimeIndex(load.index).ceil(f"{target}min")
    return (
        load.groupby(ends)
        .sum(min_count=target // raw)
        .rename_axis("timestamp")
        .asfreq(f"{target}min")
    )


def _inputs(
    here: _Place, readings: pd.DataFrame, raw: int, target: int, index: pd.DatetimeIndex
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
        inputs = inputs.groupby(pd.DatetimeIndex(inputs.index).ceil(f"{target}min")).mean()
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
