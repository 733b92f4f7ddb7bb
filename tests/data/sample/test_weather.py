import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

from plfl.data.sample.places import STATES, County
from plfl.data.sample.weather import (
    RADIATION,
    TEMPERATURE,
    WIND_SPEED,
    autoregressive,
    elevation,
    lagged,
    weather,
)

COUNTIES = [(state, county) for state in STATES for county in STATES[state].counties]


def year(state: str, county: County, seed: int = 2018) -> pd.DataFrame:
    return weather(state, county.gisjoin, seed).loc["2018-01-01 01:00":"2019-01-01 00:00"]


@pytest.mark.parametrize(("state", "county"), COUNTIES)
def test_a_county_has_its_climate(state: str, county: County) -> None:
    table = year(state, county)
    temperature = table[TEMPERATURE]
    monthly = temperature.groupby(pd.DatetimeIndex(temperature.index).month).mean()
    days = temperature.resample("D")
    assert temperature.mean() == pytest.approx(county.mean, abs=1.5)
    assert monthly.idxmax() in (7, 8)
    assert monthly.idxmin() in (12, 1, 2)
    assert monthly.max() - monthly.min() == pytest.approx(2 * county.swing, abs=5)
    assert (days.max() - days.min()).mean() == pytest.approx(county.daily, abs=2)
    assert table[WIND_SPEED].mean() == pytest.approx(county.wind, rel=0.15)
    assert 1400 < table[RADIATION].sum() / 1000 < 2300  # kWh/m² a year: U.S. stations are between
    # No value is impossible.
    assert np.isfinite(table).all(axis=None)
    assert table["Relative Humidity [%]"].between(1, 100).all()
    assert table["Wind Direction [Deg]"].between(0, 360).all()
    assert table[WIND_SPEED].between(0, 45).all()
    assert temperature.between(-35, 50).all()
    assert table["Direct Normal Radiation [W/m2]"].between(0, 1100).all()


def test_the_sun_explains_the_radiation() -> None:
    county = STATES["NY"].counties[0]
    table = year("NY", county)
    middle = pd.DatetimeIndex(table.index) - pd.Timedelta("30min")
    sun = np.maximum(elevation(county, -5, middle), 0)
    assert (table[RADIATION][sun == 0] == 0).all()
    assert (table[RADIATION][sun > 0.1] > 0).all()
    beam = table["Direct Normal Radiation [W/m2]"] * sun
    total = beam + table["Diffuse Horizontal Radiation [W/m2]"]
    high = sun > 0.02
    np.testing.assert_allclose(total[high], table[RADIATION][high], atol=0.2)
    hourly = table[TEMPERATURE].groupby(middle.hour).mean()
    assert 13 <= hourly.to_numpy().argmax() <= 17


def test_elevation_of_the_sun() -> None:
    county = STATES["NY"].counties[0]
    june = pd.date_range("2018-06-21", periods=96, freq="15min")
    december = pd.date_range("2018-12-21", periods=96, freq="15min")
    summer, winter = elevation(county, -5, june), elevation(county, -5, december)
    assert summer.max() == pytest.approx(np.sin(np.radians(90 - county.latitude + 23.45)), abs=2e-3)
    assert winter.max() == pytest.approx(np.sin(np.radians(90 - county.latitude - 23.45)), abs=2e-3)
    assert abs(summer.argmax() / 4 - 12) < 1
    assert 14.5 < (summer > 0).sum() / 4 < 15.5
    assert 8.5 < (winter > 0).sum() / 4 < 9.5


def test_counties_of_a_state_share_its_storms() -> None:
    def anomaly(state: str, i: int) -> pd.Series:
        daily = year(state, STATES[state].counties[i])[TEMPERATURE].resample("D").mean()
        return daily - daily.rolling(61, center=True, min_periods=1).mean()

    chicago, springfield, buffalo = anomaly("IL", 0), anomaly("IL", 1), anomaly("NY", 1)
    assert chicago.corr(springfield) > 0.8
    assert abs(chicago.corr(buffalo)) < 0.4


def test_weather_depends_on_its_arguments_alone() -> None:
    county = STATES["CA"].counties[0].gisjoin
    first = weather("CA", county, 1).copy()
    assert not first.equals(weather("CA", county, 2))
    weather.cache_clear()
    weather("CA", STATES["CA"].counties[1].gisjoin, 1)
    pd.testing.assert_frame_equal(first, weather("CA", county, 1))


def test_autoregressive_series_forgets_at_its_time_constant() -> None:
    series = pd.Series(autoregressive(np.random.default_rng(1), 200_000, steps=10))
    assert series.std() == pytest.approx(1, abs=0.03)
    assert series.autocorr(10) == pytest.approx(np.exp(-1), abs=0.03)
    starts = [autoregressive(np.random.default_rng(i), 2, 10)[0] for i in range(500)]
    assert np.std(starts) == pytest.approx(1, abs=0.1)  # it has no warm-up


@pytest.mark.parametrize("keep", [0.8, 0.85, float(np.exp(-1 / 900))])
def test_a_lag_has_the_bits_of_scipys_filter(keep: float) -> None:
    values = np.random.default_rng(3).standard_normal(5000)
    np.testing.assert_array_equal(lagged(values, keep), lfilter([1.0], [1.0, -keep], values))
