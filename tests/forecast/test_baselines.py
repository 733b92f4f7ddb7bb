"""A stored baseline gives the scores that the study has recorded, and the same forecasts again."""

import multiprocessing
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plfl
from plfl.base.errors import DataError
from plfl.baselines.storage import storable_names
from plfl.cli.main import main
from plfl.config.named import STANDARD_BASELINES
from plfl.data.dataset import Dataset
from plfl.forecast.model import ForecastModel, count_rows_read, load
from plfl.interfaces.baseline import Arrays
from plfl.results.records import read_arrays, write_models
from plfl.study import Study
from tests.helpers.kept_baselines import FURTHER_BASELINES, keep, score
from tests.helpers.meter_models import MLP, RECIPE, make_study, write_readings

WINDOWS = {"scaling": "per_client", "horizons": 3}
QUANTILES = {"name": "quantiles", "conformal": "personal"}


def kept(study: Study, dataset: Dataset, packed: Arrays, name: str) -> ForecastModel:
    return load(keep(study, dataset, name, Path(f"{name}.safetensors"), packed))


@pytest.mark.parametrize(
    ("blocks", "wanted"),
    [
        ({}, [rules["name"] for rules in FURTHER_BASELINES]),
        (
            {"windows": {**RECIPE, **WINDOWS}, "task": QUANTILES, "model": MLP},
            ["combined_received"],  # it has the others as members
        ),
        ({"windows": {"scaling": "per_client", "history": 1}}, []),
        ({"task": {"conformal": "adaptive"}, "windows": {"look_ahead": 20}}, []),
    ],
    ids=["point", "quantiles", "history", "adaptive"],
)
def test_stored_baselines_give_the_recorded_scores(
    blocks: dict[str, Any], wanted: list[str]
) -> None:
    listed = FURTHER_BASELINES if wanted else []
    study = make_study(**blocks, baselines={"trees": 5, "further": listed})
    write_readings()
    dataset = plfl.load_dataset(study, "XX")
    names = storable_names(study.baselines)
    if not dataset.covariates.shape[1]:
        names.remove("lightgbm_covariates")
    assert {"persistence", "naive_day", "linear", "ridge_lags", "lightgbm_lags"} <= {*names}
    assert {*names} >= {*wanted}
    found = score(study, dataset)
    scores = found.scores[found.scores["split"] == "test"].set_index(["baseline", "client"])["mae"]
    with_score = {name for name, _ in scores.dropna().index}
    assert {"lightgbm_lags", "ridge_lags", *wanted} <= with_score
    packed = found.packed
    kept_names = with_score.intersection([*STANDARD_BASELINES, *wanted]).intersection(names)
    models = {name: kept(study, dataset, packed, name) for name in kept_names}
    readings_of = {client: models["ridge"].read(Path(f"meters/{client}.csv")) for client in "ab"}
    for name, model in models.items():
        assert model.clients == [*"abc"]
        for i, (client, readings) in enumerate(readings_of.items()):
            forecasts = model.predict(readings, client)
            starts = dataset.starts(i, "test")
            last = dataset.stamps[dataset.persistence_rows(starts)]
            own = forecasts[forecasts["made_at"].isin(last)]
            truth = readings["load"].reindex(own.index)
            error = float((own["forecast"] - truth).abs().mean())
            assert error == pytest.approx(scores[name, client], rel=1e-9), (name, client)
            pd.testing.assert_frame_equal(
                model.predict_next(readings, client), model.select_upcoming(readings, forecasts)
            )


def test_a_forecast_reads_what_it_depends_on_and_no_less() -> None:
    """`plfl forecast` puts so many of a study's readings before those of a new file."""
    further = [
        {"name": "public", "kind": "buildings"},
        {"name": "combined", "of": ["naive_weeks", "ridge"]},
    ]
    study = make_study(baselines={"trees": 5, "further": further})
    write_readings(96 * 40)
    dataset = plfl.load_dataset(study, "XX")
    packed = score(study, dataset, ["naive_weeks", "ridge"]).packed
    rows = {}
    names = ("public", "combined", "naive_weeks", "ridge")
    models = {name: kept(study, dataset, packed, name) for name in names}
    readings = models["ridge"].read(Path("meters/a.csv"))
    for name, model in models.items():
        rows[name] = count_rows_read(study, model.interval, name)
        assert rows[name] < len(readings)
        expected = model.predict_next(readings, "a").tail(1)
        found = model.predict_next(readings[-rows[name] :], "a").tail(1)
        pd.testing.assert_frame_equal(found, expected)
    assert rows["combined"] == rows["naive_weeks"] > 96 * 28 - 5
    assert rows["public"] > 96 * 28 > 96 > rows["ridge"]


def test_a_stored_baseline_is_data_and_is_saved_again() -> None:
    study = make_study(baselines={"trees": 5})
    write_readings()
    dataset = plfl.load_dataset(study, "XX")
    model = kept(study, dataset, score(study, dataset).packed, "lightgbm_lags")
    arrays, _ = read_arrays(Path("lightgbm_lags.safetensors"))
    assert arrays["0.trees_0"].tobytes().startswith(b"tree\n")
    assert {array.dtype for array in arrays.values()} == {np.dtype("u1"), np.dtype(float)}
    model.save("again.safetensors")
    files = [Path(name).read_bytes() for name in ("again.safetensors", "lightgbm_lags.safetensors")]
    assert files[0] == files[1]
    readings = model.read(Path("meters/a.csv"))
    with pytest.raises(DataError, match="has no global model"):
        model.predict(readings, "a", "global")
    # Fitted to the readings of a new meter, it forecasts that one alone.
    new = model.adapt(readings, "new")
    assert (new.clients, new.models) == (["new"], {})
    found = new.predict(readings)
    errors = [found["forecast"] - readings["load"], readings["load"].diff(4)]
    assert errors[0].abs().mean() < errors[1].abs().mean()
    new.save("new.safetensors")
    pd.testing.assert_frame_equal(load("new.safetensors").predict(readings), found)


def test_a_baseline_that_an_earlier_plfl_wrote_as_a_cell_is_read() -> None:
    study = make_study()
    write_readings()
    dataset = plfl.load_dataset(study, "XX")
    model = kept(study, dataset, score(study, dataset).packed, "ridge")
    arrays, about = read_arrays(Path("ridge.safetensors"))
    assert about.pop("baseline") == {"state": "XX", "name": "ridge"}
    labels = {"client_opt": "none", "server_opt": "none", "seed": 0}
    about["cell"] = {"state": "XX", "sharing": "baseline", "method": "ridge", **labels}
    write_models(Path("earlier.safetensors"), arrays, about)
    readings = model.read(Path("meters/a.csv"))
    pd.testing.assert_frame_equal(
        load("earlier.safetensors").predict(readings, "a"), model.predict(readings, "a")
    )


def test_what_is_kept_was_fitted_for_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_study(baselines={"trees": 5, "further": FURTHER_BASELINES})
    write_readings()
    dataset = plfl.load_dataset(study, "XX")
    found = score(study, dataset)
    monkeypatch.setattr("plfl.baselines.trees.train", None)  # nothing is trained any more
    packed = found.packed
    kept(study, dataset, packed, "combined_received")
    kept(study, dataset, packed, "lightgbm_bagged")
    members = read_arrays(Path("combined_received.safetensors"))[0]
    arrays = read_arrays(Path("lightgbm_bagged.safetensors"))[0]
    for name, array in arrays.items():
        number, _, key = name.partition(".")
        np.testing.assert_array_equal(array, members[f"{number}.lightgbm_bagged/{key}"])


def test_a_kept_model_with_an_impossible_tree_is_refused() -> None:
    """The file is whole. LightGBM would end the process, since a tree states 10⁸ bytes."""
    study = make_study(baselines={"trees": 5})
    write_readings()
    dataset = plfl.load_dataset(study, "XX")
    kept(study, dataset, score(study, dataset).packed, "lightgbm_lags")
    arrays, about = read_arrays(Path("lightgbm_lags.safetensors"))
    text = arrays["0.trees_0"].tobytes().decode()
    forged = re.sub(r"tree_sizes=\d+", "tree_sizes=99999999", text)
    arrays["0.trees_0"] = np.frombuffer(forged.encode(), np.uint8)
    write_models(Path("forged.safetensors"), arrays, about)
    of_client = ["forged.safetensors", "--client", "a"]
    commands = [["forecast", *of_client, "meters/a.csv"], ["export", "--to", "a.onnx", *of_client]]
    errors = Path("errors.txt")
    fork = multiprocessing.get_context("fork")  # which has imported all that it needs
    process = fork.Process(target=run_refused, args=(commands, errors))
    process.start()
    process.join(100)
    assert process.exitcode == 0
    said = errors.read_text()
    assert "Traceback" not in said
    assert said.count("trees_0, tree 0: has not the 99999999 bytes") == 2


def run_refused(commands: list[list[str]], errors: Path) -> None:
    """Run commands that are refused, which write into a file."""
    with errors.open("w") as sys.stderr:
        assert [main(words) for words in commands] == [2, 2]
