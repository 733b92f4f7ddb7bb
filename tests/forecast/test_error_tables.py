"""Errors of kept forecasters by lead time and of the sum, against sums over the readings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import plfl
from plfl.base.errors import ResultsError
from plfl.baselines import catalogue
from plfl.baselines.fitting import fit
from plfl.baselines.storage import settings_of
from plfl.data.dataset import Dataset
from plfl.experiments.training_setup import TrainingSetup
from plfl.forecast.backtest import FORECASTS, pairs, score_pairs
from plfl.forecast.choice import Forecasters
from plfl.forecast.kept_errors import (
    LEAD_COLUMNS,
    SUM_COLUMNS,
    SUMS_FILE,
    KeptErrors,
    read_errors,
    sum_of_meters,
    warn_of_sums,
)
from plfl.forecast.known_readings import readings_of
from plfl.forecast.sums import add_up as add_up_readings
from plfl.pipeline.models import add_up_mixture
from plfl.report.error_tables import lead_time_errors, sum_rows
from plfl.results.records import read_arrays, write_models
from plfl.results.totals import Totals
from plfl.study import Study
from plfl.study.forecaster_names import IN_USE
from tests.helpers.kept_baselines import score, write_results, write_sums
from tests.helpers.meter_models import MLP, make_study, write_readings
from tests.helpers.refusals import naming

STUDY = {
    "windows": {"look_ahead": 1, "horizons": 4, "scaling": "per_client", "target": "change"},
    "baselines": {"trees": 2},
    "model": MLP,
}
"""Four lead times of a quarter of an hour."""


def add_up(study: Study, dataset: Dataset, name: str) -> KeptErrors:
    """The errors of a baseline."""
    errors = KeptErrors()
    errors.add("XX", name, dataset, score(study, dataset, [name]).totals)
    return errors


def test_errors_are_those_of_the_readings() -> None:
    write_readings(96 * 30)
    study = make_study(**STUDY)
    dataset = plfl.load_dataset(study, "XX")
    errors = add_up(study, dataset, "naive_day")
    leads, sums = errors.leads, errors.sums
    assert list(leads) == [*LEAD_COLUMNS] and list(sums) == [*SUM_COLUMNS]
    assert leads["minutes"].tolist() == [15, 30, 45, 60]
    assert (leads["meters"] == 3).all() and (leads["forecaster"] == "naive_day").all()
    loads = pd.DataFrame(
        {name: t["load"] for name, t in readings_of(dataset, dataset.columns.tolist()).items()}
    )
    first, end = dataset.view.bounds[0, 2:].tolist()
    # A forecast for each row but the first, which are read, and the last, which are targets.
    rows = end - first - dataset.look_back - 3
    truth, day = [], []
    for lead, row in enumerate(leads.to_dict("records"), dataset.look_back):
        tested = loads.iloc[first + lead : first + lead + rows]
        before = loads.shift(96).loc[tested.index]
        share = ((tested - before).abs().sum() / tested.sum()).mean()
        assert row["percent_of_load"] == pytest.approx(100 * share) == row["naive_day"]
        truth.append(tested.sum(axis=1))
        day.append(before.sum(axis=1))
    (total,) = sums.to_dict("records")
    error = (pd.concat(truth) - pd.concat(day)).abs().mean()
    assert total["mae"] == pytest.approx(error) == total["naive_day"]
    assert total["forecasts"] == 4 * rows
    assert total["meters"] == 3 and total["percent_of_load"] <= leads["percent_of_load"].max()


def test_errors_are_those_of_the_kept_forecaster() -> None:
    """As `plfl forecast` makes the same forecasts again from the file that is kept."""
    write_readings(96 * 30)
    study = make_study(**STUDY)
    folder = write_results(study, "ridge")
    dataset = Dataset.load_file(folder / "data" / "XX.npz")
    forecasters = Forecasters(folder)
    tables = {
        client: pairs(forecasters.any_model, client, readings)
        for client, readings in forecasters.known_readings.study_readings.items()
    }
    begin, end = dataset.view.bounds[0, 2:].tolist()
    made_at = dataset.stamps[[begin + dataset.look_back - 1, end - 1 - dataset.horizons]].tolist()
    tables = {name: table[table["made_at"].between(*made_at)] for name, table in tables.items()}
    errors = add_up(study, dataset, "ridge")
    (total,) = errors.sums.to_dict("records")
    expected = score_pairs(add_up_readings(tables, ["truth", *FORECASTS]))
    assert total["mase"] == pytest.approx(expected["mase"])
    assert total["peak_percent"] == pytest.approx(expected["peak_percent"])
    by_client = [
        (table["forecast"] - table["truth"]).abs().groupby(table.index - table["made_at"]).sum()
        / table["truth"].groupby(table.index - table["made_at"]).sum()
        for table in tables.values()
    ]
    means = 100 * pd.concat(by_client, axis=1).mean(axis=1)
    np.testing.assert_allclose(errors.leads["percent_of_load"], means)


@pytest.mark.parametrize(
    "windows", [{"look_ahead": 1, "horizons": 100}, {"look_ahead": 100, "horizons": 1}]
)
def test_a_backtest_has_the_lead_times_above_a_day(windows: dict[str, int]) -> None:
    """There, the load of two days before is the newest one that is known."""
    write_readings(96 * 40)
    study = make_study(**STUDY | {"windows": STUDY["windows"] | windows})
    forecasters = Forecasters(write_results(study, "naive_week"))
    model, readings = forecasters.any_model, forecasters.known_readings.study_readings["a"]
    table = pairs(model, "a", readings)
    forecasts = model.predict(readings, "a")
    known_times = readings.index[readings.index > pd.Timestamp(model.scalings["a"].known_until)]
    assert len(table) == forecasts.index.isin(known_times).sum()
    leads = (table.index - table["made_at"]) // pd.Timedelta(minutes=15)
    assert {*leads} == {*range(windows["look_ahead"], 101)}
    for days, part in table.groupby(np.where(leads > 96, 2, 1)):
        earlier = readings["load"].shift(96 * days)
        np.testing.assert_array_equal(part["naive_day"], earlier.loc[part.index])


def test_a_gap_a_day_before_leaves_a_forecast_in_a_backtest() -> None:
    write_readings(96 * 30)
    forecasters = Forecasters(write_results(make_study(**STUDY), "naive_week"))
    model, readings = forecasters.any_model, forecasters.known_readings.study_readings["a"].copy()
    whole = pairs(model, "a", readings)
    hole = readings.index[-200:-190]
    readings.loc[hole, "load"] = np.nan
    table = pairs(model, "a", readings)
    next_day = hole + pd.Timedelta(days=1)
    assert table.loc[next_day, "naive_day"].isna().all()
    assert len(table.loc[next_day]) == len(whole.loc[next_day])
    assert score_pairs(table)["naive_day"] > 0


def test_totals_of_groups_are_those_of_all(tmp_path: Path) -> None:
    """Also if their windows are not made at the same times, and from a file."""
    write_readings(96 * 30)
    study = make_study(**STUDY)
    dataset = plfl.load_dataset(study, "XX")
    bounds = dataset.view.bounds.copy()
    bounds[1, 2] += 8
    shorter = replace(dataset, views={"usual": replace(dataset.view, bounds=bounds)})
    all_totals = score(study, shorter, ["naive_day"]).totals
    parts = [
        score(study, shorter.select(np.array(clients)), ["naive_day"]).totals
        for clients in ([0, 1], [2])
    ]
    write_models(tmp_path / "totals", Totals.join(parts).arrays())
    totals = Totals.from_arrays(read_arrays(tmp_path / "totals")[0])
    assert totals is not None and Totals.from_arrays({}) is None
    for name, sums in all_totals.loads.items():
        np.testing.assert_allclose(totals.loads[name], sums)
    assert sorted({*all_totals.clients}) == [2, 3] and totals.clients[0] == 2
    joined, whole = (KeptErrors(), KeptErrors())
    joined.add("XX", "naive_day", shorter, totals)
    whole.add("XX", "naive_day", shorter, all_totals)
    pd.testing.assert_frame_equal(joined.leads, whole.leads)
    pd.testing.assert_frame_equal(joined.sums, whole.sums)
    shown = sum_of_meters(shorter, totals, "naive_day")
    assert shown["made_at"].min() == shorter.stamps[bounds[1, 2] + shorter.look_back - 1]


@pytest.mark.parametrize("history", [None, 2])
def test_a_mixture_has_the_errors_of_each_clients_forecaster(history: int | None) -> None:
    """The sums are those of the forecasts that each client gets, whoever makes them."""
    write_readings(96 * 30)
    study = make_study(**STUDY | {"windows": STUDY["windows"] | {"history": history}})
    dataset = plfl.load_dataset(study, "XX")
    packed = score(study, dataset, ["naive_day", "ridge"]).packed
    models = np.random.default_rng(0).normal(0, 0.1, (3, len(study.plan.layout.mask(["*"]))))
    parameters = {"P1": models.astype(np.float32)}
    names = {"a": "ridge", "b": "naive_day", "c": "P1"}
    mixture = add_up_mixture(study, dataset, names, parameters, packed)
    evaluator = TrainingSetup.for_study(study, dataset).evaluator
    expected = Totals([IN_USE], dataset.horizons)
    for i, name in enumerate(names.values()):
        if name == "P1":
            forecasts = evaluator.forecast_test(i, parameters[name][i])
        else:
            fitted = fit(catalogue()[name], dataset, settings_of(study), {})
            forecasts = fitted.predict(i, dataset.starts(i, "test"))
        expected.add(dataset, i, {IN_USE: forecasts})
    for found, wanted in zip(mixture.arrays().values(), expected.arrays().values(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    errors = KeptErrors()
    errors.add("XX", IN_USE, dataset, mixture)
    assert errors.sums["forecaster"].tolist() == [IN_USE] and errors.sums["meters"].tolist() == [3]
    assert (errors.leads["meters"] == 3).all()
    # A client without a score has none of the forecasts, so there is no sum of all.
    some = add_up_mixture(study, dataset, {"a": "ridge"}, {}, packed)
    fewer = KeptErrors()
    fewer.add("XX", IN_USE, dataset, some)
    assert fewer.sums.empty and (fewer.leads["meters"] == 1).all()


def test_what_is_in_use_has_words_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    rows = pd.DataFrame({"state": "A", "forecaster": IN_USE, "minutes": [60, 120], "meters": 2})
    rows.assign(percent_of_load=20.0, naive_day=30.0).to_csv(
        tmp_path / "models" / "lead_times.csv", index=False
    )
    shown = lead_time_errors(tmp_path, Study.parse({"name": "own"}, "test"))
    assert shown["rows"][0]["forecaster"] == "In use"


def test_lead_times_above_a_day_have_rows() -> None:
    """There, the load a day before is not known yet, and that of two days before takes its
    place."""
    write_readings(96 * 40)
    study = make_study(**STUDY | {"windows": STUDY["windows"] | {"horizons": 100}})
    dataset = plfl.load_dataset(study, "XX")
    leads = add_up(study, dataset, "naive_week").leads
    assert leads["minutes"].tolist() == [15 * lead for lead in range(1, 101)]
    first, end = dataset.view.bounds[0, 2:].tolist()
    rows = end - first - dataset.look_back - 99
    loads = readings_of(dataset, dataset.columns.tolist())
    for lead, days in ((96, 1), (97, 2), (100, 2)):
        errors = []
        for table in loads.values():
            begin = first + dataset.look_back + lead - 1
            tested = table["load"].iloc[begin : begin + rows]
            before = table["load"].shift(96 * days).loc[tested.index]
            errors.append(100 * (tested - before).abs().sum() / tested.sum())
        assert leads["naive_day"][lead - 1] == pytest.approx(np.mean(errors))


def test_the_page_shows_them(tmp_path: Path) -> None:
    write_readings(96 * 30)
    study = make_study(**STUDY)
    errors = add_up(study, plfl.load_dataset(study, "XX"), "naive_day")
    (tmp_path / "models").mkdir()
    errors.leads.to_csv(tmp_path / "models" / "lead_times.csv", index=False)
    errors.sums.to_csv(tmp_path / "models" / "sums.csv", index=False)
    shown = lead_time_errors(tmp_path, study)
    assert [lead.replace("\N{NO-BREAK SPACE}", " ") for lead in shown["leads"]] == [
        *("15 min", "30 min", "45 min", "1 h")
    ]
    (row,) = shown["rows"]  # the load of a day before is not shown twice
    assert row["forecaster"] == "Seasonal naive (day)" and len(row["errors"]) == 4
    (total,) = sum_rows(tmp_path, study)
    assert total["percent"] == total["day"]
    assert total["peak"].endswith("h")
    nowhere = tmp_path / "nowhere"
    assert lead_time_errors(nowhere, study) == {} and sum_rows(nowhere, study) == []


def test_of_a_day_a_few_lead_times_are_shown(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    minutes = np.arange(1, 25) * 60
    rows = pd.DataFrame({"state": "A", "forecaster": "P2", "minutes": minutes, "meters": 2})
    rows = rows.assign(percent_of_load=minutes / 60, naive_day=30.0)
    rows.to_csv(tmp_path / "models" / "lead_times.csv", index=False)
    shown = lead_time_errors(tmp_path, Study.parse({"name": "own"}, "test"))
    assert [text.split("\N{NO-BREAK SPACE}")[0] for text in shown["leads"]] == [
        *("1", "4", "8", "11", "14", "17", "21", "24")
    ]
    own, day = shown["rows"]
    assert own["forecaster"] == "P2 (body shared)"
    assert [error.split("\N{NO-BREAK SPACE}")[0] for error in own["errors"]][-1] == "24.0"
    assert day["forecaster"] == "Seasonal naive (day)" and len(set(day["errors"])) == 1


@pytest.mark.parametrize(
    ("loss", "columns", "words"),
    [
        ("mae", {}, "; they are medians and in total 17 % too low."),
        ("mse", {}, "; they are in total 17 % too low."),
        ("mae", {"bias_percent": 5.0}, "; they are in total 5 % too high."),
        ("mae", {"bias_percent": None}, "."),  # of an earlier version
    ],
)
def test_forecasts_whose_sum_is_worse_than_a_day_before_are_not_to_be_added(
    tmp_path: Path, loss: str, columns: dict[str, object], words: str
) -> None:
    study = Study.parse({"name": "own", "federation": {"loss": loss}}, "test")
    write_sums(tmp_path, **columns)
    (text,) = warn_of_sums(tmp_path, study).values()
    assert text.replace("\N{NO-BREAK SPACE}", " ") == (
        "Do not add these forecasts: of the sum they were wrong by 19 % in the test, repeating "
        f"the load of a day before by 16 %{words}"
    )
    write_sums(tmp_path, naive_day=1.3)
    assert warn_of_sums(tmp_path, study) == {} == warn_of_sums(tmp_path, study, "P1")


def test_a_bias_is_that_of_the_totals() -> None:
    times = pd.date_range("2024-01-01", periods=4, freq="h")
    table = pd.DataFrame({"truth": [1.0, 2, 3, 4], "forecast": [1.0, 1, 3, 3]}, times)
    scores = score_pairs(table.assign(last=2.0, naive_day=2.0, naive_week=2.0))
    assert scores["bias_percent"] == pytest.approx(-20)


def test_a_damaged_table_is_not_to_be_deleted(tmp_path: Path) -> None:
    """Nothing would make it again: Snakemake knows only the index of the models."""
    path = tmp_path / "models" / SUMS_FILE
    path.parent.mkdir()
    path.write_text("state,x\n", "utf-8")
    with naming(ResultsError, str(path), "cannot be read", ")", "run the study again") as error:
        read_errors(tmp_path, SUMS_FILE, SUM_COLUMNS)
    assert "delete" not in str(error.value)
