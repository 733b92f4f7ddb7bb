from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

from plfl.data.sample.places import STATES, County
from plfl.data.sample.weather import (
    RADIATION,
    TEMPERATURE,
    WIND_SPEED,
    apply_lag,
    elevation,
    weather,
)

COUNTIES = [(state, county) for state in STATES for county in STATES[state].counties]


@cache
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


@pytest.mark.parametrize(("state", "county"), COUNTIES)
def test_no_value_is_impossible(state: str, county: County) -> None:
    table = year(state, county)
    assert np.isfinite(table).all(axis=None)
    assert table["Relative Humidity [%]"].between(1, 100).all()
    assert table["Wind Direction [Deg]"].between(0, 360).all()
    assert table[WIND_SPEED].between(0, 45).all()
    assert table[TEMPERATURE].between(-35, 50).all()
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


@pytest.mark.parametrize("keep", [0.8, 0.85, float(np.exp(-1 / 900))])
def test_a_lag_has_the_bits_of_scipys_filter(keep: float) -> None:
    values = np.random.default_rng(3).standard_normal(5000)
    np.testing.assert_array_equal(apply_lag(values, keep), lfilter([1.0], [1.0, -keep], values))
