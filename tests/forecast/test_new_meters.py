"""The errors of meters as if they were new, against those of models that `--new` would make."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import plfl
from plfl.base.errors import DataError, ResultsError
from plfl.experiments.baseline_jobs import evaluate_all
from plfl.forecast.backtest import backtest, backtest_new
from plfl.forecast.choice import Forecasters, errors_on_validation
from plfl.forecast.kept_errors import NEW_COLUMNS, NEW_FILE
from plfl.forecast.known_readings import readings_of
from plfl.forecast.model import load
from plfl.forecast.new_meters import score_as_new
from plfl.pipeline.models import keep_models
from plfl.pipeline.training import train_cells
from plfl.report.error_tables import describe_as_new
from plfl.results.collect import JobFiles, collect, write_tables
from plfl.results.records import BaselineFiles, RecordFiles, read_arrays, write_models
from plfl.results.totals import TOTALS_KEY
from plfl.study import Study
from plfl.study.forecaster_names import IN_USE
from tests.helpers.kept_baselines import keep, score
from tests.helpers.meter_models import make_new_meter, make_study, write_readings
from tests.helpers.refusals import naming

RECEIVED = ["lightgbm_federated", "public"]
FURTHER = [
    {"name": "lightgbm_federated", "turns": 2},
    {"name": "public", "kind": "homes"},
    {"name": "mean_received", "of": RECEIVED},
]


def make_study_of_new(**windows: int) -> Study:
    schemes = {"P1": ["*"], "new": {"join": "unseen", "history": 1}}
    return make_study(
        windows={"look_ahead": 1, "scaling": "per_client", **windows},
        baselines={"trees": 3, "further": FURTHER},
        sharing=schemes,
        grid={"sharing": ["P1", "new"]},
    )


def test_errors_are_those_of_the_models_that_a_new_meter_gets() -> None:
    write_readings(96 * 35)
    study = make_study_of_new()
    dataset = plfl.load_dataset(study, "XX")
    packed = score(study, dataset, ["naive_day"]).packed
    names = ["mean_received", "public", "lightgbm_federated"]
    rows = [*score_as_new(study, "XX", dataset, ["naive_day", *reversed(names)], {}, packed)]
    assert [row["forecaster"] for row in rows[::3]] == names  # in order of preference
    errors = {"public": 0.7, "mean_received": 0.8}
    first = next(score_as_new(study, "XX", dataset, names, errors, packed))
    assert first["forecaster"] == "public"  # has the least error on validation
    table = pd.DataFrame(rows).set_index(["forecaster", "client"])["mase"]
    file = Path("m.safetensors")
    readings = readings_of(dataset, dataset.columns.tolist())["a"]  # whose trees are kept first
    test = int(dataset.view.bounds[0, 2])
    known = readings.iloc[test - 7 * 96 :]
    for name in names:
        model = load(keep(study, dataset, name, file, packed))
        adapted = model.adapt(readings.iloc[test - 7 * 96 : test], "d")
        forecasts = adapted.predict(known, "d")
        forecasts = forecasts[
            forecasts["made_at"] >= dataset.stamps[test + study.windows.look_back - 1]
        ]
        truth = readings["load"].reindex(forecasts.index)
        last = readings["load"].reindex(pd.DatetimeIndex(forecasts["made_at"])).to_numpy()
        expected = (forecasts["forecast"] - truth).abs().sum() / (last - truth).abs().sum()
        assert table[name, "a"] == pytest.approx(expected, rel=1e-6), name


def test_without_a_scheme_for_new_meters_there_is_no_row() -> None:
    write_readings(96 * 30)
    study = make_study()
    assert not [*score_as_new(study, "XX", plfl.load_dataset(study, "XX"), ["public"], {}, {})]


def test_trees_that_a_meter_has_grown_itself_have_no_errors_as_new() -> None:
    names = ["public", "ridge", "lightgbm_federated", "combined_received"]
    errors = pd.Series(0.5, pd.Index(names, name="baseline"), name="validation_mase").to_frame()
    for turns, scored_names in ((None, names[:2]), (2, names)):
        trees = {"name": "lightgbm_federated", "turns": turns}
        mean = {"name": "combined_received", "of": ["ridge", "lightgbm_federated"]}
        public = {"name": "public", "kind": "homes"}
        study = make_study(baselines={"further": [trees, public, mean]})
        tables: Any = FakeTables(study, errors)
        assert {*errors_on_validation(tables)} == {*scored_names}
    write_readings(96 * 35)
    study = make_study_of_new()
    dataset = plfl.load_dataset(study, "XX")
    open_trees = study.baselines.model_copy(
        update={
            "further": [
                study.baselines.find("lightgbm_federated").model_copy(update={"turns": None})
            ]
        }
    )
    study = study.model_copy(update={"baselines": open_trees})
    assert not [*score_as_new(study, "XX", dataset, ["lightgbm_federated"], {}, {})]


@dataclass(frozen=True)
class FakeTables:
    """The tables of a study as far as they are read here."""

    study: Study
    baseline_scores: pd.DataFrame


@pytest.mark.parametrize(("state", "names"), [("XX", "ab"), ("NA", ["NA", "01"])])
def test_the_page_sets_the_public_model_beside_what_a_new_meter_gets(
    state: str, names: Sequence[str], tmp_path: Path
) -> None:
    assert describe_as_new(tmp_path, make_study()) == ""
    errors = {"mean_received": (0.5, 0.7), "public": (0.6, 0.65), "lightgbm_federated": (0.8, 1.0)}
    rows = [
        (state, client, 1, name, error)
        for name, both in errors.items()
        for client, error in zip(names, both, strict=True)
    ]
    (tmp_path / "models").mkdir()
    pd.DataFrame(rows, columns=[*NEW_COLUMNS]).to_csv(tmp_path / "models" / NEW_FILE, index=False)
    assert describe_as_new(tmp_path, make_study()) == (
        "For a new meter with 1 week of readings, the forecaster that plfl forecast --new takes, "
        "mean_received (mean of received models), had an error of 0.600; public (public model), "
        "which needs no "
        "partners, had 0.625; lightgbm_federated (LightGBM, federated) had 0.900. The first was "
        "better than the public model for 1 of 2 meters."
    )


def keep_models_of(study: Study) -> Path:
    """Train and score a study of one state, and keep its models; its results folder."""
    folder = study.paths.results
    dataset, receipt, fitted = (folder / name for name in ("XX.npz", "XX.json", "fitted"))
    folder.mkdir(parents=True)
    plfl.load_dataset(study, "XX").save(dataset)
    receipt.write_text(json.dumps({"source": "meters", "files": {}}))
    cells = {cell: RecordFiles.in_folder(folder, str(cell)) for cell in study.cells}
    train_cells(study, cells, {"XX": dataset}, study.name)
    baselines = RecordFiles.in_folder(folder, "XX")
    evaluate_all(study, "XX", dataset).write(BaselineFiles(*baselines, fitted))
    files = JobFiles(cells, [baselines], {"XX": dataset}, {"XX": receipt})
    collect(study, files, folder, None, write_tables)
    keep_models(study, {"XX": dataset}, {"XX": fitted}, folder / "models" / "index.csv")
    return folder


def test_a_study_keeps_the_errors_of_what_is_in_use_and_of_new_meters() -> None:
    write_readings(96 * 35)
    study = make_study_of_new(horizons=2)
    folder = keep_models_of(study)
    table = pd.read_csv(folder / "models" / "lead_times.csv")
    errors = table.pivot_table(index="forecaster", columns="minutes", values="percent_of_load")
    forecasters = Forecasters(folder)
    used = {forecasters.choose(client).name for client in "abc"}
    assert errors.columns.tolist() == [15, 30]
    assert used <= {*errors.index} and len(used) == 1
    assert errors.loc[IN_USE].tolist() == errors.loc[used.pop()].tolist()
    as_new = pd.read_csv(folder / "models" / NEW_FILE)
    validation = forecasters.tables.baselines.query("split == 'validation'")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "XX.npz").rename(folder / "data" / "XX.npz")
    known = forecasters.known_readings.study_readings["a"]
    later = known[-96 * 8 :].set_axis(known.index[-96 * 8 :] + pd.Timedelta(days=8))
    later.attrs["minutes"] = 15
    row = backtest(forecasters, "a", later.asfreq("15min"))[0]
    tested = forecasters.tables.baselines.query("split == 'test' and client == 'a'")
    tested_mase = tested.set_index("baseline")["mase"]
    # Its first forecasts read the end of the validation set.
    assert row["past_mase"] == pytest.approx(tested_mase[row["forecaster"]], rel=0.01)
    errors = validation.groupby("baseline")["mase"].mean()[["mean_received", *RECEIVED]]
    ranked = errors.sort_values().index.tolist()
    assert as_new["forecaster"].tolist()[::3] == ranked
    choice, model = forecasters.choose_for_new("d", make_new_meter(rows=96 * 7))
    assert choice.name == ranked[0] and model.clients == ["d"]
    assert f"least validation error of all, MASE {errors.min():.3g} (" in choice.why
    assert f"plfl forecast --new takes, {ranked[0]} " in describe_as_new(folder, study)
    readings = make_new_meter(rows=96 * 10)
    row, _, _, table = backtest_new(forecasters, "d", readings)
    known = readings[: 96 * 8]
    found = forecasters.choose_for_new("d", known)[1].predict(readings, "d", early=True)
    found = found[found.index > known.index[-1]]
    found = found[found.index <= readings.index[-1]]
    errors = (found["forecast"] - readings["load"].reindex(found.index)).abs()
    assert row["forecaster"] == ranked[0] and row["mae"] == pytest.approx(errors.mean())
    ends = [row[end].tz_localize(None) for end in ("first", "last")]
    assert ends == [readings.index[96 * 8], readings.index[-1]]
    with naming(DataError, "d: its files have 24 hours of readings, of which the last day is"):
        backtest_new(forecasters, "d", readings[:96])
    later = pd.date_range(readings.index[-1], periods=97, freq=readings.index.freq or "15min")[1:]
    longer = readings.reindex(readings.index.append(later))
    assert backtest_new(forecasters, "d", longer)[0] == row
    arrays, _ = read_arrays(folder / "fitted")
    without = {name: array for name, array in arrays.items() if not name.startswith(TOTALS_KEY)}
    write_models(folder / "fitted", without)
    with naming(ResultsError, "fitted", "--forcerun baselines"):
        files = {"XX": folder / "data" / "XX.npz"}, {"XX": folder / "fitted"}
        keep_models(study, *files, folder / "models" / "index.csv")
