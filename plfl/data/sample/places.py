"""The states and counties of the sample data, with the climates of actual counties.

This module imports little, because the workflow lists the buildings each time it starts.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter


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
class State:
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


STATES = TypeAdapter(dict[str, State]).validate_python(
    tomllib.loads(Path(__file__).with_name("places.toml").read_text(encoding="utf-8"))
)
"""The states with sample data."""
