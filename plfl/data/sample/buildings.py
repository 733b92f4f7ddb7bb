"""Buildings of the sample data: their types, and buildings drawn at random from these.

Densities are in W/m² of floor area, with magnitudes similar to the commercial reference buildings
of the U.S. Department of Energy.
"""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import TypeAdapter
from scipy.special import ndtri

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
class Kind:
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


ALWAYS = (0.0, 24.0)
"""Hours of a building that never closes."""
KINDS = TypeAdapter(dict[str, Kind]).validate_python(
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
    model = KINDS[kind]
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
