"""Buildings of the sample data: their types, and buildings drawn at random from these.

Densities are in W/m² of floor area, with magnitudes similar to the commercial reference buildings
of the U.S. Department of Energy.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtri

from plfl.data.sample.places import STATES, County

Hours = tuple[float, float] | None
"""Opening and closing hour; None for a closed day, beyond 24 for past midnight."""

SQUARE_FEET = 10.7639
"""Square feet in a square metre."""

_BUILDING, _SIZES = 2, 4  # streams of random numbers

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


ALWAYS = (0.0, 24.0)
"""Hours of a building that never closes."""
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
        (32_000, 0.65), (2, 4), 0.20, ALWAYS, ALWAYS, ALWAYS, _NEVER,
        lights=4, equipment=6, standby=0.35, people=2.5, air=0.4, peaks=_MORNING_EVENING,
        exterior=1.6, water=1.5),
    "LargeHotel": Kind(
        (130_000, 0.75), (4, 12), 0.30, ALWAYS, ALWAYS, ALWAYS, _NEVER,
        lights=4.5, equipment=7, standby=0.4, people=2.5, air=0.5, peaks=_MORNING_EVENING,
        exterior=0.8, refrigeration=0.4, water=1.0, central=1.0),
    "Outpatient": Kind(
        (28_000, 0.95), (1, 4), 0.22, (7, 18), (8, 14), None, _MAJOR,
        lights=7.5, equipment=14, standby=0.45, people=7, air=0.9, central=0.4),
    "Hospital": Kind(
        (240_000, 0.75), (3, 8), 0.18, ALWAYS, ALWAYS, ALWAYS, _NEVER,
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
