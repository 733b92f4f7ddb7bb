"""From the raw readings of one meter to a regular series in kWh at interval ends in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.data.checks import counted
from plfl.data.importing.options import Options
from plfl.data.importing.tables import Table
from plfl.data.importing.times import Times, instants
from plfl.data.meters.faults import without_jumps, without_outages
from plfl.data.meters.gaps import runs
from plfl.data.meters.stamps import clock_change, fixed_zone
from plfl.errors import DataError

_KWH = {"kWh": 1.0, "Wh": 1e-3, "kW": 1.0, "W": 1e-3}
_INTERVALS = (15, 30, 60)


@dataclass
class Piece:
    """The readings of one meter in one file."""

    table: Table
    times: Times
    readings: pd.Series
    """Numbers, indexed by line; NaN where a reading is missing."""
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
    done: dict[str, int] = field(default_factory=dict)
    """What was done, by name: number of readings."""
    longest: int = 0
    """Longest gap in minutes."""


def clean(name: str, pieces: list[Piece], zone: ZoneInfo, options: Options) -> Meter:
    """The series of a meter.

    Raises:
        DataError: the readings need a decision; the message names the line and the option.
    """
    done: dict[str, int] = {}
    readings = pd.concat([_in_utc(piece, zone, options, done) for piece in pieces])
    readings = _in_range(readings, zone, options, done)
    if readings.empty:
        raise DataError(f"{pieces[0].table.path}: {name}: no readings; --leave-out {name!r}")
    readings = _in_order(name, readings, options, done, len(pieces))
    raw = _interval(name, readings, options.interval)
    target = options.interval or raw
    if target not in _INTERVALS or target % raw:
        raise DataError(
            f"{_where(name, readings, 0)}: its readings are {raw:g} minutes apart"
            + (f", --interval is {target}" if options.interval else "")
            + "; set --interval to 15, 30 or 60, a multiple of that"
        )
    _note_clocks(readings, raw, zone, done)
    load = _energy(readings, raw, options, done)
    if options.max_jump is not None:
        load = _faults(load, without_jumps(load, options.max_jump), "jumps made gaps", done)
    load = _sums(load, raw, target)
    if options.zero_run is not None:
        kept = without_outages(load, target, options.zero_run)
        load = _faults(load, kept, "zeros of outages made gaps", done)
    load = load.loc[load.first_valid_index() : load.last_valid_index()]
    if load.notna().sum() < 2:
        raise DataError(
            f"{_where(name, readings, 0)}: fewer than two readings; --leave-out {name!r}"
        )
    if options.cut:
        load = _without_long_gaps(load, target, options, done)
    _check_values(name, readings, load, options)
    inputs = _means(readings[list(pieces[0].inputs)], raw, target).reindex(load.index)
    gaps = runs(load.isna().to_numpy())[1]
    if missing := int(gaps.sum()):
        done["missing"] = missing
        done["gaps"] = len(gaps)
    return Meter(load, inputs, target, done, int(gaps.max(initial=0)) * target)


def _in_range(
    readings: pd.DataFrame, zone: ZoneInfo, options: Options, done: dict[str, int]
) -> pd.DataFrame:
    """The readings of the intervals between `options.since` and `until`."""
    keep = np.ones(len(readings), dtype=bool)
    if options.since is not None:
        keep &= readings.index > pd.Timestamp(options.since, tz=zone)
    if options.until is not None:
        keep &= readings.index <= pd.Timestamp(options.until, tz=zone)
    _count(done, "readings before --from or after --until", int((~keep).sum()))
    return readings[keep]


def _faults(load: pd.Series, kept: pd.Series, what: str, done: dict[str, int]) -> pd.Series:
    """The load without its faults, which are counted."""
    _count(done, what, int(kept.isna().sum() - load.isna().sum()))
    return kept


def _means(inputs: pd.DataFrame, raw: int, target: int) -> pd.DataFrame:
    """Means over longer intervals, of what is known there."""
    if raw == target:
        return inputs
    ends = pd.DatetimeIndex(inputs.index).ceil(f"{target}min")
    return inputs.groupby(ends).mean()


def _in_utc(piece: Piece, zone: ZoneInfo, options: Options, done: dict[str, int]) -> pd.DataFrame:
    """Columns `value`, `line`, `path` of a piece, indexed by interval ends in UTC."""
    stamps = piece.times.stamps.loc[piece.readings.index]
    values, lines = piece.readings.to_numpy(), stamps.index.to_numpy()
    inputs = piece.inputs.to_numpy(float)
    index = pd.DatetimeIndex(stamps)
    steps = np.diff(index.asi8)
    if (steps < 0).sum() > (steps > 0).sum():
        _count(done, "newest first", len(index))
        index, values, lines, inputs = index[::-1], values[::-1], lines[::-1], inputs[::-1]
    length = pd.Timedelta(minutes=_usual(index) or 0)
    shift = length if options.stamp == "start" else pd.Timedelta(0)
    keep = np.ones(len(index), dtype=bool)
    wall = index
    if index.tz is None:
        found = instants(index, zone, pd.Timedelta(0))
        if options.stamp == "end" and (found.skipped.any() or found.lone.any()):
            # Some meters write the start of the interval plus its length.
            other = instants(index, zone, length)
            if not (other.skipped.any() or other.lone.any()):
                found = other
        padding = found.skipped & (np.isnan(values) | (values == 0))
        if (real := found.skipped & ~padding).any():
            at = int(real.argmax())
            raise DataError(
                f"{piece.table.at(lines[at])}: {index[at]} does not exist in {zone.key}, where "
                "clocks go forward; set --timezone to the meter's own zone, or to a fixed one"
                f"{fixed_zone(zone, index[at].year)} if its clock never changes"
            )
        _count(done, "padding of the hour that clocks skip dropped", int(padding.sum()))
        _count(done, "readings of the repeated hour that are there once", int(found.lone.sum()))
        index, keep = found.utc, ~padding
    return pd.DataFrame(
        {
            "value": values,
            "line": lines,
            "wall": wall.tz_localize(None),
            "local": wall.tz is None,
            "at": piece.table.at(""),
            **dict(zip(piece.inputs, inputs.T, strict=True)),
        },
        index=index + shift,
    )[keep]


def _in_order(
    name: str,
    readings: pd.DataFrame,
    options: Options,
    done: dict[str, int],
    pieces: int,
) -> pd.DataFrame:
    """Readings in the order of time, one for each."""
    if not readings.index.is_monotonic_increasing:
        if pieces == 1:
            _count(done, "sorted", len(readings))
        readings = readings.sort_index(kind="stable")
    twice = readings.index.duplicated(keep=False)
    if not twice.any():
        return readings
    # A missing reading is no other reading.
    filled = readings["value"].groupby(level=0).transform("nunique")
    different = np.asarray(filled > 1)
    if different.any() and options.duplicates is None:
        at = int(different.argmax())
        here, there = readings.iloc[at], readings.iloc[at + 1]
        fixed = clock_change(here["wall"]) if here["local"] else None
        clock = (
            f"; if the meter has daylight saving time, set --timezone ({fixed})" if fixed else ""
        )
        raise DataError(
            f"{_where(name, readings, at)}: {here['value']:g} at {here['wall']}, but "
            f"{there['value']:g} in {there['at']}{there['line']} "
            f"({len(set(readings.index[different]))} such times); choose with --duplicates first, "
            f"last or mean{clock}; if several columns or files are mixed up, set --load"
        )
    known = readings[readings["value"].notna() | ~readings.index.isin(_known(readings))]
    rule = options.duplicates or "first"
    if rule == "mean":
        means = known["value"].groupby(level=0).mean()
        single = known[~known.index.duplicated()].assign(value=means)
    else:
        single = known[~known.index.duplicated(keep="last" if rule == "last" else "first")]
    unequal = int(readings.index[different].nunique())
    _count(
        done,
        "equal duplicates dropped",
        len(readings) - len(single) - int(different.sum()) + unequal,
    )
    _count(done, f"times with different readings ({rule} kept)", unequal)
    return single


def _known(readings: pd.DataFrame) -> pd.Index:
    return readings.index[readings["value"].notna().to_numpy()]


def _usual(index: pd.DatetimeIndex) -> float | None:
    """The most common step in minutes."""
    steps = pd.Series(np.diff(_seconds(index)))
    counts = steps[steps > 0].value_counts()
    return float(counts.index[counts == counts.max()].min()) / 60 if len(counts) else None


def _seconds(index: pd.DatetimeIndex) -> NDArray[np.float64]:
    """Seconds since 1970."""
    return np.asarray(index.as_unit("us").asi8 / 1e6)


def _interval(name: str, readings: pd.DataFrame, target: int | None) -> int:
    """Minutes between the readings, which must lie on a regular grid."""
    usual = _usual(pd.DatetimeIndex(readings.index))
    if usual is None or usual != round(usual):
        raise DataError(
            f"{_where(name, readings, 0)}: its readings are "
            f"{'too few' if usual is None else f'{usual:g} minutes apart'}; --leave-out {name!r}, "
            "or resample the file to 15, 30 or 60 minutes"
        )
    step = round(usual)
    phases = (_seconds(pd.DatetimeIndex(readings.index)) / 60) % step
    phase = pd.Series(phases).value_counts().index[0]
    # Half hours may end at :15 and :45, unless they are summed.
    allowed = phase % (15 if (target or step) == step else step) % step == 0
    off = np.asarray((phases != phase) | (not allowed))
    if off.any():
        at = int(off.argmax())
        raise DataError(
            f"{_where(name, readings, at)}: {readings['wall'].iloc[at]} is off the grid of {step} "
            f"minutes ({int(off.sum())} such lines); round or remove the stamps, or "
            f"--leave-out {name!r}"
        )
    return step


def _note_clocks(
    readings: pd.DataFrame, minutes: int, zone: ZoneInfo, done: dict[str, int]
) -> None:
    """Note gaps of an hour where clocks go forward in some zone: the fixed one may be wrong."""
    if not readings["local"].all():
        return
    walls = pd.DatetimeIndex(readings["wall"])
    if len({walls[0].replace(month=month, day=1, tzinfo=zone).utcoffset() for month in (1, 7)}) > 1:
        return  # the meter's clock does change
    steps = np.diff(readings.index.to_numpy()) / np.timedelta64(1, "m")
    for at in map(int, np.flatnonzero(steps == minutes + 60) + 1):
        if clock := clock_change(walls[at]):
            _count(done, f"gap of an hour when clocks change in {clock} (is --timezone right?)", 1)


def _energy(
    readings: pd.DataFrame, minutes: int, options: Options, done: dict[str, int]
) -> pd.Series:
    """kWh in each interval of a regular grid, NaN in gaps."""
    grid = pd.date_range(
        readings.index[0], readings.index[-1], freq=f"{minutes}min", name="timestamp"
    )
    load = readings["value"].reindex(grid).rename("load")
    if options.register:
        load = load.diff()
        back = np.asarray(load < 0)
        _count(done, "steps back of the register made gaps", int(back.sum()))
        load = load.mask(back)
    hours = minutes / 60 if options.unit in ("kW", "W") else 1.0
    return load * (_KWH[options.unit] * hours)


def _sums(load: pd.Series, raw: int, target: int) -> pd.Series:
    """Sums over longer intervals; a gap where one of the readings is missing."""
    if raw == target:
        return load
    ends = pd.DatetimeIndex(load.index).ceil(f"{target}min")
    return (
        load.groupby(ends)
        .sum(min_count=target // raw)
        .rename_axis("timestamp")
        .asfreq(f"{target}min")
    )


def _without_long_gaps(
    load: pd.Series, minutes: int, options: Options, done: dict[str, int]
) -> pd.Series:
    """The longest part without a gap that the study would not fill."""
    starts, lengths = runs(load.isna().to_numpy())
    long = lengths * minutes > options.max_gap
    edges = [0]
    for start, length in zip(starts[long], lengths[long], strict=True):
        edges += [int(start), int(start + length)]
    edges.append(len(load))
    parts = list(zip(edges[::2], edges[1::2], strict=True))
    first, last = max(parts, key=lambda part: part[1] - part[0])
    kept = load.iloc[first:last]
    _count(
        done,
        "readings outside of the longest part cut off",
        int(load.notna().sum() - kept.notna().sum()),
    )
    return kept


def _check_values(name: str, readings: pd.DataFrame, load: pd.Series, options: Options) -> None:
    negative = np.asarray(load < 0)
    if negative.any() and not options.allow_negative:
        first = load.index[negative][0]
        where = _where(name, readings, int(readings.index.searchsorted(first)))
        raise DataError(
            f"{where}: {counted(int(negative.sum()), 'negative value')}, "
            f"first {load[first]:g} kWh; set --allow-negative, --missing VALUE, or "
            f"--leave-out {name!r}"
        )
    if load.nunique() < 2:
        raise DataError(
            f"{name}: all values are {load.dropna().iloc[0]:g} kWh; --leave-out {name!r}"
        )


def _where(name: str, readings: pd.DataFrame, at: int) -> str:
    row = readings.iloc[at]
    return f"{row['at']}{row['line']}: {name}"


def _count(done: dict[str, int], what: str, number: int) -> None:
    if number:
        done[what] = done.get(what, 0) + number
