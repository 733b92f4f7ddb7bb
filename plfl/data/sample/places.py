"""The states and counties of the sample data, with the climates of actual counties.

This module imports little, because the workflow lists the buildings each time it starts.
"""

from dataclasses import dataclass


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


STATES = {
    "CA": State(
        fips=6,
        zone="America/Los_Angeles",
        offset=-8,
        counties=(
            County("G0600370", "3B", 34.1, -118.2, 18.4, 4.6, 9.5, 2.6, 0.30, warmest=222),
            County("G0600730", "3B", 32.8, -117.1, 17.8, 4.0, 8.0, 2.9, 0.33, warmest=226),
            County("G0600010", "3C", 37.7, -122.1, 14.9, 4.2, 9.0, 3.9, 0.38, warmest=218),
            County("G0600650", "3B", 33.9, -117.2, 19.6, 7.8, 15.0, 2.6, 0.22),
            County("G0600190", "3B", 36.8, -119.8, 18.6, 9.8, 14.0, 2.8, 0.28),
            County("G0600670", "3B", 38.5, -121.4, 16.9, 8.2, 13.5, 3.1, 0.33),
        ),
        storms=(2.2, 1.4),
        heat_waves=3.0,
        cold_snaps=0.5,
    ),
    "IL": State(
        fips=17,
        zone="America/Chicago",
        offset=-6,
        counties=(
            County("G1700310", "5A", 41.8, -87.8, 10.6, 13.4, 8.8, 4.6, 0.55),
            County("G1701670", "5A", 39.8, -89.7, 11.9, 13.2, 10.5, 4.8, 0.52),
            County("G1701630", "4A", 38.5, -89.9, 13.4, 12.4, 11.0, 3.8, 0.50),
        ),
        storms=(6.0, 1.7),
        heat_waves=3.0,
        cold_snaps=3.0,
    ),
    "NY": State(
        fips=36,
        zone="America/New_York",
        offset=-5,
        counties=(
            County("G3600610", "4A", 40.8, -74.0, 13.0, 12.0, 7.2, 4.4, 0.50),
            County("G3600290", "5A", 42.9, -78.8, 9.3, 12.3, 8.5, 5.0, 0.64),
            County("G3600010", "5A", 42.7, -73.8, 9.5, 13.0, 10.5, 3.7, 0.56),
            County("G3601030", "4A", 40.8, -72.9, 11.9, 11.6, 8.8, 4.5, 0.50, warmest=208),
        ),
        storms=(5.4, 1.7),
        heat_waves=3.0,
        cold_snaps=3.0,
    ),
}
"""The states with sample data."""
