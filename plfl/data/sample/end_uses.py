"""A year of electricity of a sample building, computed bottom-up from its end uses.

Opening hours determine the use of lights and appliances. Their heat and the weather determine the
air conditioning.
"""

import math

import numpy as np
import pandas as pd

from plfl.data.sample.air_conditioning import Mask, air_conditioning
from plfl.data.sample.buildings import KINDS, Kind, SampleBuilding
from plfl.data.sample.hours import STEP, Array, LocalTime
from plfl.data.sample.places import STATES
from plfl.data.sample.weather import RADIATION, TEMPERATURE, autoregressive, elevation, weather

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

STAMPS = pd.date_range("2018-01-01 00:15", "2019-01-01", freq="15min", unit="ns")
"""End of each interval, in Eastern Standard Time for every state, as in ComStock."""

_WARM_UP = 3 * 96  # intervals before the year in which the building forgets its start
_SERIES = 3  # stream of random numbers


def simulate(building: SampleBuilding, seed: int) -> pd.DataFrame:
    """A year of the building's electricity: `END_USES` in kWh per 15 minutes at `STAMPS`."""
    place = STATES[building.state]
    kind = KINDS[building.kind]
    rng = np.random.default_rng([seed, _SERIES, place.fips, building.bldg_id])
    stamps = pd.date_range(end=STAMPS[-1], periods=len(STAMPS) + _WARM_UP, freq="15min")
    standard = stamps + pd.Timedelta(hours=place.offset + 5)
    outdoor = weather(building.state, building.county.gisjoin, seed)
    temperature = _at(standard, outdoor[TEMPERATURE])
    radiation = _at(standard + pd.Timedelta("30min"), outdoor[RADIATION])  # of the hour's middle
    is_dark = elevation(building.county, place.offset, standard) < -0.05

    clock = LocalTime.of(stamps, place.zone, kind, rng)
    ramp = rng.uniform(0.5, 3.5)
    present = clock.open(ramp=ramp) * clock.rhythm(kind.peaks, rng)
    lit = clock.open(lead=rng.uniform(0.2, 0.8), lag=rng.uniform(0.2, 1.2), ramp=0.7 * ramp)
    ventilated = clock.open(lead=rng.uniform(0.7, 2.0), lag=rng.uniform(0, 0.7), ramp=0.01) > 0.15

    of_lights, of_equipment, of_cold, of_water, _ = np.exp(0.3 * rng.standard_normal(5))
    # The switching of many appliances averages out.
    grain = 0.25 / math.sqrt(max(building.area / 300, 1))
    lights = _lights(of_lights * kind.lights, lit, radiation, grain, rng)
    equipment = _equipment(kind, of_equipment, present, grain, rng)
    exterior = _exterior(kind, clock, is_dark, rng)
    refrigeration = _refrigeration(building, of_cold, temperature, present, rng)
    water = _water(building, of_water, present, rng)
    gains = 0.9 * lights + (1 - kind.exhaust) * equipment + kind.people * present
    powers = {
        "exterior_lighting": exterior,
        "interior_equipment": equipment,
        "interior_lighting": lights,
        "refrigeration": refrigeration,
        "water_systems": water,
        **air_conditioning(building, temperature, radiation, gains, ventilated, rng),
    }
    kilowatt = building.area / 1000
    # Rounded to 0.1 Wh, so that the files do not depend on the last bit of a math library.
    energies = {use: (powers[use] * kilowatt * STEP)[_WARM_UP:].round(4) + 0.0 for use in END_USES}
    return pd.DataFrame(energies, index=STAMPS)


def _lights(
    density: float, lit: Array, radiation: Array, grain: float, rng: np.random.Generator
) -> Array:
    night = 0.1 + 0.6 * rng.random() ** 1.5
    dims_by_day = rng.random() < 0.3
    lights: Array = density * (night + (1 - night) * lit)
    lights *= 1 - 0.3 * dims_by_day * np.minimum(radiation / 400, 1)
    lights *= 1 + 0.3 * grain * autoregressive(rng, len(lit), 3)
    return lights


def _equipment(
    kind: Kind, density: float, present: Array, grain: float, rng: np.random.Generator
) -> Array:
    n = len(present)
    running = present * (1 + grain * autoregressive(rng, n, 2) + 0.05 * autoregressive(rng, n, 900))
    running += grain * (_switching(rng, n, on=3, off=12) - 0.2) * present
    standby = np.clip(kind.standby * rng.uniform(0.8, 2.4), 0, 0.85)
    equipment: Array = kind.equipment * density * (standby + (1 - standby) * running)
    return np.maximum(equipment, 0.1 * kind.equipment)


def _exterior(kind: Kind, clock: LocalTime, is_dark: Mask, rng: np.random.Generator) -> Array:
    dimmed = rng.choice([0.4, 1.0])
    is_late = clock.open(lead=1.0, lag=1.5, ramp=0.01) < 0.15
    exterior = kind.exterior * math.exp(rng.standard_normal()) * is_dark
    return np.asarray(exterior * np.where(is_late, dimmed, 1.0))


def _refrigeration(
    building: SampleBuilding,
    density: float,
    temperature: Array,
    present: Array,
    rng: np.random.Generator,
) -> Array:
    cold = KINDS[building.kind].refrigeration
    if building.kind.startswith("Retail") and rng.random() < 0.25:
        cold = 15.0 * rng.uniform(0.3, 1.0)  # food
    racks = np.clip(1 + 0.012 * (temperature - 20) + 0.15 * present, 0.6, None) * cold * density
    cycled = 0.4 / math.sqrt(max(building.area / 500, 1))
    refrigeration = (1 - cycled) * racks
    refrigeration += _packets(cycled * racks, 1.4 * cycled * cold * density, rng)
    return refrigeration


def _water(
    building: SampleBuilding, density: float, present: Array, rng: np.random.Generator
) -> Array:
    demand = KINDS[building.kind].water
    is_electric = rng.random() < 0.5
    water = demand * density * is_electric * (0.1 + present)
    water *= np.maximum(1 + 0.4 * autoregressive(rng, len(present), 1), 0.1)
    return _packets(water, demand * max(2.5 * math.sqrt(200 / building.area), 0.15), rng)


def _at(stamps: pd.DatetimeIndex, hourly: pd.Series) -> Array:
    """Hourly values on a straight line between their stamps."""
    start = hourly.index[0]
    hour = pd.Timedelta("1h")
    known = np.asarray((pd.DatetimeIndex(hourly.index) - start) / hour)
    return np.asarray(np.interp(np.asarray((stamps - start) / hour), known, hourly.to_numpy()))


def _packets(demand: Array, size: float, rng: np.random.Generator) -> Array:
    """Serve a smooth `demand` by equipment that is either off or runs at power `size`."""
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
