"""A meter that did not take part gets the shared part and trains a part of its own."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plfl
from plfl.base.errors import DataError
from plfl.forecast.choice import Forecasters
from plfl.forecast.fitting import PASSES
from plfl.forecast.model import ForecastModel, load
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.kept_baselines import FURTHER_BASELINES, keep, score
from tests.helpers.meter_models import (
    MLP,
    RECIPE,
    make_new_meter,
    make_study,
    write_models_of,
    write_readings,
)
from tests.helpers.refusals import naming


def model_of(study: Study) -> ForecastModel:
    write_models_of(study, Path("m.safetensors"))
    return load("m.safetensors")


@pytest.mark.parametrize(
    "blocks",
    [
        {"sharing": "P1"},
        {"sharing": "P2"},
        {"sharing": "P2", "windows": {"scaling": "per_client"}},
        {"sharing": "P1", "windows": RECIPE, "model": MLP},
    ],
)
def test_what_is_personal_or_else_everything_is_trained_and_helps(blocks: dict[str, Any]) -> None:
    others = {name: block for name, block in blocks.items() if name != "sharing"}
    study = make_study(**others, grid={"sharing": [blocks["sharing"]]})
    model, readings = model_of(study), make_new_meter()
    new = model.adapt(readings, "d", epochs=20)
    assert new.clients == ["d"] and model.clients == ["a", "b", "c"]
    (before,), (after,) = new.models["global"], new.models["local"]
    np.testing.assert_array_equal(before, model.models["global"].mean(axis=0))
    trained = study.plan.layout.mask(["*"] if blocks["sharing"] == "P1" else ["head"])
    np.testing.assert_array_equal(before[~trained], after[~trained])
    assert (before[trained] != after[trained]).mean() > 0.5
    errors = {}
    for kind in ("global", "local"):
        found = new.predict(readings, model=kind)  # type: ignore[arg-type]
        truth = readings["load"].reindex(found.index)
        errors[kind] = (found["forecast"] - truth).abs().mean()
    assert errors["local"] < errors["global"]


def test_its_scaling_is_its_own_or_that_of_the_federation() -> None:
    readings = make_new_meter()
    own = model_of(make_study(windows={"scaling": "per_client"})).adapt(readings, "d")
    load, temperature = readings["load"], readings["temperature"]
    assert own.scalings["d"].offset[0] == load.min()
    assert own.scalings["d"].scale[0] == load.max() - load.min()
    pooled = model_of(make_study())
    new, old = pooled.adapt(readings, "d").scalings["d"], pooled.scalings["a"]
    np.testing.assert_array_equal(new.offset, old.offset)
    np.testing.assert_array_equal(new.scale, old.scale)
    # The range of what it was trained on is always its own.
    assert new.high[0] == load.max() and new.low[3] == temperature.min()
    assert new.known_until == readings.index[-1]
    # So are the units of a load whose changes are forecast.
    changes = model_of(make_study(windows={"target": "change"}, model={"output": "linear"}))
    new, old = changes.adapt(readings, "d").scalings["d"], changes.scalings["a"]
    assert new.offset[0] == pytest.approx(load.mean())
    np.testing.assert_array_equal(new.offset[1:], old.offset[1:])


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_passes_are_chosen_by_the_error_at_the_end_of_the_readings(factor: float) -> None:
    model, readings = model_of(make_study()), make_new_meter(factor)
    cut = len(readings) - len(readings) // 5
    end = readings["load"].iloc[cut:]
    errors = []
    for epochs in PASSES:
        # Scaling is pooled, so it does not depend on the readings.
        part = model.adapt(readings[:cut], "d", epochs)
        errors.append((part.predict(readings)["forecast"].reindex(end.index) - end).abs().mean())
    best = model.adapt(readings, "d", PASSES[np.argmin(errors)])
    chosen = model.adapt(readings, "d")
    np.testing.assert_array_equal(chosen.models["local"], best.models["local"])


@pytest.mark.parametrize("days", [8, 14])
def test_a_whole_model_is_used_as_received_with_less_than_two_weeks(days: int) -> None:
    readings = tiny.tables(4, 96 * days)["d"].rename_axis("timestamp")
    readings["load"] *= 3
    found = model_of(make_study(grid={"sharing": ["P1"]})).adapt(readings, "d").models
    assert np.array_equal(found["local"], found["global"]) == (days < 14)


def test_too_few_readings_to_choose_leave_the_model_as_received() -> None:
    model = model_of(make_study())
    for rows in (12, 20, 105):  # 12: one look-back
        few = model.adapt(make_new_meter(rows=rows), "d")
        np.testing.assert_array_equal(few.models["local"], few.models["global"])
        assert len(few.predict(make_new_meter(rows=rows))) == rows - 11


def test_gaps_do_not_matter(caplog: pytest.LogCaptureFixture) -> None:
    readings = make_new_meter(rows=96 * 3)
    readings.iloc[40:60, 0] = np.nan
    with caplog.at_level(logging.INFO):
        new = model_of(make_study()).adapt(readings, "d")
    assert "d: 3.0 days of readings: " in caplog.text
    assert np.isfinite(new.models["local"]).all()
    assert np.isfinite(new.predict(readings)["forecast"]).all()


def test_what_is_refused() -> None:
    model = model_of(make_study())
    with naming(DataError, "a: "):
        model.adapt(make_new_meter(), "a")
    with naming(DataError, "11 readings", "12"):
        model.adapt(make_new_meter(rows=11), "d")
    with naming(DataError, "client d", "5 training windows"):
        model.adapt(make_new_meter(rows=20), "d", epochs=1)
    alone = model_of(make_study(grid={"sharing": ["P3"]}))
    with naming(DataError, alone.cell):
        alone.adapt(make_new_meter(), "d")


@pytest.mark.parametrize(
    ("task", "ends"),
    [
        ({"name": "quantiles", "levels": [0.1, 0.5, 0.9]}, ["10", "50", "90"]),
        ({"level": 0.8}, ["lower", "upper"]),
    ],
    ids=["quantiles", "forecast"],
)
def test_intervals_get_the_mean_widths_of_the_others(task: dict, ends: list[str]) -> None:
    task |= {"conformal": "personal"}
    model = model_of(make_study(task=task, windows={"horizons": 2}, model=MLP))
    new = model.adapt(make_new_meter(), "d")
    expected = model.widths["global"].mean(axis=0)
    for widths in new.widths.values():
        np.testing.assert_array_equal(widths, [expected])
    found = new.predict(make_new_meter())
    assert list(found.columns[:-1]) == ["forecast", *(f"forecast_{end}" for end in ends)]
    low, high = found[f"forecast_{ends[0]}"], found[f"forecast_{ends[-1]}"]
    assert (low <= found["forecast"]).all() and (found["forecast"] <= high).all()
    new.save("new.safetensors")
    pd.testing.assert_frame_equal(load("new.safetensors").predict(make_new_meter()), found)


def test_of_baselines_a_meter_gets_the_trees_of_others_and_fits_the_rest() -> None:
    study = make_study(baselines={"trees": 5, "further": FURTHER_BASELINES})
    write_readings()
    dataset = plfl.load_dataset(study, "XX")
    file, packed = Path("m.safetensors"), score(study, dataset, ["ridge"]).packed
    model = load(keep(study, dataset, "lightgbm_federated", file, packed))
    new = [model.adapt(make_new_meter(factor, 12), "d") for factor in (1.0, 3.0)]  # one look-back
    forecasts = [
        found.predict(make_new_meter(factor)) for found, factor in zip(new, (1, 3), strict=True)
    ]
    np.testing.assert_allclose(forecasts[1]["forecast"], 3 * forecasts[0]["forecast"], rtol=1e-6)
    assert (
        new[0].fitted_arrays["d"]["trees_0"].tobytes()
        == model.fitted_arrays["a"]["trees_0"].tobytes()
    )
    combined = load(keep(study, dataset, "combined_received", file, packed))
    readings = make_new_meter(rows=96 * 14)
    fitted = combined.adapt(readings, "d").fitted_arrays["d"]
    assert fitted["weights"].sum() == pytest.approx(1) and fitted["weights"].min() >= 0
    name = "lightgbm_stacked/lightgbm_federated/trees_0"
    assert fitted[name].tobytes() == combined.fitted_arrays["a"][name].tobytes()
    for own in ("lightgbm_bagged/trees_0", "ridge/coefficients"):
        assert fitted[own].tobytes() != combined.fitted_arrays["a"][own].tobytes()
    with naming(DataError, "too few readings"):
        combined.adapt(make_new_meter(rows=40), "d")


def test_a_new_meter_gets_what_is_best_for_its_age_or_else_what_did_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = make_study(baselines={"trees": 5, "further": FURTHER_BASELINES})
    write_readings()
    dataset = plfl.load_dataset(study, "XX")
    Path("models").mkdir()
    names = ["naive_day", "lightgbm_bagged", "lightgbm_federated"]
    files = [f"{name}.safetensors" for name in names]
    packed = score(study, dataset, ["naive_day", "ridge"]).packed
    for name, file in zip(names, files, strict=True):
        keep(study, dataset, name, Path("models", file), packed)
    kept = Forecasters(Path())
    kept.__dict__.update(tables_folder=Path(), _validation={})  # no study has run in this folder
    kept.__dict__["index"] = pd.DataFrame({"state": "XX", "name": names, "file": files})
    for days in (3, 9, 14):
        choice, _ = kept.choose_for_new("d", make_new_meter(rows=96 * days))
        assert choice.name == "lightgbm_federated" and "docs/map.md" in choice.why
    own = {0: {"lightgbm_federated": "a"}, 2: {"combined_received": "b", "lightgbm_bagged": "c"}}
    monkeypatch.setattr("plfl.forecast.choice.BY_AGE", own)
    choice, _ = kept.choose_for_new("d", make_new_meter(rows=96 * 14))
    assert choice.name == "lightgbm_bagged" and choice.why.endswith("(c)")
    monkeypatch.setattr("plfl.forecast.choice.BY_AGE", {0: {}})  # nothing of it is kept
    for days, tried in ((3, names[2:]), (9, names[::2]), (14, names)):
        choice, _ = kept.choose_for_new("d", make_new_meter(rows=96 * days))
        mentioned = {choice.name, *(name for name in names if name in choice.why)}
        assert mentioned == {*tried}, days


@pytest.mark.parametrize(
    ("names", "page"),
    [
        (["naive_day", "public"], "docs/public.md"),
        (["lightgbm_federated", "public", "mean_received"], "docs/public.md"),
        (["lightgbm_federated", "naive_day"], "docs/map.md"),
    ],
)
def test_the_reason_names_the_page_that_has_the_errors(names: list[str], page: str) -> None:
    public = {"name": "public", "kind": "homes"}
    mean = {"name": "mean_received", "of": ["lightgbm_federated", "public"]}
    further = [*FURTHER_BASELINES[:2], public, mean]
    study = make_study(baselines={"trees": 3, "further": further})
    write_readings()
    dataset = plfl.load_dataset(study, "XX")
    Path("models").mkdir()
    files = [f"{name}.safetensors" for name in names]
    packed = score(study, dataset, ["naive_day"]).packed
    for name, file in zip(names, files, strict=True):
        keep(study, dataset, name, Path("models", file), packed)
    kept = Forecasters(Path())
    kept.__dict__.update(tables_folder=Path(), _validation={})  # no study has run in this folder
    kept.__dict__["index"] = pd.DataFrame({"state": "XX", "name": names, "file": files})
    for days in (3, 9):
        choice, model = kept.choose_for_new("d", make_new_meter(rows=96 * days))
        expected = max(
            names, key=["naive_day", "lightgbm_federated", "public", "mean_received"].index
        )
        assert choice.name == expected and f"({page})" in choice.why
        assert model.predict_next(make_new_meter(rows=96 * days), "d")["forecast"].notna().all()
    row = kept.index[-1:].assign(state="YY", file="other.safetensors")
    kept.__dict__["index"] = pd.concat([kept.index, row], ignore_index=True)
    choice, _ = kept.choose_for_new("d", make_new_meter(rows=96 * 3))
    assert choice.name == expected and choice.why.endswith("; of XX, one of 2 states")
