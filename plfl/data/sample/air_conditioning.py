"""Heating, cooling and ventilation of a sample building.

Packaged units, chillers or heat pumps keep the set points of a thermostat in a two-node (air and
mass) model of the building, and cycle at night. All powers are per m² of floor area.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plfl.data.sample.buildings import KINDS, SampleBuilding
from plfl.data.sample.hours import STEP, Array
from plfl.data.sample.weather import lagged

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class _Zone:
    """Influences that a thermostat must balance; arrays have one value per interval."""

    outdoor: Array
    """Outdoor temperature in °C."""
    exchange: Array
    """Loss to the outside, through the envelope and by fresh air, in W/K."""
    heat: Array
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

    cooling: Array
    """Heat taken away in W."""
    heating: Array
    """Heat brought in, in W."""
    running: Array
    """Share of the fans that run."""


def air_conditioning(
    building: SampleBuilding,
    temperature: Array,
    radiation: Array,
    gains: Array,
    ventilated: Mask,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Electric power of the end uses that keep the set points, in W/m² of floor, given the outdoor
    temperature in °C, solar radiation in W/m², the gains of heat from people, lights and equipment
    in W/m² of floor, and when fresh air is supplied."""
    kind = KINDS[building.kind]
    walls, windows = building.wall_area / building.area, building.window_area / building.area
    envelope = rng.uniform(0.4, 0.9) * walls + 2.7 * windows + 0.35 / building.stories
    loss = kind.heated * (envelope + 0.33 * 3.5 * rng.uniform(0.1, 0.35))
    recovery = rng.uniform(0.4, 0.8)  # demand control and heat recovery save fresh air
    exchange = loss + kind.heated * kind.air * recovery * ventilated.astype(float)
    solar = lagged(0.2 * (0.35 * 0.4 * windows * radiation), 0.8)
    zone = _Zone(temperature, exchange, kind.heated * gains + solar, ventilated)
    operation, size = _operate(building, zone, rng)
    return _powers(building, zone, operation, size, rng)


def _operate(
    building: SampleBuilding, zone: _Zone, rng: np.random.Generator
) -> tuple[_Operation, _Size]:
    """The operation of all units of a building, and their total size."""
    kind = KINDS[building.kind]
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
        unit = _thermostat(zone, low, high, size, cycles=building.hvac == "packaged")
        cooling += share * unit.cooling
        heating += share * unit.heating
        running += share * (1.0 if never_off else unit.running)
    return _Operation(cooling, heating, running), size


def _powers(
    building: SampleBuilding,
    zone: _Zone,
    operation: _Operation,
    size: _Size,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """The electric power that an operation takes, by end use."""
    kind, outdoor = KINDS[building.kind], zone.outdoor
    cooling, heating = operation.cooling, operation.heating
    is_central = building.hvac == "central"
    economizer = rng.random() < (0.8 if is_central else 0.5)
    free = np.clip((20 - outdoor) / 8, 0, 1) * economizer
    rating = (5.0 if is_central else 3.4) * rng.uniform(0.85, 1.15)
    efficiency = rating * np.clip(1 - 0.013 * (outdoor - 28), 0.7, 1.35)
    load = np.maximum(cooling, heating) / max(size.cooling, size.heating)
    fan = rng.uniform(2.5, 5.0) * kind.heated * (1 + 0.3 * kind.air)
    flow = 0.3 + 0.7 * load if is_central else np.ones_like(load)
    performance: dict[str, Array | float] = {
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


def _thermostat(zone: _Zone, low: Array, high: Array, size: _Size, cycles: bool) -> _Operation:
    """The operation of a unit that keeps `low` to `high` °C.

    Air and building mass are one node each, integrated implicitly:
    `C_air dT/dt = exchange (outdoor - T) + H (T_mass - T) + heat + heating - cooling`. On schedule
    the unit gives exactly what is needed, up to its size. At night a packaged unit, if it `cycles`,
    starts when the temperature leaves the set-back limits, gives full power for half an hour, and
    stops.
    """
    capacity, coupling, mass = 9.0, 4.0, 55.0  # Wh/K, W/K, Wh/K per m²
    # This loop takes half of the time of a building: local variables make it faster.
    inertia, follows = capacity / STEP, STEP * coupling / mass
    coldest, hottest = -size.cooling, size.heating
    weight = inertia + zone.exchange + coupling  # W per kelvin of the air in one step
    constant = zone.exchange * zone.outdoor + zone.heat
    scheduled = zone.scheduled | (not cycles)
    air = core = 0.5 * (float(low[0]) + float(high[0]))
    burst, left = 0.0, 0
    needs = []
    rows = (weight, constant, low, high, scheduled)
    for w, c, floor, ceiling, on in zip(*(values.tolist() for values in rows), strict=True):
        air = (inertia * air + c + coupling * core) / w
        need = 0.0  # above 0: heat, below: cold
        if on:
            left = 0
            if air > ceiling:
                need = max((ceiling - air) * w, coldest)
            elif air < floor:
                need = min((floor - air) * w, hottest)
        elif left:
            need, left = burst, left - 1
        elif air > ceiling:
            need = burst = max((ceiling - 2.5 - air) * w, coldest)
            left = 1
        elif air < floor:
            need = burst = min((floor + 2.5 - air) * w, hottest)
            left = 1
        if need:
            air += need / w
        needs.append(need)
        core += follows * (air - core)
    given = np.array(needs)
    runs = zone.scheduled | (given != 0)
    return _Operation(np.maximum(-given, 0), np.maximum(given, 0), runs.astype(float))
