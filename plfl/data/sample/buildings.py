"""Buildings of the sample data: their types, buildings drawn at random from these, and when these
are open: hours in local time, with holidays and daylight saving time.

Densities are in W/m² of floor area, with magnitudes similar to the commercial reference buildings
of the U.S. Department of Energy.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries.holiday import USFederalHolidayCalendar
from pydantic import TypeAdapter
from scipy.special import expit, ndtri

from plfl.base.array_types import Floats
from plfl.data.sample.places import STATES, County

Hours = tuple[float, float] | None
"""Opening and closing hour; None for a closed day, beyond 24 for past midnight."""

SQUARE_FEET = 10.7639
"""Square feet in a square metre."""

_BUILDING, _SIZES = 2, 4  # streams of random numbers

_FEASTS = frozenset({"Thanksgiving Day", "Christmas Day"})
HOLIDAYS = {
    "major": _FEASTS | {"New Year's Day", "Memorial Day", "Independence Day", "Labor Day"},
    "feasts": _FEASTS,
    "none": frozenset(),
}
"""Federal holidays on which a building may be closed."""


@dataclass(frozen=True)
class BuildingKind:
    """Common properties of the buildings of a ComStock type; densities in W/m² of floor."""

    area: tuple[float, float]
    """Median floor area in ft² and the standard deviation of its logarithm."""
    stories: tuple[int, int]
    windows: float
    """Fraction of windows in the facade."""
    weekday: Hours
    closed: Literal["major", "feasts", "none"]
    """The `HOLIDAYS` on which it is closed."""
    lights: float
    equipment: float
    standby: float
    """Fraction of the equipment that never stops."""
    people: float
    """Sensible heat of the people at the busiest time."""
    air: float
    """Fresh air while open, W/K per m² of floor."""
    saturday: Hours = None
    sunday: Hours = None
    peaks: tuple[tuple[float, float, float], ...] = ()
    """Busy times: hour, width in hours, height above the ordinary level of 1."""
    exterior: float = 2.0
    refrigeration: float = 0.0
    water: float = 0.3
    """Hot water, heated electrically in some buildings."""
    exhaust: float = 0.0
    """Fraction of the equipment's heat that a hood takes away."""
    central: float = 0.0
    """Probability of a chiller plant instead of packaged units, if the building is large."""
    heated: float = 1.0
    """Fraction of the floor that is heated and cooled."""
    school: bool = False


ALL_DAY = (0.0, 24.0)
"""Hours of a building that never closes."""
BUILDING_KINDS = TypeAdapter(dict[str, BuildingKind]).validate_python(
    tomllib.loads(Path(__file__).with_name("building_types.toml").read_text(encoding="utf-8"))
)
"""The 14 building types of ComStock."""


@dataclass(frozen=True)
class SampleBuilding:
    """A building, drawn at random from its type."""

    state: str
    bldg_id: int
    kind: str
    county: County
    sqft: int
    stories: int
    wall_area: float
    """Exterior walls without the windows, m²."""
    window_area: float
    """m²."""
    hvac: str
    """`central`, or `packaged` units that cycle at night."""
    heating: str
    """`gas`, `heat_pump` or `resistance`."""

    @property
    def area(self) -> float:
        """Floor area in m²."""
        return self.sqft / SQUARE_FEET


def draw(state: str, bldg_id: int, kind: str, seed: int) -> SampleBuilding:
    """Draw the building `bldg_id` of type `kind`. The result depends only on the arguments."""
    rng = np.random.default_rng([seed, _BUILDING, STATES[state].fips, bldg_id])
    model = BUILDING_KINDS[kind]
    median, spread = model.area
    # The golden ratio spreads the sizes of a state evenly, even if only a few of its buildings are
    # used.
    position = (_start(state, seed) + bldg_id * (math.sqrt(5) - 1) / 2) % 1
    size = median * math.exp(spread * ndtri(position))
    sqft = round(int(min(max(size, 1_000), 1_500_000)), -2)
    low, high = model.stories
    stories = int(rng.integers(low, high + 1))
    footprint = sqft / SQUARE_FEET / stories
    aspect = rng.uniform(1.0, 2.5)
    facade = 2 * (1 + aspect) * math.sqrt(footprint / aspect) * 4.0 * stories
    windows = facade * model.windows * rng.uniform(0.7, 1.3)
    counties = STATES[state].counties
    county = counties[int(len(counties) * rng.random() ** 1.5)]  # the first are the largest
    is_central = rng.random() < model.central and sqft > 25_000
    is_electric = rng.random() < (0.35 if state == "CA" else 0.2)
    electric = "heat_pump" if rng.random() < 0.6 else "resistance"
    return SampleBuilding(
        state=state,
        bldg_id=bldg_id,
        kind=kind,
        county=county,
        sqft=sqft,
        stories=stories,
        wall_area=round(facade - windows, 2),
        window_area=round(windows, 2),
        hvac="central" if is_central else "packaged",
        heating=electric if is_electric else "gas",
    )


@cache
def _start(state: str, seed: int) -> float:
    """Where the sizes of a state's buildings start, from 0 to 1."""
    return np.random.default_rng([seed, _SIZES, STATES[state].fips]).random()


INTERVAL_HOURS = 0.25
"""Hours of an interval."""


@dataclass(frozen=True)
class LocalTime:
    """Wall-clock time of each interval and the building's hours of each of its days."""

    hour: Floats
    day: NDArray[np.int64]
    opening: Floats
    closing: Floats
    level: Floats

    @classmethod
    def at_stamps(
        cls, stamps: pd.DatetimeIndex, zone: str, kind: BuildingKind, rng: np.random.Generator
    ) -> LocalTime:
        """Draw the hours of every day on which `stamps`, Eastern Standard Time, fall in `zone`."""
        middle = stamps - pd.Timedelta(hours=INTERVAL_HOURS / 2)
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

    def open(self, ramp: float, hours_before: float = 0.0, hours_after: float = 0.0) -> Floats:
        """Activity, from 0 (closed) to 1, with a smooth rise at opening and fall at closing.

        Rise and fall take `ramp` hours each; `hours_before` and `hours_after` widen the opening
        hours. Late nights of the previous day and early mornings of the next are included.
        """
        total = np.zeros(len(self.hour))
        for shift in (-1, 0, 1):
            day, hour = self.day + shift, self.hour - 24 * shift
            rise = expit(4 * (hour - self.opening[day] + hours_before) / ramp)
            fall = expit(4 * (self.closing[day] + hours_after - hour) / ramp)
            total += self.level[day] * rise * fall
        return np.minimum(total, 1.1)

    def rhythm(
        self, peaks: Sequence[tuple[float, float, float]], rng: np.random.Generator
    ) -> Floats:
        """Busier and quieter hours of the day, at most 1, with the building's own timing."""
        shape = np.ones(len(self.hour))
        for hour, width, height in peaks:
            hours_away = (self.hour - hour - 0.5 * rng.standard_normal() + 12) % 24 - 12
            shape += height * rng.uniform(0.7, 1.3) * np.exp(-0.5 * (hours_away / width) ** 2)
        return np.asarray(shape / shape.max())


def _hours(
    days: pd.DatetimeIndex, kind: BuildingKind, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Opening hour, closing hour and level of activity (0: closed) of each day."""
    shift = rng.standard_normal(2)
    shut_on_saturday = rng.random() < 0.4 and kind.saturday is not None and kind.sunday is None
    hours_of_week = [kind.weekday] * 5 + [None if shut_on_saturday else kind.saturday, kind.sunday]
    closed = _holidays_between(days[0], days[-1], kind.closed)
    opening, closing, level = np.zeros(len(days)), np.zeros(len(days)), np.zeros(len(days))
    jitter = 0.1 * rng.standard_normal((2, len(days)))
    busy = 1 + 0.04 * rng.standard_normal(len(days))
    for i, day in enumerate(days):
        hours = None if day in closed else hours_of_week[day.weekday()]
        if hours is None:
            hours, share = (9.0, 16.0), rng.choice([0.0, 0.0, 0.08])  # sometimes a caretaker
        elif hours == ALL_DAY:
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
def _holidays_between(first: pd.Timestamp, last: pd.Timestamp, holiday_set: str) -> set[Hashable]:
    """The `HOLIDAYS` of some kind from one day to another."""
    holidays = USFederalHolidayCalendar().holidays(first, last, return_name=True)
    return {day for day, name in holidays.items() if name in HOLIDAYS[holiday_set]}


def _is_vacation(day: pd.Timestamp) -> bool:
    date = (day.month, day.day)
    return (6, 15) <= date <= (8, 20) or (3, 26) <= date <= (3, 30) or not (1, 3) < date < (12, 21)
