"""The states and counties of the sample data, with the climates of actual counties, and the ids and
types of the buildings.

This module imports little, because the workflow lists the buildings each time it starts.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from plfl.base.errors import DataError, Problem
from plfl.base.keys import Key


@dataclass(frozen=True)
class County:
    """A county's climate; temperatures in °C."""

    gisjoin: str
    zone: str
    """Its climate zone, ASHRAE 169-2006."""
    latitude: float
    longitude: float
    mean: float
    """Annual mean temperature."""
    swing: float
    """Half the difference of the warmest and the coldest month."""
    daily: float
    """Mean difference of a day's warmest and coldest hour."""
    wind: float
    """Mean wind speed, m/s."""
    clouds: float
    """Mean cloud cover, 0 to 1."""
    warmest: int = 202
    """Day of the year of the seasonal peak; the sea delays it."""


@dataclass(frozen=True)
class SampleState:
    """A state: its counties, its time zone, and the variability of its weather."""

    fips: int
    zone: str
    offset: int
    """Hours of local standard time from UTC."""
    counties: tuple[County, ...]
    storms: tuple[float, float]
    """Standard deviation of the daily mean temperature in winter and summer, °C."""
    heat_waves: float
    """Expected heat waves per year."""
    cold_snaps: float
    """Expected cold snaps per year."""


STATES = TypeAdapter(dict[str, SampleState]).validate_python(
    tomllib.loads(Path(__file__).with_name("places.toml").read_text(encoding="utf-8"))
)
"""The states with sample data."""
MIX = (
    *("SmallOffice", "RetailStandalone", "QuickServiceRestaurant", "Warehouse", "MediumOffice"),
    *("RetailStripmall", "PrimarySchool", "FullServiceRestaurant", "SmallHotel", "Outpatient"),
    *("LargeOffice", "SecondarySchool", "Hospital", "LargeHotel"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("FullServiceRestaurant", "MediumOffice", "PrimarySchool"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("QuickServiceRestaurant", "SmallHotel", "Outpatient"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("FullServiceRestaurant", "SecondarySchool", "MediumOffice"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("QuickServiceRestaurant", "SmallOffice", "Warehouse"),
)
"""The types of a state's buildings, in order: all 14 once, then mainly common ones."""


MOST_BUILDINGS = 9_999
"""Maximum number of sample buildings per state, limited by the digits of the ids."""


def buildings(state: str, count: int = 0) -> list[int]:
    """Ids of the first 42 sample buildings of a state, in order, or of the first `count` if that is
    more; DataError if there are no sample data for the state.

    The first 12 have 12 different types. After the 42nd, the types repeat in the same order. An id
    consists of 9, the state's FIPS code and a number; no building of ComStock has such an id.
    """
    if state not in STATES:
        raise DataError(
            Problem(
                Key("data.states"),
                f"there are no sample data for {state!r}, only for {', '.join(STATES)}",
            )
        )
    first = 9_000_000 + 10_000 * STATES[state].fips + 1
    return list(range(first, first + min(max(count, len(MIX)), MOST_BUILDINGS)))


def kind(state: str, bldg_id: int) -> str:
    """The type of the sample building of this id."""
    return MIX[(bldg_id - buildings(state)[0]) % len(MIX)]
