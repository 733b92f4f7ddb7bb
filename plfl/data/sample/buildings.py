"""Buildings of the sample data: opening hours, appliances, and a thermal model driven by weather.

Every end use is computed bottom-up. Opening hours follow local time, with holidays and daylight
saving time, and determine the use of lights and appliances. Packaged units, chillers or heat pumps
keep the set points of a thermostat in a two-node (air and mass) model of the building, and cycle at
night. Densities are in W/m² of floor area, with magnitudes similar to the commercial reference
buildings of the U.S. Department of Energy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries.holiday import USFederalHolidayCalendar
from scipy.special import expit, ndtri

from plfl.data.sample.places import STATES, County
from plfl.data.sample.weather import (
    RADIATION,
    TEMPERATURE,
    autoregressive,
    elevation,
    lagged,
    weather,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Hours = tuple[float, float] | None
"""Opening and closing hour; None for a closed day, beyond 24 for past midnight."""

SQUARE_FEET = 10.7639
"""Square feet in a square metre."""

END_USES = (
    "cooling",
    "exterior_lighting",
    "fans",
    "heat_recovery",
    "heat_rejection",
    "heating",
    "interior_equipment",
    "interior_lighting",
    "pumps",
    "refrigeration",
    "water_systems",
)
"""The end uses of electricity, in ComStock's order. Their sum is the total."""

STEP = 0.25  # hours
STAMPS = pd.date_range("2018-01-01 00:15", "2019-01-01", freq="15min", unit="ns")
"""End of each interval, in Eastern Standard Time for every state, as in ComStock."""

_WARM_UP = 3 * 96  # intervals before the year in which the building forgets its start
_BUILDING, _SERIES, _SIZES = 2, 3, 4  # streams of random numbers

_MAJOR = frozenset(
    {
        "New Year's Day",
        "Memorial Day",
        "Independence Day",
        "Labor Day",
        "Thanksgiving Day",
        "Christmas Day",
    }
)
_FEAST = frozenset({"Thanksgiving Day", "Christmas Day"})
_NEVER: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Kind:
    """What the buildings of a ComStock type have in common; densities in W/m² of floor."""

    area: tuple[float, float]
    """Median floor area in ft² and the standard deviation of its logarithm."""
    stories: tuple[int, int]
    windows: float
    """Fraction of windows in the facade."""
    weekday: Hours
    saturday: Hours
    sunday: Hours
    closed: frozenset[str]
    """Federal holidays on which it stays closed."""
    lights: float
    equipment: float
    standby: float
    """Fraction of the equipment that never stops."""
    people: float
    """Sensible heat of the people at the busiest time."""
    air: float
    """Fresh air while open, W/K per m² of floor."""
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


_ALWAYS = (0.0, 24.0)
_LUNCH_DINNER = ((12.5, 1.2, 0.7), (19.0, 1.5, 0.8))
_MORNING_EVENING = ((7.5, 1.3, 0.9), (20.5, 2.2, 1.0))

# fmt: off
KINDS = {
    "SmallOffice": Kind(
        (7_000, 0.95), (1, 2), 0.20, (8, 17.5), (9, 13), None, _MAJOR,
        lights=6, equipment=7, standby=0.35, people=5, air=0.45),
    "MediumOffice": Kind(
        (50_000, 0.65), (2, 4), 0.33, (7.5, 18), (9, 13), None, _MAJOR,
        lights=6, equipment=8, standby=0.4, people=5, air=0.45, central=0.5),
    "LargeOffice": Kind(
        (260_000, 0.75), (6, 16), 0.40, (7, 19), (8, 14), None, _MAJOR,
        lights=6, equipment=9, standby=0.5, people=5, air=0.45, exterior=0.8, central=1.0),
    "RetailStandalone": Kind(
        (18_000, 1.15), (1, 1), 0.10, (9, 21), (9, 21), (10, 19), _FEAST,
        lights=9, equipment=4, standby=0.3, people=8, air=0.6, peaks=((16.0, 3.0, 0.3),),
        exterior=3.2),
    "RetailStripmall": Kind(
        (22_000, 1.1), (1, 1), 0.15, (9, 20.5), (9, 20.5), (10, 18), _FEAST,
        lights=9, equipment=6, standby=0.3, people=8, air=0.6, peaks=((15.0, 3.5, 0.3),),
        exterior=4.4),
    "Warehouse": Kind(
        (30_000, 1.35), (1, 1), 0.02, (7, 16.5), (8, 12), None, _MAJOR,
        lights=4, equipment=2, standby=0.25, people=0.5, air=0.1, exterior=1.4, heated=0.35),
    "QuickServiceRestaurant": Kind(
        (2_800, 0.55), (1, 1), 0.15, (6, 23), (6, 24), (7, 22), _FEAST,
        lights=9, equipment=60, standby=0.25, people=25, air=3.0, peaks=_LUNCH_DINNER,
        exterior=14, refrigeration=12, water=8, exhaust=0.75),
    "FullServiceRestaurant": Kind(
        (6_000, 0.65), (1, 1), 0.17, (9, 23), (9, 25), (10, 22), _FEAST,
        lights=9, equipment=42, standby=0.25, people=25, air=2.5, peaks=_LUNCH_DINNER,
        exterior=8, refrigeration=9, water=5, exhaust=0.75),
    "PrimarySchool": Kind(
        (55_000, 0.65), (1, 2), 0.30, (7.5, 16), None, None, _MAJOR,
        lights=7.5, equipment=6, standby=0.35, people=10, air=0.9, peaks=((11.5, 2.0, 0.2),),
        exterior=1, refrigeration=0.3, central=0.4, school=True),
    "SecondarySchool": Kind(
        (130_000, 0.75), (1, 3), 0.30, (7, 17), (9, 13), None, _MAJOR,
        lights=7.5, equipment=6, standby=0.35, people=10, air=0.9, peaks=((11.5, 2.0, 0.2),),
        exterior=1, refrigeration=0.2, central=0.7, school=True),
    "SmallHotel": Kind(
        (32_000, 0.65), (2, 4), 0.20, _ALWAYS, _ALWAYS, _ALWAYS, _NEVER,
        lights=4, equipment=6, standby=0.35, people=2.5, air=0.4, peaks=_MORNING_EVENING,
        exterior=1.6, water=1.5),
    "LargeHotel": Kind(
        (130_000, 0.75), (4, 12), 0.30, _ALWAYS, _ALWAYS, _ALWAYS, _NEVER,
        lights=4.5, equipment=7, standby=0.4, people=2.5, air=0.5, peaks=_MORNING_EVENING,
        exterior=0.8, refrigeration=0.4, water=1.0, central=1.0),
    "Outpatient": Kind(
        (28_000, 0.95), (1, 4), 0.22, (7, 18), (8, 14), None, _MAJOR,
        lights=7.5, equipment=14, standby=0.45, people=7, air=0.9, central=0.4),
    "Hospital": Kind(
        (240_000, 0.75), (3, 8), 0.18, _ALWAYS, _ALWAYS, _ALWAYS, _NEVER,
        lights=7.5, equipment=15, standby=0.5, people=5, air=1.1, peaks=((12.5, 3.5, 0.7),),
        exterior=0.6, refrigeration=0.3, water=0.6, central=1.0),
}
"""The 14 building types of ComStock."""
# fmt: on


@dataclass(frozen=True)
class Building:
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


def draw(state: str, bldg_id: int, kind: str, seed: int) -> Building:
    """Draw the building `bldg_id` of type `kind`. The result depends only on the arguments."""
    rng = np.random.default_rng([seed, _BUILDING, STATES[state].fips, bldg_id])
    model = KINDS[kind]
    median, spread = model.area
    # The golden ratio spreads the sizes of a state evenly, however few of its buildings are taken.
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
    return Building(
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


def simulate(building: Building, seed: int) -> pd.DataFrame:
    """A year of the building's electricity: `END_USES` in kWh per 15 minutes at `STAMPS`."""
    place = STATES[building.state]
    kind = KINDS[building.kind]
    rng = np.random.default_rng([seed, _SERIES, place.fips, building.bldg_id])
    stamps = pd.date_range(end=STAMPS[-1], periods=len(STAMPS) + _WARM_UP, freq="15min")
    n = len(stamps)
    standard = stamps + pd.Timedelta(hours=place.offset + 5)
    outdoor = weather(building.state, building.county.gisjoin, seed)
    temperature = _at(standard, outdoor[TEMPERATURE])
    radiation = _at(standard + pd.Timedelta("30min"), outdoor[RADIATION])  # of the hour's middle
    sun = elevation(building.county, place.offset, standard)

    clock = _Clock.of(stamps, place.zone, kind, rng)
    ramp = rng.uniform(0.5, 3.5)
    present = clock.open(ramp=ramp) * clock.rhythm(kind.peaks, rng)
    lit = clock.open(lead=rng.uniform(0.2, 0.8), lag=rng.uniform(0.2, 1.2), ramp=0.7 * ramp)
    ventilated = clock.open(lead=rng.uniform(0.7, 2.0), lag=rng.uniform(0, 0.7), ramp=0.01) > 0.15

    kilowatt = building.area / 1000
    density = np.exp(0.3 * rng.standard_normal(5))
    grain = 0.25 / math.sqrt(
        max(building.area / 300, 1)
    )  # many appliances hide each other's switching

    night_lights = 0.1 + 0.6 * rng.random() ** 1.5
    daylight = rng.random() < 0.3
    lights = kind.lights * density[0] * (night_lights + (1 - night_lights) * lit)
    lights *= 1 - 0.3 * daylight * np.minimum(radiation / 400, 1)
    lights *= 1 + 0.3 * grain * autoregressive(rng, n, 3)

    running = present * (1 + grain * autoregressive(rng, n, 2) + 0.05 * autoregressive(rng, n, 900))
    running += grain * (_switching(rng, n, on=3, off=12) - 0.2) * present
    standby = np.clip(kind.standby * rng.uniform(0.8, 2.4), 0, 0.85)
    equipment = kind.equipment * density[1] * (standby + (1 - standby) * running)
    equipment = np.maximum(equipment, 0.1 * kind.equipment)

    dark = sun < -0.05
    dimmed = rng.choice([0.4, 1.0])
    late = clock.open(lead=1.0, lag=1.5, ramp=0.01) < 0.15
    exterior = kind.exterior * math.exp(rng.standard_normal()) * dark
    exterior *= np.where(late, dimmed, 1.0)

    cold = kind.refrigeration
    if building.kind.startswith("Retail") and rng.random() < 0.25:
        cold = 15.0 * rng.uniform(0.3, 1.0)  # food
    racks = np.clip(1 + 0.012 * (temperature - 20) + 0.15 * present, 0.6, None) * cold * density[2]
    cycled = 0.4 / math.sqrt(max(building.area / 500, 1))
    refrigeration = (1 - cycled) * racks
    refrigeration += _packets(cycled * racks, 1.4 * cycled * cold * density[2], rng)

    is_electric = rng.random() < 0.5
    water = kind.water * density[3] * is_electric * (0.1 + present)
    water *= np.maximum(1 + 0.4 * autoregressive(rng, n, 1), 0.1)
    water = _packets(water, kind.water * max(2.5 * math.sqrt(200 / building.area), 0.15), rng)

    gains = 0.9 * lights + (1 - kind.exhaust) * equipment + kind.people * present
    plant = _air_conditioning(building, kind, temperature, radiation, gains, ventilated, rng)
    powers = {
        "exterior_lighting": exterior,
        "interior_equipment": equipment,
        "interior_lighting": lights,
        "refrigeration": refrigeration,
        "water_systems": water,
        **plant,
    }
    # Rounded to 0.1 Wh, so that the files do not depend on the last bit of a math library.
    energies = {use: (powers[use] * kilowatt * STEP)[_WARM_UP:].round(4) + 0.0 for use in END_USES}
    return pd.DataFrame(energies, index=STAMPS)


@dataclass(frozen=True)
class _Clock:
    """Wall-clock time of each interval and the building's hours of each of its days."""

    hour: Array
    day: NDArray[np.int64]
    opening: Array
    closing: Array
    level: Array

    @classmethod
    def of(cls, stamps: pd.DatetimeIndex, zone: str, kind: Kind, rng: np.random.Generator) -> Self:
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

        Both take `ramp` hours; `lead` and `lag` hours widen the opening hours. Yesterday's late
        night and tomorrow's early morning reach into today.
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
    holidays = USFederalHolidayCalendar().holidays(days[0], days[-1], return_name=True)
    closed = {day for day, name in holidays.items() if name in kind.closed}
    opening, closing, level = np.zeros(len(days)), np.zeros(len(days)), np.zeros(len(days))
    jitter = 0.1 * rng.standard_normal((2, len(days)))
    busy = 1 + 0.04 * rng.standard_normal(len(days))
    for i, day in enumerate(days):
        hours = None if day in closed else plan[day.weekday()]
        if hours is None:
            hours, share = (9.0, 16.0), rng.choice([0.0, 0.0, 0.08])  # a caretaker, now and then
        elif hours == _ALWAYS:
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


def _is_vacation(day: pd.Timestamp) -> bool:
    date = (day.month, day.day)
    return (6, 15) <= date <= (8, 20) or (3, 26) <= date <= (3, 30) or not (1, 3) < date < (12, 21)


def _at(stamps: pd.DatetimeIndex, hourly: pd.Series) -> Array:
    """Hourly values on a straight line between their stamps."""
    start = hourly.index[0]
    hour = pd.Timedelta("1h")
    known = np.asarray((pd.DatetimeIndex(hourly.index) - start) / hour)
    return np.asarray(np.interp(np.asarray((stamps - start) / hour), known, hourly.to_numpy()))


def _packets(demand: Array, size: float, rng: np.random.Generator) -> Array:
    """Serve a smooth `demand` by equipment that runs at power `size` or not at all."""
    if size <= 0:
        return np.zeros(len(demand))
    served = np.floor(rng.random() + np.cumsum(demand) / size)
    return np.diff(served, prepend=0.0) * size


def _switching(rng: np.random.Generator, n: int, on: float, off: float) -> Array:
    """A large appliance that is on (1) or off (0) for exponential times of mean `on` and `off`."""
    count = int(3 * n / (on + off)) + 10
    lengths = np.column_stack(
        [rng.exponential(off, count).astype(int) + 1, rng.exponential(on, count).astype(int) + 1]
    ).ravel()
    return np.repeat(np.tile([0.0, 1.0], count), lengths)[:n]


def _air_conditioning(
    building: Building,
    kind: Kind,
    temperature: Array,
    radiation: Array,
    gains: Array,
    ventilated: Mask,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Electric power of the end uses that keep the set points, in W/m² of floor."""
    walls, windows = building.wall_area / building.area, building.window_area / building.area
    envelope = rng.uniform(0.4, 0.9) * walls + 2.7 * windows + 0.35 / building.stories
    loss = kind.heated * (envelope + 0.33 * 3.5 * rng.uniform(0.1, 0.35))
    recovery = rng.uniform(0.4, 0.8)  # demand control and heat recovery spare part of the fresh air
    exchange = loss + kind.heated * kind.air * recovery * ventilated.astype(float)
    solar = lagged(0.2 * (0.35 * 0.4 * windows * radiation), 0.8)
    heat = kind.heated * gains + solar

    comfort = rng.uniform(22.8, 24.5), rng.uniform(20.0, 21.5)
    setback = rng.uniform(1.0, 5.0)
    hot, cold = np.quantile(temperature, [0.996, 0.004])
    design = exchange.max()
    cooling_size = max(design * (hot - comfort[0]), 0) + np.quantile(heat, 0.98) + 8 * kind.heated
    heating_size = 1.25 * design * (comfort[1] - cold) + 12 * kind.heated
    served = 500 * rng.uniform(0.6, 1.6)  # m² by a packaged unit; more than 4 are as smooth as 4
    units = 1 if building.hvac == "central" else int(np.clip(building.area / served, 1, 4))
    shares = rng.dirichlet(np.full(units, 6.0))
    never_off = rng.random() < 0.3  # fans that nobody switches off at night
    cooling, heating, running = (np.zeros(len(temperature)) for _ in range(3))
    for share in shares:
        offset = rng.normal(0, 0.4)
        low = np.where(ventilated, comfort[1], comfort[1] - setback) + offset
        high = np.where(ventilated, comfort[0], comfort[0] + setback) + offset
        cooled, heated, ran = _thermostat(
            temperature, exchange, heat, low, high, ventilated,
            (cooling_size, heating_size), building.hvac == "packaged",
        )  # fmt: skip
        cooling += share * cooled
        heating += share * heated
        running += share * (1.0 if never_off else ran)

    is_central = building.hvac == "central"
    economizer = rng.random() < (0.8 if is_central else 0.5)
    free = np.clip((20 - temperature) / 8, 0, 1) * economizer
    rating = (5.0 if is_central else 3.4) * rng.uniform(0.85, 1.15)
    efficiency = rating * np.clip(1 - 0.013 * (temperature - 28), 0.7, 1.35)
    load = np.maximum(cooling, heating) / max(cooling_size, heating_size)
    fan = rng.uniform(2.5, 5.0) * kind.heated * (1 + 0.3 * kind.air)
    flow = 0.3 + 0.7 * load if is_central else np.ones_like(load)
    performance: dict[str, Array | float] = {
        "gas": np.inf,
        "heat_pump": np.clip(2.8 + 0.06 * temperature, 1.2, 3.8),
        "resistance": 1.0,
    }
    stages = 3
    pumping = np.ceil(stages * load) / stages if is_central else 0.02 * np.sign(heating)
    return {
        "cooling": cooling * (1 - free) / efficiency,
        "heating": heating / performance[building.heating],
        "heat_recovery": np.zeros_like(heating),
        "heat_rejection": 0.03 * cooling * is_central,
        "fans": fan * running * flow**2,
        "pumps": rng.uniform(0.8, 2.0) * kind.heated * pumping,
    }


def _thermostat(
    outdoor: Array,
    exchange: Array,
    heat: Array,
    low: Array,
    high: Array,
    scheduled: Mask,
    sizes: tuple[float, float],
    cycles: bool,
) -> tuple[Array, Array, Array]:
    """Cooling, heating (W/m²) and running fans (0 or 1) of a unit that keeps `low` to `high` °C.

    Air and building mass are one node each, integrated implicitly:
    `C_air dT/dt = exchange (outdoor - T) + H (T_mass - T) + heat + heating - cooling`. On schedule
    the unit gives exactly what is needed, up to its size; at night a packaged unit, if it `cycles`,
    starts when the set-back limits are left, gives full power for half an hour, and stops.
    """
    capacity, coupling, mass = 9.0, 4.0, 55.0  # Wh/K, W/K, Wh/K per m²
    cooling_size, heating_size = sizes
    cooling, heating, running = (np.zeros(len(outdoor)) for _ in range(3))
    weight = capacity / STEP + exchange + coupling  # W per kelvin of the air in one step
    constant = exchange * outdoor + heat
    air = core = 0.5 * (float(low[0]) + float(high[0]))
    burst, left = 0.0, 0
    rows = zip(
        weight.tolist(), constant.tolist(), low.tolist(), high.tolist(), scheduled.tolist(),
        strict=True,
    )  # fmt: skip
    for i, (w, c, floor, ceiling, on) in enumerate(rows):
        air = (capacity / STEP * air + c + coupling * core) / w
        need = 0.0  # above 0: heat, below: cold
        if on or not cycles:
            left = 0
            if air > ceiling:
                need = max((ceiling - air) * w, -cooling_size)
            elif air < floor:
                need = min((floor - air) * w, heating_size)
        elif left:
            need, left = burst, left - 1
        elif air > ceiling:
            need = burst = max((ceiling - 2.5 - air) * w, -cooling_size)
            left = 1
        elif air < floor:
            need = burst = min((floor + 2.5 - air) * w, heating_size)
            left = 1
        if need:
            air += need / w
            if need < 0:
                cooling[i] = -need
            else:
                heating[i] = need
        if on or need:
            running[i] = 1.0
        core += STEP * coupling / mass * (air - core)
    return cooling, heating, running
