"""Predictions made elsewhere: their scores agree with those of plfl, or they are refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plfl
from plfl.base.errors import DataError
from plfl.cli.main import main
from plfl.cli.score import command_of
from plfl.outside.clients import Client
from plfl.outside.score import (
    SUBMISSION,
    ScoredPredictions,
    rank_forecasters,
    read_predictions,
    score,
    score_rivals,
)
from plfl.results.scores import WeeklyScores
from plfl.study import Study
from plfl.tasks.metrics import DAILY_COLUMNS
from tests.helpers.projects import OWN_DATA, WriteStudy
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

FILE = Path("predictions.parquet")


def truth(client: Client) -> np.ndarray:
    """Perfect outputs, for all quantiles."""
    outputs = client.y_test
    return outputs[..., None].repeat(len(client.levels), -1) if client.levels else outputs


def predicted(study: Study, error: float = 0.0, seeds: int = 1) -> pd.DataFrame:
    """Predictions that are too high by `error` kWh, and a little more for each further seed."""
    tables = [
        client.predictions(truth(client) + error * (1 + seed / 10) / client.scale, seed)
        for client in plfl.clients(study)
        for seed in range(seeds)
    ]
    return pd.concat(tables)


def scored(study: Study, table: pd.DataFrame, with_rivals: bool = True) -> ScoredPredictions:
    table.to_parquet(FILE)
    return score(study, FILE, with_rivals=with_rivals)


@pytest.mark.parametrize("horizons", [1, 3])
def test_a_baseline_made_elsewhere_has_the_scores_of_the_study(
    write_study: WriteStudy, horizons: int
) -> None:
    study = Study.load(write_study(windows={"horizons": horizons}))
    tables = []
    for client in plfl.clients(study):
        load = pd.read_csv(f"meters/{client.name}.csv", index_col=0, parse_dates=True)["load"]
        day_before = client.stamp_test.ravel() - np.timedelta64(1, "D")
        loads = load[day_before].to_numpy().reshape(client.y_test.shape)
        base = client.base_test.reshape(-1, *[1] * (loads.ndim - 1))
        tables.append(client.predictions((loads - base) / client.scale))
    found = scored(study, pd.concat(tables).sample(frac=1, random_state=1))
    rows = found.table.set_index("forecaster")
    naive = rows.loc["Seasonal naive (day)"]
    for name in ("mase", "low", "high", "wape"):
        assert rows.loc[SUBMISSION, name] == pytest.approx(naive[name], rel=1e-5)
    assert naive["lead"] == pytest.approx(0, abs=1e-6)
    # An implementation of its own: means of ratios over clients.
    dataset = plfl.load_dataset(study, "all")
    pairs = zip(tables, plfl.clients(study), strict=True)
    errors = [np.abs(table["forecast"] - c.kwh(c.y_test).ravel()).mean() for table, c in pairs]
    starts = [dataset.starts(i, "test") for i in range(3)]
    loads = [dataset.truth(s) for s in starts]
    naive_loads = [dataset.persistence(s) for s in starts]
    against = [np.abs(y - n).mean() for y, n in zip(loads, naive_loads, strict=True)]
    assert rows.loc[SUBMISSION, "mase"] == pytest.approx(
        np.mean(np.divide(errors, against)), rel=1e-5
    )
    wape = np.mean([e / y.mean() for e, y in zip(errors, loads, strict=True)])
    assert rows.loc[SUBMISSION, "wape"] == pytest.approx(wape, rel=1e-5)


def test_truth_wins_and_seeds_are_averaged(write_study: WriteStudy) -> None:
    study = Study.load(write_study())
    best = scored(study, predicted(study))
    assert best.own_row["rank"] == 1
    assert best.own_row["mase"] == pytest.approx(0, abs=1e-4)
    assert (best.table["lead"].dropna() > 0).all()
    one, two = (
        scored(study, predicted(study, 0.5, seeds), with_rivals=False).own_row["mase"]
        for seeds in (1, 2)
    )
    assert two == pytest.approx(1.05 * one, rel=1e-4)


def test_quantiles_have_a_crps(write_study: WriteStudy) -> None:
    study = Study.load(write_study(task={"name": "quantiles"}))
    found = scored(study, predicted(study, 0.5))
    # All quantiles are too high by as much: the mean pinball loss is that of their mean level.
    assert found.own_row["scaled_crps"] == pytest.approx(found.own_row["mase"], rel=1e-4)
    with_mase = found.table["mase"].notna()  # not where three weeks are too few
    assert (found.table["scaled_crps"].notna() == with_mase).all()
    by_crps = score(study, FILE, metric="scaled_crps")
    assert by_crps.own_row["low"] < by_crps.own_row["scaled_crps"] < by_crps.own_row["high"]
    ours, same = (each.table.set_index("forecaster").dropna() for each in (by_crps, found))
    assert len(ours) > 5
    for name in ("scaled_crps", "mase"):
        pd.testing.assert_series_equal(ours[name], same[name][ours.index], rtol=1e-5)
    assert by_crps.submission({})["score"] == pytest.approx(
        by_crps.own_row["scaled_crps"], abs=1e-6
    )


@pytest.mark.parametrize("baseline", ["naive_day", "lightgbm"])
def test_a_baseline_has_the_quantiles_that_score_reads(
    write_study: WriteStudy, baseline: str
) -> None:
    path = write_study(task={"name": "quantiles"}, baselines={"trees": 2})
    table = plfl.datasets.forecast(path, baseline)
    names = ["forecast_5", "forecast_25", "forecast_50", "forecast_75", "forecast_95"]
    assert (table[names].diff(axis=1).iloc[:, 1:] >= 0).to_numpy().all()
    assert (table["forecast"] == table["forecast_50"]).all()
    scores = plfl.datasets.score(path, table)
    assert (scores["scaled_crps"] < scores["mase"]).all()


def test_origins_are_scored_together(write_study: WriteStudy) -> None:
    study = Study.load(
        write_study(data=OWN_DATA | {"origins": ["2024-02-05", "2024-03-04"]}, days=100)
    )
    clients = plfl.clients(study)
    assert [(c.origin, c.name) for c in clients[2:4]] == [("2024-02-05", "c"), ("2024-03-04", "a")]
    assert clients[0].stamp_test.max() <= clients[3].stamp_test.min()
    table = predicted(study, 0.1)
    found = scored(study, table)
    scores_by_origin = [
        scored(
            study.variant(f"origins={day}"),
            table[table["origin"] == day].drop(columns="origin"),
            with_rivals=False,
        )
        for day in ("2024-02-05", "2024-03-04")
    ]
    assert found.own_row["mase"] == pytest.approx(
        np.mean([s.own_row["mase"] for s in scores_by_origin])
    )
    assert len(found.clients) == 6
    with naming(DataError, "no predictions for 2024-03-04 b"):
        late_b = (table["origin"] == "2024-03-04") & (table["client"] == "b")
        scored(study, table[~late_b])


def test_rivals_are_paired_by_origin_in_whatever_order_results_have_them() -> None:
    random = np.random.default_rng(0)
    weekly = {day: 0.2 + 0.1 * random.random((4, 1, 3)).repeat(2, 1) for day in "12"}

    def parts(days: str, more: float) -> list[WeeklyScores]:
        return [WeeklyScores("CA", day, tuple("abcd"), weekly[day] + more) for day in days]

    table = rank_forecasters({SUBMISSION: parts("12", 0.0), "rival": parts("21", 0.1)}, "mase")
    rival = table.set_index("forecaster").loc["rival"]
    ends = rival[["lead", "lead_low", "lead_high"]].to_numpy(float)
    assert ends == pytest.approx([0.3, 0.3, 0.3])
    one, other = (parts(day, 0.0)[0] for day in "12")
    with pytest.raises(ValueError, match="CA 1 and of CA 2"):
        one.advantage_over(other)


def test_a_baseline_without_a_forecast_for_a_client_has_no_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(_starts: object) -> np.ndarray:
        return np.full(14, 2.0)

    dataset = SimpleNamespace(clients=np.array(["a", "b"]), truth=load, starts=lambda *_: None)
    data: Any = {("", "CA"): dataset}
    errors, scores = [], []
    for name, error_of_b in (("persistence", 1.0), ("naive_week", np.nan)):
        for client, error in (("a", 0.5), ("b", error_of_b)):
            days = {"day": pd.date_range("2024-01-01", periods=14), "abs_error": error}
            days |= {"state": "CA", "client": client, "forecasts": 1, "scale": 1.0}
            errors.append(pd.DataFrame({"method": name} | days))
            row = {"state": "CA", "baseline": name, "split": "test", "client": client}
            scores.append(row | {"mae": error, "mase": error})
    table = pd.concat(errors).rename(columns={"abs_error": DAILY_COLUMNS["mase"]})
    evaluated = SimpleNamespace(scores=pd.DataFrame(scores), errors=table)
    monkeypatch.setattr("plfl.experiments.baselines.evaluate", lambda *_: evaluated)
    score_sets, means = score_rivals(Study.parse({"name": "x"}, "x"), data, None, "mase")
    rows = rank_forecasters(score_sets | {SUBMISSION: score_sets["Persistence"]}, "mase")
    mase = rows.set_index("forecaster")["mase"]
    assert mase["Persistence"] == pytest.approx(0.75)
    assert np.isnan(mase["Seasonal naive (week)"])
    assert np.isnan(means["Seasonal naive (week)"]["wape"])
    assert means["Persistence"]["wape"] == pytest.approx(0.375)


@pytest.mark.parametrize("name", ["007", "NA"])
def test_names_in_csv_are_as_they_are_written(name: str, write_study: WriteStudy) -> None:
    study = Study.load(write_study())
    table = predicted(study)
    Path("predictions.csv").write_text(table.assign(client=name).to_csv(index=False))
    assert read_predictions(Path("predictions.csv"), study)["client"].unique().tolist() == [name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t[t["client"] != "b"], ["seed 0 has no predictions for b"]),
        (lambda t: t.assign(client=t["client"] + "x"), ["no predictions for a"]),
        (lambda t: t.assign(stamp=t["stamp"] + pd.Timedelta("15min")), ["a:", "stamp_test"]),
        (lambda t: t.iloc[1:], ["a:", "forecasts, of which"]),
        (lambda t: pd.concat([t, t.iloc[:1]]), ["a: has two forecasts for stamp 20"]),
        (lambda t: t.assign(forecast=t["forecast"].where(t.index > 0)), ["missing or infinite"]),
        (lambda t: t.assign(forecast="much"), ["no number"]),
        (lambda t: t.drop(columns="stamp"), ["no column stamp"]),
        (lambda t: t.iloc[:0], ["has no rows"]),
        (lambda t: t.assign(seed=np.where(np.arange(len(t)) < 3, np.nan, 1)), ["3 rows", "seed"]),
    ],
)
def test_what_does_not_fit_is_refused(
    write_study: WriteStudy, change: object, words: list[str]
) -> None:
    study = Study.load(write_study())
    assert callable(change)
    with naming(DataError, *words):
        scored(study, change(predicted(study)))


def test_a_row_of_a_leaderboard(
    write_study: WriteStudy, capsys: pytest.CaptureFixture[str], invoke
) -> None:
    path = str(write_study())
    predicted(Study.load(path), 0.1).to_parquet(FILE)
    command = ["score", path, str(FILE), "--submit", "board.csv"]
    assert "--method" in invoke(*command, status=2).err
    for name in ("mine", "again"):
        assert main([*command, "--method", name, "--bytes-up", "12"]) == 0
    board = pd.read_csv("board.csv")
    assert board["method"].tolist() == ["mine", "again"]
    assert board["score"].between(board["low"], board["high"]).all()
    said = capsys.readouterr().out
    assert "rank " in said and "again is row 2 of 2" in said


def test_a_ready_made_study_is_run_again_by_its_command() -> None:
    study = Study.load(ROOT / "config" / "demo.yaml")
    assert command_of(study) == "plfl study config/demo.yaml"
    changed = study.model_copy(update={"claims": []})
    assert command_of(changed).startswith("plfl study demo.yaml, with the keys {name: demo, ")
