"""Files of public models, made of the meters of places."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.public import making
from plfl.public.making import SiteMeters, gather_sites, make
from plfl.public.models import load_file
from plfl.public.seen import is_seen, marks_of
from plfl.public.training import TreeSizes, gather
from tests.helpers.refusals import naming


def tables(
    meters: int, minutes: int = 60, seed: int = 0, days: int = 40
) -> dict[str, pd.DataFrame]:
    step = pd.Timedelta(minutes=minutes)
    ends = pd.date_range(
        pd.Timestamp("2024-01-01") + step, periods=days * 24 * 60 // minutes, freq=step
    )
    random = np.random.default_rng(seed)
    return {
        f"m{n}": pd.DataFrame({"load": random.gamma(2.0, 1.0, len(ends)), "wind_speed": 1.0}, ends)
        for n in range(meters)
    }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEDIANS", "ENDS"):
        monkeypatch.setattr(making, name, TreeSizes(3, 7))


def test_loads_are_hourly_from_the_first_to_the_last_reading_of_any_meter() -> None:
    first, second = tables(2, minutes=30).values()
    place = SiteMeters.from_series({"first": first.iloc[48:], "second": second.iloc[:-48]}, 30)
    assert len(place.ends) == 40 * 24
    assert np.isnan(place.meters[0].load[:24]).all()
    assert np.isnan(place.meters[1].load[-24:]).all()
    by_hour = first["load"].to_numpy().reshape(-1, 2).sum(axis=1)
    np.testing.assert_allclose(place.meters[0].load[24:], by_hour[24:])
    assert place.meters[0].hour[:2].tolist() == [0, 1]


def test_meters_whose_hours_end_at_other_minutes_are_refused() -> None:
    first, second = tables(2).values()
    shifted = second.shift(freq="30min")
    with naming(DataError, "half: the hours do not end at :00", "leave_out: [half]"):
        SiteMeters.from_series({"full": first, "half": shifted}, 60)


def test_each_place_gives_equally_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "MOST_WINDOWS", 400)
    many, one = (SiteMeters.from_series(tables(n, seed=n), 60).meters for n in (4, 1))
    features, _ = gather_sites([many, one], "day")
    parts = [gather(many, "day", 50, 1)[0], gather(one, "day", 200, 2)[0]]
    np.testing.assert_array_equal(features, np.concatenate(parts))


@pytest.mark.usefixtures("small")
def test_a_model_forecasts_and_knows_the_meters_of_all_places(tmp_path: Path) -> None:
    north, south, other = (SiteMeters.from_series(tables(2, seed=seed), 60) for seed in (1, 2, 3))
    (file := tmp_path / "homes.xz").write_bytes(make({"north": north, "south": south}))
    model = load_file("homes", file)
    assert model.levels == (0.1, 0.5, 0.9)
    for place, is_known in ((north, True), (south, True), (other, False)):
        loads = place.meters[1]
        assert is_seen(loads.load, place.ends, model.marks) is is_known
        forecasts = model.predict(loads, "day", np.array([900]), np.array([5]))
        assert (np.diff(forecasts) >= 0).all()
    assert file.read_bytes() == make({"north": north, "south": south})


def test_a_place_whose_meters_would_not_be_known_again_is_refused() -> None:
    constant = {name: table.assign(load=1.0) for name, table in tables(2).items()}
    places = {
        "north": SiteMeters.from_series(tables(1), 60),
        "south": SiteMeters.from_series(constant, 60),
    }
    assert not len(marks_of(places["south"].meters, places["south"].ends))
    with naming(DataError, "south: no day of the meters tells them apart", "eight weeks"):
        make(places)


def test_places_with_too_few_readings_are_refused() -> None:
    short = SiteMeters.from_series({"m0": tables(1)["m0"].loc["2024-01-18":"2024-01-19 00:00"]}, 60)
    with naming(DataError, "north: no meter has a window", "more than 672 hours"):
        make({"north": short})
