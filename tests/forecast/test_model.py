"""A stored model forecasts what the study recorded, and says what it cannot forecast from."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plfl
from plfl.base.errors import DataError, ResultsError
from plfl.forecast.contents import ModelFileHeader
from plfl.forecast.model import ForecastModel, load
from plfl.results.records import read_models, write_models
from tests.helpers import tiny
from tests.helpers.meter_models import MLP, RECIPE, ROWS, make_study, write_models_of
from tests.helpers.refusals import naming


@pytest.fixture
def model() -> ForecastModel:
    write_models_of(make_study(), Path("m.safetensors"))
    return load("m.safetensors")


@pytest.mark.parametrize(
    "blocks",
    [
        {},
        {"windows": {"scaling": "per_client", "look_ahead": 20}},
        {"windows": RECIPE, "model": MLP, "federation": {"ema": 0.5, "keep": "best"}},
        {"model": {"name": "linear"}, "windows": {"target": "change"}},
        {"tuning": {"search": {"client_opt.adam.lr": [0.3, 0.01, 0.0001]}}},
    ],
)
def test_forecasts_are_those_of_the_study(blocks: dict[str, Any]) -> None:
    result = write_models_of(make_study(**blocks), Path("m.safetensors"))
    loaded = load("m.safetensors")
    for client, week in result.forecasts.groupby("client"):
        readings = loaded.read(Path(f"meters/{client}.csv"))
        for kind in ("local", "global"):
            found = loaded.predict(readings, str(client), kind)
            wanted = week.set_index("stamp")[kind]
            np.testing.assert_allclose(found["forecast"][wanted.index], wanted, rtol=1e-6)
            after = loaded.predict_next(readings, str(client), kind)
            pd.testing.assert_frame_equal(after, loaded.select_upcoming(readings, found), rtol=1e-6)
            assert len(after) == loaded.study.windows.look_ahead
    assert not result.forecasts["local"].equals(result.forecasts["global"])
    assert len(result.forecasts) > 300


def test_the_last_forecasts_lie_after_the_last_reading(model: ForecastModel) -> None:
    readings = model.read(Path("meters/a.csv"))
    whole = model.predict(readings, "a")
    assert len(whole) == ROWS - 12 + 1
    assert (whole.index - whole["made_at"] == pd.Timedelta(hours=1)).all()
    assert whole["made_at"].iloc[-1] == readings.index[-1]
    # The past decides: forecasts do not change when later readings come in.
    earlier = model.predict(readings[:600], "a")
    pd.testing.assert_frame_equal(earlier, whole.loc[: earlier.index[-1]])
    # One window is enough for one forecast.
    one = model.predict(readings[588:600], "a")
    np.testing.assert_allclose(one["forecast"], earlier["forecast"].iloc[-1:], rtol=1e-6)
    assert not one.equals(model.predict(readings[588:600], "b"))
    offsets = model.meter_files.with_offsets(one, "a")
    assert offsets.index[0].isoformat() == one.index[0].isoformat() + "-05:00"


def test_lags_before_the_readings_count_as_the_last_load(caplog: pytest.LogCaptureFixture) -> None:
    write_models_of(make_study(windows=RECIPE, model=MLP), Path("m.safetensors"))
    loaded = load("m.safetensors")
    # The last reading, and those back to two before the one a week before the target.
    assert loaded.rows_needed == 7 * 96 - 4 + 2 + 1
    readings = loaded.read(Path("meters/a.csv"))
    whole = loaded.predict(readings, "a")
    one = loaded.predict(readings[-loaded.rows_needed :], "a")
    np.testing.assert_allclose(one["forecast"], whole["forecast"].iloc[-1:], rtol=1e-6)
    assert "those that are missing" not in caplog.text
    short = loaded.predict(readings[-670:], "a")
    assert "the last 671 readings, and the files have 670" in caplog.text
    assert short.index.equals(one.index) and not np.allclose(short["forecast"], one["forecast"])


def test_known_future_inputs_end_with_the_readings() -> None:
    known = {"covariates": [{"name": "known_future", "features": ["temperature", "weekday"]}]}
    write_models_of(make_study(windows=known, model=MLP), Path("m.safetensors"))
    loaded = load("m.safetensors")
    readings = loaded.read(Path("meters/a.csv"))
    assert loaded.predict(readings, "a").index[-1] == readings.index[-1]
    with naming(DataError, "windows.covariates"):
        loaded.predict(readings[:12], "a")


def test_inputs_outside_of_the_training(model, caplog):
    readings = model.read(Path("meters/a.csv"))[:100].copy()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        model.predict(readings, "a")
        assert not caplog.text
        readings.iloc[50, 0] = 99.0
        model.predict(readings, "a")
    assert "a: 1 of 100 readings of load are outside the range" in caplog.text
    assert "the first at 2018-01-01 12:45:00-05:00" in caplog.text
    caplog.clear()
    model.predict(readings, "a", reports=False)
    later = model.predict(readings, "a", since=readings.index[51])
    assert not caplog.text and later["made_at"].min() == readings.index[51]
    model.predict(readings, "a", since=readings.index[50])
    assert "a: 1 of 50 readings of load are outside the range" in caplog.text


def test_earlier_forecasts_that_nobody_wants_are_not_made(
    model: ForecastModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = model.read(Path("meters/a.csv"))[:100]
    counts, predict = [], ForecastModel._predictions

    def count(*arguments: Any) -> Any:
        counts.append(len(arguments[-1]))
        return predict(*arguments)

    monkeypatch.setattr(ForecastModel, "_predictions", count)
    some = model.predict(readings, "a", since=readings.index[51])
    whole = model.predict(readings, "a")
    assert counts[0] == 49 < counts[1]
    pd.testing.assert_frame_equal(some, whole[whole["made_at"] >= readings.index[51]])


def test_only_what_a_forecast_reads_is_reported(model, caplog):
    readings = model.read(Path("meters/a.csv"))[:300].copy()
    # The first of the forecasts for times after the last reading is made some rows before it.
    count = model.rows_needed + model.study.windows.look_ahead - 1
    readings.iloc[len(readings) - count - 1, 0] = 99.0
    with caplog.at_level(logging.WARNING):
        model.predict_next(readings, "a")
        assert "outside the range" not in caplog.text
        readings.iloc[len(readings) - count, 0] = 99.0
        model.predict_next(readings, "a")
    assert f"a: 1 of {count} readings of load" in caplog.text


@pytest.mark.parametrize(("unit", "factor"), [("kW", 4), ("Wh", 1000), ("W", 4000)])
def test_loads_in_another_unit_are_refused(model: ForecastModel, unit: str, factor: int) -> None:
    readings = model.read(Path("meters/a.csv"))[:960]
    model.predict(readings.assign(load=readings["load"] * 1.9), "a")
    readings = readings.assign(load=readings["load"] * factor)
    times = readings["load"].max() / model.load_range("a")[1]
    with naming(
        DataError, f"a: its readings are about {times:,.0f} times", f"in {unit};", f"by {factor}"
    ):
        model.predict(readings, "a")


def test_a_gap_costs_the_forecasts_that_would_read_it(model: ForecastModel) -> None:
    readings = model.read(Path("meters/a.csv"))
    gaps = readings.copy()
    gaps.iloc[200, 0] = np.nan
    every, kept = model.predict(readings, "a"), model.predict(gaps, "a")
    reads = (every["made_at"] >= readings.index[200]) & (every["made_at"] <= readings.index[211])
    assert reads.sum() == 12
    pd.testing.assert_frame_equal(kept, every[~reads])
    assert model.predict_next(gaps[:205], "a").empty
    assert len(model.predict_next(gaps[:213], "a")) == 1


def test_lags_in_a_gap_count_as_the_last_load(caplog: pytest.LogCaptureFixture) -> None:
    write_models_of(make_study(windows=RECIPE, model=MLP), Path("m.safetensors"))
    loaded = load("m.safetensors")
    readings = loaded.read(Path("meters/a.csv"))
    gaps, filled = readings.copy(), readings.copy()
    lost = slice(len(readings) - 670, len(readings) - 600)  # between six and seven days ago
    gaps.iloc[lost, 0], filled.iloc[lost, 0] = np.nan, readings["load"].iloc[-1]
    following = loaded.predict_next(gaps, "a")
    assert following["made_at"].iloc[-1] == readings.index[-1]
    assert "some of the last 671 readings that a forecast reads are in a gap" in caplog.text
    expected = loaded.predict_next(filled, "a")
    pd.testing.assert_frame_equal(following.iloc[-1:], expected.iloc[-1:])
    every = loaded.predict(gaps, "a", fills_lags=True)
    pd.testing.assert_frame_equal(loaded.select_upcoming(readings, every), following, rtol=1e-6)
    assert loaded.select_upcoming(readings, loaded.predict(gaps, "a")).empty
    # One of the readings that every model needs.
    gaps.iloc[-6, 0] = np.nan
    assert loaded.predict_next(gaps, "a").empty
    problem = loaded.explain_no_forecast(gaps, "a", "add readings")
    assert "last reading, 2018-01-15 00:00:00-05:00, because" in str(problem)
    assert "a gap in the 12 readings before it" in str(problem)
    caplog.clear()
    loaded.predict_next(
        readings.assign(load=readings["load"].mask(readings.index == gaps.index[9])), "a"
    )
    assert "in a gap" not in caplog.text  # no forecast reads it


def test_a_file_has_in_its_header_what_is_read(model: ForecastModel) -> None:
    header_keys = {*read_models(Path("m.safetensors"))[1]}
    assert header_keys == {*ModelFileHeader.model_fields} - {"baseline"}


def test_what_is_refused(model: ForecastModel) -> None:
    readings = model.read(Path("meters/a.csv"))
    gappy = readings.iloc[:36].drop(index=readings.index[[11, 12, 24]]).asfreq("15min")
    refused: list[tuple[pd.DataFrame, str | None, str]] = [
        (readings, None, "the model was trained with a, b, c; name one"),
        (readings, "d", "client 'd' did not take part"),
        (readings.drop(columns="temperature"), "a", "has no column temperature"),
        (readings[:11], "a", "has 11 readings, but a forecast needs 12 in a row, 15 minutes"),
        (readings[::2], "a", "minutes apart"),
        (readings.reset_index(drop=True), "a", "its index is no column of times"),
        (readings.tz_localize("UTC"), "a", "without a UTC offset"),
        (gappy, "a", "12 readings"),
    ]
    for frame, client, message in refused:
        with naming(DataError, message):
            model.predict(frame, client)
    with naming(DataError, "global", "local"):
        alone = dataclasses.replace(model, models={"local": model.models["local"]})
        alone.predict(readings, "a", "global")


def test_a_file_of_another_interval_is_refused(model: ForecastModel) -> None:
    pd.read_csv("meters/a.csv").iloc[::2].to_csv("half.csv", index=False)
    with naming(DataError, "half.csv"):
        model.read(Path("half.csv"))
    pd.read_csv("meters/a.csv").drop(columns="out").to_csv("bare.csv", index=False)
    with naming(DataError, "bare.csv", "out"):
        model.read(Path("bare.csv"))


def test_what_cannot_be_loaded(model: ForecastModel) -> None:
    models, about = read_models(Path("m.safetensors"))
    refused = {
        "format": (about | {"format": 1}, "holds no model of format"),
        "study": (about | {"study": {"no": 1}}, "its study cannot be read here"),
        "model": (about | {"model": {}}, "is not the one of the training; restore it"),
        "parameters": (about | {"parameters": {}}, "has other parameters"),
    }
    for name, (other, message) in refused.items():
        write_models(Path(f"{name}.safetensors"), models, other)
        with naming(ResultsError, message):
            load(f"{name}.safetensors")
    with naming(ResultsError, "absent.safetensors"):
        load("absent.safetensors")
    assert plfl.load is load


@pytest.mark.parametrize("conformal", ["none", "personal", "adaptive"])
def test_quantiles_of_several_horizons_are_those_of_the_study(conformal):
    """Every target of every origin, from resampled readings, with the quantiles."""
    study = make_study(
        windows={"horizons": 3, "look_ahead": 1, "target": "change"},
        task={"name": "quantiles", "levels": [0.1, 0.5, 0.9], "conformal": conformal},
        model=MLP,
    )
    study = study.model_copy(update={"data": study.data.model_copy(update={"resample": 60})})
    result = write_models_of(study, Path("kept.safetensors"))
    model = load("kept.safetensors")
    assert model.interval == 60
    readings = model.read(Path("meters/b.csv"))
    assert len(readings) == ROWS // 4
    assert readings["load"].iloc[0] == pytest.approx(tiny.tables(3, ROWS)["b"]["load"][:4].sum())
    found = model.predict(readings, "b")
    week = result.forecasts.query("client == 'b'").set_index("stamp")
    first = found[found["made_at"].isin(week.index[::3] - pd.Timedelta(minutes=60))]
    for column in ("", "_10", "_90"):
        ours = first[f"forecast{column}"].to_numpy()
        np.testing.assert_allclose(ours, week[f"local{column}"].to_numpy(), rtol=1e-5)
    pd.testing.assert_frame_equal(
        model.predict_next(readings, "b"), model.select_upcoming(readings, found), rtol=1e-6
    )
    shape = (3, 2, 3, 1) if conformal == "adaptive" else (3, 3, 1)
    shapes = {} if conformal == "none" else {"local": shape, "global": shape}
    assert {m: own.shape for m, own in model.widths.items()} == shapes
    model.save("again.safetensors")
    pd.testing.assert_frame_equal(load("again.safetensors").predict(readings, "b"), found)
    last = found[found["made_at"] == readings.index[-1]]
    assert (last.index - readings.index[-1]).tolist() == [pd.Timedelta(hours=h) for h in (1, 2, 3)]


def test_what_is_known_in_advance_may_go_on_after_the_last_load() -> None:
    known = {"name": "known_future", "features": ["temperature"]}
    windows = {"target": "change", "horizons": 4, "covariates": [known]}
    write_models_of(make_study(windows=windows, model=MLP), Path("m.safetensors"))
    model = load("m.safetensors")
    file = pd.read_csv("meters/a.csv")
    cut = len(file) - 30
    file.loc[cut:, "kWh"] = np.nan
    file.to_csv("next.csv", index=False)
    readings = model.read(Path("next.csv"), "a")
    assert len(readings) == len(file) and readings["load"].isna().sum() == 30
    following = model.predict_next(readings, "a")
    last = readings.index[cut - 1]
    assert (following["made_at"] == last).all() and len(following) == 4
    everything = model.predict(readings, "a")
    pd.testing.assert_frame_equal(model.select_upcoming(readings, everything), following)
    # Without plfl's reader, of the same numbers.
    complete = model.read(Path("meters/a.csv"), "a")
    at_last = model.predict(complete, "a")
    pd.testing.assert_frame_equal(at_last[at_last["made_at"] == last], following)
    warmer = readings.assign(
        temperature=readings["temperature"].where(readings["load"].notna(), 40)
    )
    assert not np.allclose(model.predict_next(warmer, "a")["forecast"], following["forecast"])
    # What is farther away than a forecast looks is not read.
    far = readings.assign(temperature=readings["temperature"].mask(readings.index > last + HOURS))
    pd.testing.assert_frame_equal(model.predict_next(far, "a"), following)


HOURS = pd.Timedelta(hours=2)
"""The time to the farthest target of these windows."""
