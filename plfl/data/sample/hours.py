"""When a sample building is open: hours in local time, with holidays and daylight saving time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries.holiday import USFederalHolidayCalendar
from scipy.special import expit

from plfl.data.sample.buildings import ALWAYS, HOLIDAYS, Kind

Array = NDArray[np.float64]

STEP = 0.25
"""Hours of an interval."""


@dataclass(frozen=True)
class LocalTime:
    """Wall-clock time of each interval and the building's hours of each of its days."""

    hour: Array
    day: NDArray[np.int64]
    opening: Array
    closing: Array
    level: Array

    @classmethod
    def of(
        cls, stamps: pd.DatetimeIndex, zone: str, kind: Kind, rng: np.random.Generator
    ) -> LocalTime:
        """Draw the hours of every day on which `stamps`, Eastern Standard Time, fall in `zone`."""
        middle = stamps - pd.Timedelta(hours=STEP / 2)
        # POSIX zones have the opposite sign: Etc/GMT+5 is five hours behind UTC.
        wall = middle.tz_localize("Etc/GMT+5").tz_convert(zone).tz_localize(None)
        midnight = wall.normalize()
        days = pd.date_range(midnight[0] - pd.Timedelta("1D"), midnight[-1] + pd.Timedelta("1D"))
        hours = _hours(days, kind, rng)
        return cls(
            hour=np.asarray((wall - midnight) / pd.Timedelta("1h")),
            day=np.asarray((midnight - days[0]) // pd.Timedelta("1D")),
            opening=hours[0],
            closing=hours[1],
            level=hours[2],
        )

    def open(self, ramp: float, lead: float = 0.0, lag: float = 0.0) -> Array:
        """Activity, from 0 (closed) to 1, with a smooth rise at opening and fall at closing.

        Rise and fall take `ramp` hours each; `lead` and `lag` hours widen the opening hours. Late
        nights of the previous day and early mornings of the next are included.
        """
        total = np.zeros(len(self.hour))
        for shift in (-1, 0, 1):
            day, hour = self.day + shift, self.hour - 24 * shift
            rise = expit(4 * (hour - self.opening[day] + lead) / ramp)
            fall = expit(4 * (self.closing[day] + lag - hour) / ramp)
            total += self.level[day] * rise * fall
        return np.minimum(total, 1.1)

    def rhythm(
        self, peaks: Sequence[tuple[float, float, float]], rng: np.random.Generator
    ) -> Array:
        """Busier and quieter hours of the day, at most 1, with the building's own timing."""
        shape = np.ones(len(self.hour))
        for hour, width, height in peaks:
            away = (self.hour - hour - 0.5 * rng.standard_normal() + 12) % 24 - 12
            shape += height * rng.uniform(0.7, 1.3) * np.exp(-0.5 * (away / width) ** 2)
        return np.asarray(shape / shape.max())


def _hours(
    days: pd.DatetimeIndex, kind: Kind, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Opening hour, closing hour and level of activity (0: closed) of each day."""
    shift = rng.standard_normal(2)
    shut_on_saturday = rng.random() < 0.4 and kind.saturday is not None and kind.sunday is None
    plan = [kind.weekday] * 5 + [None if shut_on_saturday else kind.saturday, kind.sunday]
    closed = _closed(days[0], days[-1], kind.closed)
    opening, closing, level = np.zeros(len(days)), np.zeros(len(days)), np.zeros(len(days))
    jitter = 0.1 * rng.standard_normal((2, len(days)))
    busy = 1 + 0.04 * rng.standard_normal(len(days))
    for i, day in enumerate(days):
        hours = None if day in closed else plan[day.weekday()]
        if hours is None:
            hours, share = (9.0, 16.0), rng.choice([0.0, 0.0, 0.08])  # sometimes a caretaker
        elif hours == ALWAYS:
            opening[i], closing[i], level[i] = 0.0, 24.0, 1.0
            continue
        else:
            share = 0.55 if day.weekday() == 5 and kind.sunday is None else 1.0
        if kind.school and _is_vacation(day):
            share *= 0.25
        opening[i] = hours[0] + shift[0] + jitter[0, i]
        closing[i] = hours[1] + shift[1] + jitter[1, i]
        level[i] = min(share * busy[i], 1.05)
    return opening, closing, level


@cache
def _closed(first: pd.Timestamp, last: pd.Timestamp, which: str) -> set[Hashable]:
    """The `HOLIDAYS` of some kind from one day to another."""
    holidays = USFederalHolidayCalendar().holidays(first, last, return_name=True)
    return {day for day, name in holidays.items() if name in HOLIDAYS[which]}


def _is_vacation(day: pd.Timestamp) -> bool:
    date = (day.month, day.day)
    return (6, 15) <= date <= (8, 20) or (3, 26) <= date <= (3, 30) or not (1, 3) < date < (12, 21)
