"""Weather of the sample data: generated hourly years with the climates of actual counties.

No day was recorded: the climate (means, swings, ranges, wind) is that of the county, but the days
are random. Clear-sky radiation follows Haurwitz (1945), its reduction by clouds Kasten & Czeplak
(1980), its diffuse share Erbs et al. (1982), and humidity the Magnus formula.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d
from scipy.signal import lfilter

Array = NDArray[np.float64]

TEMPERATURE = "Dry Bulb Temperature [°C]"
WIND_SPEED = "Wind Speed [m/s]"
RADIATION = "Global Horizontal Radiation [W/m2]"

MARGIN = pd.Timedelta("4D")
"""Extra time generated before and after 2018, for other time zones and the thermal history."""

_STORMS, _COUNTY = 0, 1  # streams of random numbers


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


def autoregressive(rng: np.random.Generator, size: int, steps: float) -> Array:
    """A stationary AR(1) series of unit variance that forgets with a time constant of `steps`."""
    keep = np.exp(-1 / steps)
    noise = rng.standard_normal(size) * np.sqrt(1 - keep**2)
    noise[0] /= np.sqrt(1 - keep**2)
    return np.asarray(lfilter([1.0], [1.0, -keep], noise))


def elevation(county: County, offset: int, stamps: pd.DatetimeIndex) -> Array:
    """Sine of the sun's elevation at `stamps` of local standard time, `offset` hours from UTC."""
    day = np.asarray(stamps.day_of_year, dtype=float)
    hour = np.asarray(stamps.hour + stamps.minute / 60, dtype=float)
    declination = np.radians(23.45) * np.sin(2 * np.pi * (284 + day) / 365)
    angle = np.radians(15 * (hour - 12) + county.longitude - 15 * offset)
    latitude = np.radians(county.latitude)
    return np.asarray(
        np.sin(latitude) * np.sin(declination)
        + np.cos(latitude) * np.cos(declination) * np.cos(angle)
    )


@lru_cache(maxsize=16)
def weather(state: str, gisjoin: str, seed: int) -> pd.DataFrame:
    """The county's weather in ComStock's columns, hourly, indexed by hour-ending standard time.

    Covers 2018 and `MARGIN` on both sides. It depends on the arguments only.
    """
    place = STATES[state]
    county = next(c for c in place.counties if c.gisjoin == gisjoin)
    stamps = pd.date_range(
        pd.Timestamp("2018-01-01 01:00") - MARGIN, pd.Timestamp("2019-01-01") + MARGIN, freq="h"
    )
    n = len(stamps)
    rng = np.random.default_rng([seed, _COUNTY, int(gisjoin[1:])])
    hours = np.arange(n) - MARGIN / pd.Timedelta("1h")
    season = np.cos(2 * np.pi * (hours / 24 - county.warmest) / 365)  # 1 in summer, -1 in winter

    clouds = 1 / (1 + np.exp(-(1.6 * autoregressive(rng, n, 14) + 4 * (county.clouds - 0.5))))
    sun = np.maximum(elevation(county, place.offset, stamps - pd.Timedelta("30min")), 0)
    with np.errstate(divide="ignore"):
        clear = 1098 * sun * np.exp(-0.057 / sun)
    ghi = clear * (1 - 0.75 * clouds**3.4)
    clearness = np.divide(ghi, 1361 * sun, out=np.zeros(n), where=sun > 0.02)
    dhi = ghi * _diffuse(clearness)
    dni = np.divide(ghi - dhi, sun, out=np.zeros(n), where=sun > 0.02)

    storms = _storms(place, seed, season)
    local = 0.8 * autoregressive(rng, n, 30)
    warmth = np.asarray(lfilter([0.2], [1.0, -0.8], ghi))  # the ground and air follow the sun
    warmth -= uniform_filter1d(warmth, 24)
    ranges = np.ptp(warmth[: n // 24 * 24].reshape(-1, 24), axis=1)
    daily = warmth * county.daily / ranges.mean()
    temperature = county.mean + county.swing * season + storms + local + daily

    dryness = 3 + 6 * (1 - county.clouds) + 2.5 * autoregressive(rng, n, 24)
    dew = np.minimum(uniform_filter1d(temperature, 24) - dryness + 2, temperature - 0.2)
    humidity = 100 * np.exp(_magnus(dew) - _magnus(temperature))
    gust = 0.45 * autoregressive(rng, n, 8) + 0.25 * (daily / county.daily)
    wind = county.wind * np.exp(gust - 0.1)
    direction = (250 + 70 * autoregressive(rng, n, 12)) % 360

    return pd.DataFrame(
        {
            TEMPERATURE: temperature.round(2),
            "Relative Humidity [%]": humidity.round(2),
            WIND_SPEED: wind.round(1),
            "Wind Direction [Deg]": direction.round(-1),
            RADIATION: ghi.round(1),
            "Direct Normal Radiation [W/m2]": dni.round(1),
            "Diffuse Horizontal Radiation [W/m2]": dhi.round(1),
        },
        index=pd.DatetimeIndex(stamps, name="date_time"),
    )


def _storms(place: State, seed: int, season: Array) -> Array:
    """Weather systems that cross the whole state, with its heat waves and cold snaps, in °C."""
    rng = np.random.default_rng([seed, _STORMS, place.fips])
    n = len(season)
    systems = autoregressive(rng, n, 40) + autoregressive(rng, n, 90)
    systems = np.asarray(lfilter([0.15], [1.0, -0.85], systems))  # fronts take hours to pass
    winter, summer = place.storms
    spread = winter + (summer - winter) * (season + 1) / 2
    series = systems / systems.std() * spread
    spells = np.zeros(n)
    for count, months, size in (
        (place.heat_waves, (155, 255), 2.0 * summer),
        (place.cold_snaps, (-5, 60), -1.4 * winter),
    ):
        for _ in range(rng.poisson(count)):
            middle = 24 * rng.uniform(*months) + MARGIN / pd.Timedelta("1h")
            width = 24 * rng.uniform(1.0, 2.2)
            shape = np.exp(-0.5 * ((np.arange(n) - middle) / width) ** 2)
            spell = size * rng.uniform(0.6, 1.3) * shape
            spells = np.where(np.abs(spell) > np.abs(spells), spell, spells)
    return np.asarray(series + spells)


def _diffuse(clearness: Array) -> Array:
    """Diffuse share of global radiation (Erbs et al. 1982)."""
    k = clearness
    middle = 0.9511 - 0.1604 * k + 4.388 * k**2 - 16.638 * k**3 + 12.336 * k**4
    return np.where(k <= 0.22, 1 - 0.09 * k, np.where(k <= 0.8, middle, 0.165))


def _magnus(celsius: Array) -> Array:
    """Logarithm of the saturation vapour pressure, up to a constant."""
    return 17.625 * celsius / (243.04 + celsius)
