"""The inputs of public models: they mean the same for every meter, at every place.

A public model is trained on meters of one place and forecasts meters of another. So its inputs have
no unit, no year, no month or season (which hemispheres have at different times), no holiday of a
country and no type of building: loads are relative to a base load of the same meter, over the
meter's own mean load; the calendar is the hour of the day and the day of the week in the meter's
own time. What is not known, because the meter is young or has a gap, is NaN, which trees can read.

Loads are hourly. A *window* is a row `last`, the last reading that is known when the forecast is
made, and a `lead`: the forecast is for the row `last + lead`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plfl.base.array_types import Floats as Floats

Integers = NDArray[np.int64]
LeadTime = Literal["hour", "day"]
"""What a model forecasts: the next hour, or any of the next 24."""

HOURS_PER_DAY = 24
HOURS_PER_WEEK = 7 * HOURS_PER_DAY
CONTEXT = 4 * HOURS_PER_WEEK
"""Hours before a forecast that its inputs reach back."""
LEAD_HOURS: dict[LeadTime, int] = {"hour": 1, "day": HOURS_PER_DAY}
"""The largest lead, in hours."""
FEWEST_CONTEXT_HOURS = HOURS_PER_DAY
"""Known hours of the context below which there is no forecast."""
RECENT = {"hour": 12, "day": 6}
"""Last readings that are inputs by themselves."""


@dataclass(frozen=True)
class HourlyLoads:
    """The hourly loads of one meter, and the calendar of the hours."""

    load: Floats
    """Load (R,) of each hour, in any unit; NaN where it is not known."""
    hour: Integers
    """Hour of the day (R,), 0 to 23, in which each hour begins, in the meter's local time."""
    weekday: Integers
    """Its day of the week (R,), Monday = 0."""

    @classmethod
    def ending_at(cls, stamps: NDArray[np.datetime64], load: Floats) -> HourlyLoads:
        """Loads of hours, whose ends are given in local time."""
        begin = (stamps - np.timedelta64(1, "h")).astype("datetime64[h]").astype(np.int64)
        # Day 0, 1 January 1970, was a Thursday.
        return cls(np.asarray(load, float), begin % HOURS_PER_DAY, (begin // HOURS_PER_DAY + 3) % 7)


@dataclass(frozen=True)
class Inputs:
    """What a model reads of windows, and how its outputs become loads."""

    features: NDArray[np.float32]
    """Features (W, K)."""
    base: Floats
    """Load (W,) to which a model's output is added."""
    scale: Floats
    """Load (W,) by which a model's output is multiplied; NaN: no forecast can be made."""

    def loads_of_outputs(self, outputs: Floats) -> Floats:
        """Loads (W,), given the outputs (W,) of a model."""
        return self.base + self.scale * outputs

    def outputs_of_loads(self, loads: Floats) -> Floats:
        """Undo `loads_of_outputs`."""
        return np.asarray((loads - self.base) / self.scale, float)


class _LoadsAroundWindows:
    """Loads around windows, of which only those between `first` and `last` are known."""

    def __init__(self, loads: HourlyLoads, last: Integers, first: Integers) -> None:
        self.load, self.last, self.first = loads.load, last, first
        is_known = np.isfinite(self.load)
        values = np.where(is_known, self.load, 0.0)
        steps = np.abs(np.diff(self.load, prepend=np.nan))
        self.sums = [
            np.concatenate([[0.0], np.cumsum(column)])
            for column in (is_known, values, values**2, np.isfinite(steps), np.nan_to_num(steps))
        ]

    def loads_at(self, row_numbers: Integers) -> Floats:
        """Loads at rows (W,) or (W, N); NaN where they are not known."""
        shape = (-1, *[1] * (row_numbers.ndim - 1))
        last, first = self.last.reshape(shape), self.first.reshape(shape)
        return np.where(
            (row_numbers >= first) & (row_numbers <= last),
            self.load[np.clip(row_numbers, 0, len(self.load) - 1)],
            np.nan,
        )

    def totals(self, hours: int) -> list[Floats]:
        """Sums (W,) over the last hours: of known readings, loads, their squares, known steps from
        hour to hour, and absolute steps."""
        end = self.last + 1
        begin = np.minimum(np.maximum(end - hours, self.first), end)
        return [sums[end] - sums[begin] for sums in self.sums]


def inputs_of(
    loads: HourlyLoads,
    lead_time: LeadTime,
    last: Integers,
    lead: Integers,
    first: Integers | int = 0,
) -> Inputs:
    """The inputs of windows (W,) of a meter. `first`: the first row that the meter knows, (W,) or
    the same for all windows; in addition, nothing before the last `CONTEXT` hours is read. The mean
    step from hour to hour alone also reads the row before the first one, for the step to that."""
    known_from = np.maximum(np.broadcast_to(first, last.shape), last + 1 - CONTEXT)
    known_from = np.maximum(known_from, 0)
    gathered = _LoadsAroundWindows(loads, last, known_from)
    target = last + lead
    days = np.arange(1, CONTEXT // HOURS_PER_DAY + 1)
    same_hour = gathered.loads_at(
        target[:, None] - HOURS_PER_DAY * days
    )  # (W, 28), yesterday first
    (count, total, *_), week = gathered.totals(CONTEXT), gathered.totals(HOURS_PER_WEEK)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count >= FEWEST_CONTEXT_HOURS, total / count, np.nan)
        scale = np.where(mean > 0, mean, np.nan)
        week_mean = week[1] / week[0]
        spread = np.sqrt(np.maximum(week[2] / week[0] - week_mean**2, 0))
        roughness = week[4] / week[3]
    recent = gathered.loads_at(last[:, None] - np.arange(HOURS_PER_DAY))  # the last reading first
    yesterday = same_hour[:, 0]
    order = [recent[:, 0], yesterday] if lead_time == "hour" else [yesterday, recent[:, 0]]
    base = _first_known([*order, same_hour[:, 6], mean])

    hour, weekday = _calendar(loads, last, lead)
    is_weekend = (weekday[:, None] - days) % 7 > 4
    same_kind_of_day = np.where(is_weekend == (weekday > 4)[:, None], same_hour, np.nan)
    near = [24, 48, 168]
    neighbour_hours = [gathered.loads_at(target - lag + k) for lag in near for k in (-2, -1, 1, 2)]
    relative = [
        *recent[:, : RECENT[lead_time]].T,
        *same_hour[:, :7].T,
        *same_hour[:, [13, 20, 27]].T,
        *neighbour_hours,
        _mean(recent), week_mean, mean,
        np.fmin.reduce(recent, axis=1), np.fmax.reduce(recent, axis=1),
        _mean(same_hour[:, :7]), _mean(same_hour), _mean(same_kind_of_day),
        _mean(same_hour[:, 6::7]),
        *_quantiles(same_hour, (0.1, 0.5, 0.9)),
    ]  # fmt: skip
    # How the load has moved to this hour on earlier days: what is switched by a clock shows here.
    moved = same_hour - gathered.loads_at(last[:, None] - HOURS_PER_DAY * days)
    absolute = [
        _mean(moved[:, :7]), _mean(moved), _quantile(moved[:, :14], 0.5),
        spread, roughness, _mean(np.abs(same_hour[:, :7] - same_hour[:, 1:8])),
    ]  # fmt: skip
    columns = [(column - base) / scale for column in relative]
    columns += [column / scale for column in (*absolute, base)]
    columns += [count, hour, weekday, weekday > 4, (weekday - 1) % 7 > 4]
    if lead_time == "day":
        columns += [lead, loads.hour[last]]
    return Inputs(np.stack(columns, axis=1).astype(np.float32), base, scale)


def _calendar(loads: HourlyLoads, last: Integers, lead: Integers) -> tuple[Integers, Integers]:
    """Hour of the day and day of the week (W,) of the targets, which may be after the readings."""
    hour = loads.hour[last] + lead
    return hour % HOURS_PER_DAY, (loads.weekday[last] + hour // HOURS_PER_DAY) % 7


def _first_known(columns: list[Floats]) -> Floats:
    values = columns[0]
    for column in columns[1:]:
        values = np.where(np.isnan(values), column, values)
    return values


def _mean(columns: Floats) -> Floats:
    """The mean of the known values of each row; NaN if there is none."""
    is_known = np.isfinite(columns)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(is_known, columns, 0).sum(axis=1) / is_known.sum(axis=1), float)


def _quantile(columns: Floats, level: float) -> Floats:
    return _quantiles(columns, (level,))[0]


def _quantiles(columns: Floats, levels: tuple[float, ...]) -> list[Floats]:
    """For each level, the nearest known value of each row in ascending order; NaN if there is
    none."""
    ascending = np.sort(columns, axis=1)  # NaN last
    count = np.isfinite(columns).sum(axis=1)
    row_numbers = np.arange(len(columns))
    return [
        ascending[row_numbers, np.rint(level * np.maximum(count - 1, 0)).astype(int)]
        for level in levels
    ]
