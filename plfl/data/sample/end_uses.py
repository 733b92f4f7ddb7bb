"""A year of electricity of a sample building, computed bottom-up from its end uses.

Opening hours determine the use of lights and appliances. Their heat and the weather determine the
air conditioning.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from plfl.base.array_types import Floats
from plfl.data.sample.buildings import (
    BUILDING_KINDS,
    INTERVAL_HOURS,
    BuildingKind,
    LocalTime,
    SampleBuilding,
)
from plfl.data.sample.places import STATES
from plfl.data.sample.weather import (
    RADIATION,
    TEMPERATURE,
    apply_lag,
    autoregressive,
    elevation,
    weather,
)
from plfl.layout import Mask


@dataclass(frozen=True)
class _ThermalZone:
    """Influences that a thermostat must balance; arrays have one value per interval."""

    outdoor: Floats
    """Outdoor temperature in °C."""
    exchange: Floats
    """Loss to the outside, through the envelope and by fresh air, in W/K."""
    heat: Floats
    """Heat from people, equipment and the sun in W."""
    scheduled: Mask
    """Whether the building is ventilated."""


@dataclass(frozen=True)
class _Size:
    """The greatest power of a unit, in W."""

    cooling: float
    heating: float


@dataclass(frozen=True)
class _Operation:
    """The output of units."""

    cooling: Floats
    """Heat taken away in W."""
    heating: Floats
    """Heat brought in, in W."""
    running: Floats
    """Share of the fans that run."""


def air_conditioning(
    building: SampleBuilding,
    temperature: Floats,
    radiation: Floats,
    gains: Floats,
    ventilated: Mask,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Electric power of the end uses that keep the set points, in W/m² of floor, given the outdoor
    temperature in °C, solar radiation in W/m², the gains of heat from people, lights and equipment
    in W/m² of floor, and when fresh air is supplied."""
    kind = BUILDING_KINDS[building.kind]
    walls, windows = building.wall_area / building.area, building.window_area / building.area
    envelope = rng.uniform(0.4, 0.9) * walls + 2.7 * windows + 0.35 / building.stories
    loss = kind.heated * (envelope + 0.33 * 3.5 * rng.uniform(0.1, 0.35))
    recovery = rng.uniform(0.4, 0.8)  # demand control and heat recovery save fresh air
    exchange = loss + kind.heated * kind.air * recovery * ventilated.astype(float)
    solar = apply_lag(0.2 * (0.35 * 0.4 * windows * radiation), 0.8)
    zone = _ThermalZone(temperature, exchange, kind.heated * gains + solar, ventilated)
    operation, size = _operate(building, zone, rng)
    return _powers(building, zone, operation, size, rng)


def _operate(
    building: SampleBuilding, zone: _ThermalZone, rng: np.random.Generator
) -> tuple[_Operation, _Size]:
    """The operation of all units of a building, and their total size."""
    kind = BUILDING_KINDS[building.kind]
    warm, cool = rng.uniform(22.8, 24.5), rng.uniform(20.0, 21.5)
    setback = rng.uniform(1.0, 5.0)
    hottest, coldest = np.quantile(zone.outdoor, [0.996, 0.004])
    design = zone.exchange.max()
    size = _Size(
        max(design * (hottest - warm), 0) + np.quantile(zone.heat, 0.98) + 8 * kind.heated,
        1.25 * design * (cool - coldest) + 12 * kind.heated,
    )
    served = 500 * rng.uniform(0.6, 1.6)  # m² by a packaged unit; more than 4 are as smooth as 4
    units = 1 if building.hvac == "central" else int(np.clip(building.area / served, 1, 4))
    shares = rng.dirichlet(np.full(units, 6.0))
    never_off = rng.random() < 0.3  # fans that nobody switches off at night
    cooling, heating, running = (np.zeros(len(zone.outdoor)) for _ in range(3))
    for share in shares:
        offset = rng.normal(0, 0.4)
        low = np.where(zone.scheduled, cool, cool - setback) + offset
        high = np.where(zone.scheduled, warm, warm + setback) + offset
        unit = _thermostat(zone, low, high, size, is_cycling=building.hvac == "packaged")
        cooling += share * unit.cooling
        heating += share * unit.heating
        running += share * (1.0 if never_off else unit.running)
    return _Operation(cooling, heating, running), size


def _powers(
    building: SampleBuilding,
    zone: _ThermalZone,
    operation: _Operation,
    size: _Size,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """The electric power that an operation takes, by end use."""
    kind, outdoor = BUILDING_KINDS[building.kind], zone.outdoor
    cooling, heating = operation.cooling, operation.heating
    is_central = building.hvac == "central"
    economizer = rng.random() < (0.8 if is_central else 0.5)
    free = np.clip((20 - outdoor) / 8, 0, 1) * economizer
    rating = (5.0 if is_central else 3.4) * rng.uniform(0.85, 1.15)
    efficiency = rating * np.clip(1 - 0.013 * (outdoor - 28), 0.7, 1.35)
    load = np.maximum(cooling, heating) / max(size.cooling, size.heating)
    fan = rng.uniform(2.5, 5.0) * kind.heated * (1 + 0.3 * kind.air)
    flow = 0.3 + 0.7 * load if is_central else np.ones_like(load)
    performance: dict[str, Floats | float] = {
        "gas": np.inf,
        "heat_pump": np.clip(2.8 + 0.06 * outdoor, 1.2, 3.8),
        "resistance": 1.0,
    }
    stages = 3
    pumping = np.ceil(stages * load) / stages if is_central else 0.02 * np.sign(heating)
    return {
        "cooling": cooling * (1 - free) / efficiency,
        "heating": heating / performance[building.heating],
        "heat_recovery": np.zeros_like(heating),
        "heat_rejection": 0.03 * cooling * is_central,
        "fans": fan * operation.running * flow**2,
        "pumps": rng.uniform(0.8, 2.0) * kind.heated * pumping,
    }


def _thermostat(
    zone: _ThermalZone, low: Floats, high: Floats, size: _Size, is_cycling: bool
) -> _Operation:
    """The operation of a unit that keeps `low` to `high` °C.

    Air and building mass are one node each, integrated implicitly:
    `C_air dT/dt = exchange (outdoor - T) + H (T_mass - T) + heat + heating - cooling`. On schedule
    the unit gives exactly what is needed, up to its size. At night a unit that `is_cycling`, as
    packaged ones do, starts when the temperature leaves the set-back limits, gives full power for
    half an hour, and stops.
    """
    capacity, coupling, mass = 9.0, 4.0, 55.0  # Wh/K, W/K, Wh/K per m²
    # This loop takes half of the time of a building: local variables make it faster.
    inertia, follows = capacity / INTERVAL_HOURS, INTERVAL_HOURS * coupling / mass
    coldest, hottest = -size.cooling, size.heating
    weight = inertia + zone.exchange + coupling  # W per kelvin of the air in one step
    constant = zone.exchange * zone.outdoor + zone.heat
    scheduled = zone.scheduled | (not is_cycling)
    air = core = 0.5 * (float(low[0]) + float(high[0]))
    burst, steps_left = 0.0, 0
    needs = []
    rows = (weight, constant, low, high, scheduled)
    for w, c, floor, ceiling, is_on in zip(*(values.tolist() for values in rows), strict=True):
        air = (inertia * air + c + coupling * core) / w
        need = 0.0  # above 0: heat, below: cold
        if is_on:
            steps_left = 0
            if air > ceiling:
                need = max((ceiling - air) * w, coldest)
            elif air < floor:
                need = min((floor - air) * w, hottest)
        elif steps_left:
            need, steps_left = burst, steps_left - 1
        elif air > ceiling:
            need = burst = max((ceiling - 2.5 - air) * w, coldest)
            steps_left = 1
        elif air < floor:
            need = burst = min((floor + 2.5 - air) * w, hottest)
            steps_left = 1
        if need:
            air += need / w
        needs.append(need)
        core += follows * (air - core)
    needed_heat = np.array(needs)
    runs = zone.scheduled | (needed_heat != 0)
    return _Operation(np.maximum(-needed_heat, 0), np.maximum(needed_heat, 0), runs.astype(float))


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
    kind = BUILDING_KINDS[building.kind]
    rng = np.random.default_rng([seed, _SERIES, place.fips, building.bldg_id])
    stamps = pd.date_range(end=STAMPS[-1], periods=len(STAMPS) + _WARM_UP, freq="15min")
    standard = stamps + pd.Timedelta(hours=place.offset + 5)
    outdoor = weather(building.state, building.county.gisjoin, seed)
    temperature = _interpolate(standard, outdoor[TEMPERATURE])
    radiation = _interpolate(
        standard + pd.Timedelta("30min"), outdoor[RADIATION]
    )  # of the hour's middle
    is_dark = elevation(building.county, place.offset, standard) < -0.05

    clock = LocalTime.at_stamps(stamps, place.zone, kind, rng)
    ramp = rng.uniform(0.5, 3.5)
    present = clock.open(ramp=ramp) * clock.rhythm(kind.peaks, rng)
    lit = clock.open(
        hours_before=rng.uniform(0.2, 0.8), hours_after=rng.uniform(0.2, 1.2), ramp=0.7 * ramp
    )
    ventilated = (
        clock.open(hours_before=rng.uniform(0.7, 2.0), hours_after=rng.uniform(0, 0.7), ramp=0.01)
        > 0.15
    )

    light_factor, equipment_factor, cold_factor, water_factor, _ = np.exp(
        0.3 * rng.standard_normal(5)
    )
    # The switching of many appliances averages out.
    grain = 0.25 / math.sqrt(max(building.area / 300, 1))
    lights = _lights(light_factor * kind.lights, lit, radiation, grain, rng)
    equipment = _equipment(kind, equipment_factor, present, grain, rng)
    exterior = _exterior(kind, clock, is_dark, rng)
    refrigeration = _refrigeration(building, cold_factor, temperature, present, rng)
    water = _water(building, water_factor, present, rng)
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
    energies = {
        use: (powers[use] * kilowatt * INTERVAL_HOURS)[_WARM_UP:].round(4) + 0.0 for use in END_USES
    }
    return pd.DataFrame(energies, index=STAMPS)


def _lights(
    density: float, lit: Floats, radiation: Floats, grain: float, rng: np.random.Generator
) -> Floats:
    night = 0.1 + 0.6 * rng.random() ** 1.5
    dims_by_day = rng.random() < 0.3
    lights: Floats = density * (night + (1 - night) * lit)
    lights *= 1 - 0.3 * dims_by_day * np.minimum(radiation / 400, 1)
    lights *= 1 + 0.3 * grain * autoregressive(rng, len(lit), 3)
    return lights


def _equipment(
    kind: BuildingKind, density: float, present: Floats, grain: float, rng: np.random.Generator
) -> Floats:
    n = len(present)
    running = present * (1 + grain * autoregressive(rng, n, 2) + 0.05 * autoregressive(rng, n, 900))
    running += grain * (_switch_at_random(rng, n, mean_on=3, mean_off=12) - 0.2) * present
    standby = np.clip(kind.standby * rng.uniform(0.8, 2.4), 0, 0.85)
    equipment: Floats = kind.equipment * density * (standby + (1 - standby) * running)
    return np.maximum(equipment, 0.1 * kind.equipment)


def _exterior(
    kind: BuildingKind, clock: LocalTime, is_dark: Mask, rng: np.random.Generator
) -> Floats:
    dimmed = rng.choice([0.4, 1.0])
    is_late = clock.open(hours_before=1.0, hours_after=1.5, ramp=0.01) < 0.15
    exterior = kind.exterior * math.exp(rng.standard_normal()) * is_dark
    return np.asarray(exterior * np.where(is_late, dimmed, 1.0))


def _refrigeration(
    building: SampleBuilding,
    density: float,
    temperature: Floats,
    present: Floats,
    rng: np.random.Generator,
) -> Floats:
    cold = BUILDING_KINDS[building.kind].refrigeration
    if building.kind.startswith("Retail") and rng.random() < 0.25:
        cold = 15.0 * rng.uniform(0.3, 1.0)  # food
    racks = np.clip(1 + 0.012 * (temperature - 20) + 0.15 * present, 0.6, None) * cold * density
    cycled = 0.4 / math.sqrt(max(building.area / 500, 1))
    refrigeration = (1 - cycled) * racks
    refrigeration += _packets(cycled * racks, 1.4 * cycled * cold * density, rng)
    return refrigeration


def _water(
    building: SampleBuilding, density: float, present: Floats, rng: np.random.Generator
) -> Floats:
    demand = BUILDING_KINDS[building.kind].water
    is_electric = rng.random() < 0.5
    water = demand * density * is_electric * (0.1 + present)
    water *= np.maximum(1 + 0.4 * autoregressive(rng, len(present), 1), 0.1)
    return _packets(water, demand * max(2.5 * math.sqrt(200 / building.area), 0.15), rng)


def _interpolate(stamps: pd.DatetimeIndex, hourly: pd.Series) -> Floats:
    """Hourly values on a straight line between their stamps."""
    start = hourly.index[0]
    hour = pd.Timedelta("1h")
    known_hours = np.asarray((pd.DatetimeIndex(hourly.index) - start) / hour)
    return np.asarray(
        np.interp(np.asarray((stamps - start) / hour), known_hours, hourly.to_numpy())
    )


def _packets(demand: Floats, size: float, rng: np.random.Generator) -> Floats:
    """Serve a smooth `demand` by equipment that is either off or runs at power `size`."""
    if size <= 0:
        return np.zeros(len(demand))
    served = np.floor(rng.random() + np.cumsum(demand) / size)
    return np.diff(served, prepend=0.0) * size


def _switch_at_random(rng: np.random.Generator, n: int, mean_on: float, mean_off: float) -> Floats:
    """A large appliance that is on (1) or off (0) for exponential times with means `mean_on` and
    `mean_off`."""
    count = int(3 * n / (mean_on + mean_off)) + 10
    lengths = np.column_stack(
        [
            rng.exponential(mean_off, count).astype(int) + 1,
            rng.exponential(mean_on, count).astype(int) + 1,
        ]
    ).ravel()
    return np.repeat(np.tile([0.0, 1.0], count), lengths)[:n]
