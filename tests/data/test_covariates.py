"""The covariates against an independent computation, window by window, and what it may not know."""

import itertools
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from holidays import country_holidays
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.base.errors import DataError
from plfl.config.windows import Transform, Windows
from plfl.data.covariates import COVARIATES, count_reach_rows, public_values
from plfl.data.dataset import SPLITS, Dataset
from plfl.data.windows import build, build_later, scalings
from tests.helpers.refusals import naming

RECIPE: list[dict[str, Any]] = [
    {"name": "lags", "days": [1, 2, 7], "around": 2},
    {"name": "level"},
    {"name": "calendar", "harmonics": 4},
    {"name": "encoding", "bins": 16},
]


def windows(covariates: list[dict[str, Any]] = RECIPE, **others: Any) -> Windows:
    return Windows.model_validate({"target": "change", "covariates": covariates, **others})


def table(seed: int, rows: int, minutes: int = 15, step: float = 0.0) -> pd.DataFrame:
    """A random load, which is a multiple of `step` if that is not zero, and a temperature."""
    rng = np.random.default_rng(seed)
    load = rng.gamma(2.0, 3.0 + seed % 5, rows) + 5 * np.sin(np.arange(rows) / 15) + 6
    if step:
        load = np.round(load / step) * step
    stamps = pd.date_range("2018-01-01 00:15", periods=rows, freq=f"{minutes}min")
    return pd.DataFrame({"load": load, "temperature": rng.normal(15, 8, rows)}, index=stamps)


def recipe(t: pd.DataFrame, w: Windows, s: int, minutes: int) -> list[float]:
    """Inputs of the window that starts at row `s`, by the formulas, one number at a time."""
    y, stamps = t["load"].tolist(), t.index
    T, L, n = w.look_back, w.look_ahead, len(t)
    per_day = 24 * 60 // minutes
    end = int(np.round((w.split[0] if w.history is None else 1 - w.split[2]) * n))
    first = 0 if w.history is None else max(0, end - w.history * 7 * per_day)
    train = y[first:end]
    unit = float(np.mean([abs(b - a) for a, b in zip(train, train[L:], strict=False)]))
    m, sd = float(np.mean(train)), float(np.std(train))

    def y_or(row: int, last: int) -> float:
        return y[row] if first <= row <= last else y[last]

    def numbers(s: int) -> list[float]:
        end = s + T - 1
        return [y[end], *(y[end] - y_or(row, end) for row in (end - 1, end - L, s))]

    last = s + T - 1
    g = last + L
    found = [(y[s + k] - y[last]) / unit for k in range(T)]
    for days in (1, 2, 7):
        found += [(y_or(g - days * per_day + j, last) - y[last]) / unit for j in (-2, -1, 0, 1, 2)]
    found += [(y[last] - m) / sd, float(np.log(max(y[last] / m, 1e-6)))]
    angle = 2 * np.pi * (stamps[g].hour * 60 + stamps[g].minute) / (24 * 60)
    found += [float(np.sin(h * angle)) for h in (1, 2, 3, 4)]
    found += [float(np.cos(h * angle)) for h in (1, 2, 3, 4)]
    found += [float(stamps[g].day_of_week == day) for day in range(7)]
    trained = np.array([numbers(start) for start in range(first, end - T - L + 1)])
    for z, column in zip(numbers(s), trained.T, strict=True):
        edges = [float(np.quantile(column, i / 16)) for i in range(17)]
        for low, high in itertools.pairwise(edges):
            share = (z - low) / (high - low) if high > low else float(z > low)
            found.append(min(max(share, 0.0), 1.0))
    return found


def read(data: Dataset, start: int) -> np.ndarray:
    """What a model reads of a window: its sequence and its covariates."""
    x = data.features[start : start + data.look_back].copy()
    if data.relative:
        x[:, 0] -= x[-1, 0]
    return np.concatenate([x[:, 0], data.covariates[start + data.look_back - 1]])


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1000),
    minutes=st.sampled_from([15, 60]),
    look_back=st.integers(1, 14),
    look_ahead=st.integers(1, 5),
    history=st.sampled_from([None, 1]),
    step=st.sampled_from([0.0, 4.0]),
)
def test_the_recipes_inputs_are_those_of_its_formulas(
    seed, minutes, look_back, look_ahead, history, step
):
    w = windows(look_back=look_back, look_ahead=look_ahead, history=history)
    tables = {"a": table(seed, 900, minutes, step), "b": table(seed + 1, 1000, minutes, step)}
    data = build({name: t[["load"]] for name, t in tables.items()}, w)
    assert data.covariates.shape[1] == w.covariates_width
    for client, t in enumerate(tables.values()):
        end = round((0.8 if history is None else 0.9) * len(t))
        kept = len(t) if history is None else history * 7 * 24 * 60 // minutes
        before = int(data.view.bounds[client, 0]) - max(0, end - kept)
        for split in SPLITS:
            starts = data.starts(client, split)
            for start in (starts[0], starts[len(starts) // 2], starts[-1]):
                found = read(data, start)
                assert len(found) == look_back + 96
                wanted = recipe(t, w, int(start) - before, minutes)
                np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_what_is_known_ahead_is_read_at_the_target_and_no_later() -> None:
    w = windows([{"name": "known_future", "features": ["temperature"]}], target="load", horizons=3)
    data = build({"a": table(6, 400)}, w)
    starts = data.starts(0, "test")
    found = data.covariates[data.persistence_rows(starts)]
    np.testing.assert_array_equal(found, data.features[data.target_rows(starts), 1])
    with naming(DataError, "wind_speed"):
        build({"a": table(6, 400)}, windows([{"name": "known_future", "features": ["wind_speed"]}]))


@pytest.mark.parametrize("constant", [0.0, 5.0, -3.0])
def test_constant_loads_have_numbers_too(constant: float) -> None:
    t = table(9, 900)
    t["load"] = constant
    t.iloc[-40:, 0] = constant + np.arange(40)
    data = build({"a": t, "b": table(10, 900)}, windows())
    assert np.isfinite(data.covariates).all()
    assert np.isfinite(data.features).all()
    assert data.view.scale[0] == 1.0  # kWh
    first = data.covariates[data.persistence_rows(data.starts(0, "train"))]
    assert (first == first[0])[:, :15].all()
    assert (first[:, -64:] == 0).all()  # nothing is above what the training set always was
    assert (data.covariates[899, -64:] == 1).all()


@settings(max_examples=15, deadline=None)
@given(
    place=st.sampled_from([("US", "CA"), ("US", None), ("DE", "BY"), ("GB", "SCT"), ("JP", None)]),
    minutes=st.sampled_from([15, 30, 60]),
    look_ahead=st.integers(1, 30),
    horizons=st.integers(1, 3),
)
def test_holidays_are_those_of_the_library(
    place: tuple[str, str | None], minutes: int, look_ahead: int, horizons: int
) -> None:
    country, subdivision = place
    days = country_holidays(country, subdiv=subdivision)
    t = table(8, 150 * 24 * 60 // minutes, minutes)  # from New Year to May
    own = {"name": "holidays", "country": country, "subdivision": subdivision}
    w = windows([own], look_ahead=look_ahead, horizons=horizons)
    dataset = build({"a": t}, w)
    for split in SPLITS:
        starts = dataset.starts(0, split)
        for start in starts[:: max(1, len(starts) // 50)]:
            last = int(start) + dataset.look_back - 1
            for h in range(horizons):
                within = t.index[last + look_ahead + h] - pd.Timedelta(seconds=1)
                assert dataset.covariates[last, h] == (within.date() in days)
    assert 0 < dataset.covariates.mean() < 0.3


@pytest.mark.parametrize(
    ("look_back", "ahead", "minutes", "needed"),
    [(12, 24, 60, 24), (96, 96, 15, 96), (12, 96, 15, 96), (24, 1, 60, 24), (12, 1, 60, 24)],
)
def test_the_rows_read_include_those_that_replace_unknown_lags(
    look_back: int, ahead: int, minutes: int, needed: int
) -> None:
    """No load of a lag is replaced by the last one if the series begins so many rows earlier."""
    one_day: list[dict[str, Any]] = [{"name": "lags", "days": [1], "around": 0}]
    steps = {"look_back": look_back, "look_ahead": ahead, "horizons": 24 * 60 // minutes}
    w = windows(one_day, scaling="per_client", **steps)
    assert count_reach_rows(w, minutes) == needed
    t = table(0, 40 * 24 * 60 // minutes, minutes)
    scaling = scalings(build({"a": t}, w))["a"]
    whole, part = (build_later("a", rows, w, scaling) for rows in (t, t[-needed:]))
    np.testing.assert_array_equal(part.covariates[needed - 1], whole.covariates[len(t) - 1])


def test_every_transform_has_a_class_and_public_columns_as_many_as_its_own() -> None:
    assert set(COVARIATES) == set(get_args(Transform))
    others = [{"name": "holidays", "country": "DE"}, {"name": "known_future"}]
    w = windows(RECIPE + others, horizons=3)
    assert {*map(type, w.covariates)} == set(COVARIATES)
    for keys in w.covariates:
        single = w.model_copy(update={"covariates": [keys]})
        covariates = build({"a": table(0, 2000)}, single).covariates
        assert covariates.shape[1] == keys.width(3)
        assert public_values(single, 2, 31).shape == (31, 2 * w.look_back + keys.width(3))
