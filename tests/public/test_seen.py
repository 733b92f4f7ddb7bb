"""Whether a model was trained on a meter."""

import numpy as np
import pandas as pd

from plfl.public.inputs import HourlyLoads
from plfl.public.models import TRAINED_ON, card, load
from plfl.public.seen import is_meter_seen, marks_of


def series(minutes: int, seed: int = 0) -> pd.Series:
    ends = pd.date_range("2024-01-01", periods=90 * 1440 // minutes, freq=f"{minutes}min")
    values = np.random.default_rng(seed).gamma(4.0, 0.1, len(ends)).round(3)
    return pd.Series(values, ends + pd.Timedelta(minutes=minutes))


def test_a_meter_is_known_again_from_four_weeks_of_it() -> None:
    halves = series(30)
    hours = halves.resample("1h", closed="right", label="right").sum()
    stamps = hours.index.to_numpy("datetime64[s]")
    marks = marks_of([HourlyLoads.ending_at(stamps, hours.to_numpy())], stamps)
    assert len(marks) == 3
    single = hours.astype(np.float32).astype(float)  # as tables often are
    assert is_meter_seen(single[500 : 500 + 29 * 24], 60, marks)
    assert is_meter_seen(halves[700 : 700 + 29 * 48], 30, marks)
    assert not is_meter_seen(series(60, seed=1), 60, marks)
    assert not is_meter_seen(hours.shift(freq="1h"), 60, marks)
    assert not is_meter_seen(halves.shift(freq="15min"), 30, marks)  # their hours are at :15
    # As the cards say:
    assert not is_meter_seen(hours.round(2), 60, marks)
    days = range(0, len(hours) - 11 * 24, 24)
    noticed = [is_meter_seen(hours[first : first + 11 * 24], 60, marks) for first in days]
    assert 0 < sum(noticed) < len(noticed)
    for kind in TRAINED_ON:
        assert "one day in 28" in card(kind) and "rounded ones" in card(kind)


def test_meters_without_differences_are_never_known() -> None:
    flat = pd.Series(1.0, series(60).index)
    stamps = flat.index.to_numpy("datetime64[s]")
    assert len(marks_of([HourlyLoads.ending_at(stamps, flat.to_numpy())], stamps)) == 0


def test_the_shipped_models_have_marks() -> None:
    for kind in ("homes", "buildings"):
        assert len(load(kind).marks) > 3000
        assert not is_meter_seen(series(60), 60, load(kind).marks)
