"""Weather of the sample data: generated hourly years with the climates of actual counties.

No day is a recorded one: the climate (means, swings, ranges, wind) is that of the county, but the
days are random. Clear-sky radiation follows Haurwitz (1945), its reduction by clouds Kasten &
Czeplak (1980), its diffuse share Erbs et al. (1982), and humidity the Magnus formula.
"""

from functools import lru_cache

import numpy as np
import pandas as pd
from scipy.ndimage import uniform_filter1d

from plfl.base.array_types import Floats
from plfl.data.sample.places import STATES, County, SampleState

TEMPERATURE = "Dry Bulb Temperature [°C]"
WIND_SPEED = "Wind Speed [m/s]"
RADIATION = "Global Horizontal Radiation [W/m2]"

EXTRA_TIME = pd.Timedelta("4D")
"""Extra time generated before and after 2018, for other time zones and the thermal history."""

_STORMS, _COUNTY = 0, 1  # streams of random numbers


def autoregressive(rng: np.random.Generator, size: int, steps: float) -> Floats:
    """A stationary AR(1) series of unit variance with a time constant of `steps`."""
    keep = np.exp(-1 / steps)
    noise = rng.standard_normal(size) * np.sqrt(1 - keep**2)
    noise[0] /= np.sqrt(1 - keep**2)
    return apply_lag(noise, float(keep))


def apply_lag(values: Floats, keep: float) -> Floats:
    """A first-order lag: `y[i] = values[i] + keep · y[i - 1]`, with nothing before `y[0]`.

    The same bits as `scipy.signal.lfilter([1], [1, -keep], values)`, which takes longer to import
    than ten buildings take here.
    """
    last, smoothed = 0.0, []
    for value in values.tolist():
        last = value + keep * last
        smoothed.append(last)
    return np.array(smoothed)


def elevation(county: County, offset: int, stamps: pd.DatetimeIndex) -> Floats:
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
    """The county's weather in ComStock's columns, hourly, indexed by hour-ending standard time, in
    2018 and `EXTRA_TIME` on both sides. It depends on the arguments only."""
    place = STATES[state]
    county = next(c for c in place.counties if c.gisjoin == gisjoin)
    stamps = pd.date_range(
        pd.Timestamp("2018-01-01 01:00") - EXTRA_TIME,
        pd.Timestamp("2019-01-01") + EXTRA_TIME,
        freq="h",
    )
    n = len(stamps)
    rng = np.random.default_rng([seed, _COUNTY, int(gisjoin[1:])])
    hours = np.arange(n) - EXTRA_TIME / pd.Timedelta("1h")
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
    warmth = apply_lag(0.2 * ghi, 0.8)  # the ground and air follow the sun
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


def _storms(state: SampleState, seed: int, season: Floats) -> Floats:
    """Weather systems that cross the whole state, with its heat waves and cold snaps, in °C."""
    rng = np.random.default_rng([seed, _STORMS, state.fips])
    n = len(season)
    systems = autoregressive(rng, n, 40) + autoregressive(rng, n, 90)
    systems = apply_lag(0.15 * systems, 0.85)  # fronts take hours to pass
    winter, summer = state.storms
    spread = winter + (summer - winter) * (season + 1) / 2
    series = systems / systems.std() * spread
    spells = np.zeros(n)
    for count, months, size in (
        (state.heat_waves, (155, 255), 2.0 * summer),
        (state.cold_snaps, (-5, 60), -1.4 * winter),
    ):
        for _ in range(rng.poisson(count)):
            middle = 24 * rng.uniform(*months) + EXTRA_TIME / pd.Timedelta("1h")
            width = 24 * rng.uniform(1.0, 2.2)
            shape = np.exp(-0.5 * ((np.arange(n) - middle) / width) ** 2)
            spell = size * rng.uniform(0.6, 1.3) * shape
            spells = np.where(np.abs(spell) > np.abs(spells), spell, spells)
    return np.asarray(series + spells)


def _diffuse(clearness: Floats) -> Floats:
    """Diffuse fraction of global radiation (Erbs et al. 1982)."""
    k = clearness
    middle = 0.9511 - 0.1604 * k + 4.388 * k**2 - 16.638 * k**3 + 12.336 * k**4
    return np.where(k <= 0.22, 1 - 0.09 * k, np.where(k <= 0.8, middle, 0.165))


def _magnus(celsius: Floats) -> Floats:
    """Logarithm of the saturation vapour pressure, up to a constant."""
    return 17.625 * celsius / (243.04 + celsius)
