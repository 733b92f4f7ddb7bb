"""The charts of the page show the numbers of the tables."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest

from plfl.report import charts
from plfl.report.charts import as_script, compared, library
from plfl.results.scores import scores
from plfl.results.statistics import Comparison
from plfl.results.tables import Tables
from plfl.results.words import baseline_label
from tests.helpers import fake_results

LOST = "CA-P1-fedopt-prox-fedavg-1"
SEEDS = fake_results.SMALL | {
    "data": fake_results.SMALL["data"] | {"states": ["CA", "IL"]},
    "grid": fake_results.SMALL["grid"] | {"seeds": [1, 2]},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return fake_results.write(tmp_path_factory.mktemp("results"), SEEDS, diverged=(LOST,))


@pytest.fixture(scope="module")
def found(tables: Tables) -> dict[str, Any]:
    return charts.charts(tables)


def test_every_chart_is_valid_and_finds_its_data(found: dict[str, Any]) -> None:
    assert list(found["specs"]) == ["forecasters", "convergence", "pareto", "by_client", "week"]
    for name, spec in found["specs"].items():
        alt.LayerChart.from_dict(spec)  # validates
        assert spec["description"].endswith("."), name
        named = [layer.get("data", spec.get("data"))["name"] for layer in spec["layer"]]
        assert all(found["datasets"][data] for data in named), "each has rows"


def _keys(part: Any) -> Iterator[str]:
    """All keys of JSON values."""
    for item in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _keys(item)
    yield from part if isinstance(part, dict) else ()


def test_nothing_is_computed_in_the_browser(found: dict[str, Any]) -> None:
    computing = {"aggregate", "joinaggregate", "regression", "loess", "quantile", "bin", "window"}
    assert computing.isdisjoint(_keys(found["specs"]))


def test_they_are_the_same_each_time(tables: Tables, found: dict[str, Any]) -> None:
    assert as_script(charts.charts(tables)) == as_script(found)


def test_the_embedded_javascript_has_its_notice_of_copyright() -> None:
    notice = library().partition("*/")[0]
    assert "Copyright" in notice and "University of Washington Interactive Data Lab" in notice


def test_names_cannot_end_the_script() -> None:
    text = as_script({"name": "</script><script>alert(1)"})
    assert "<" not in text and json.loads(text)["name"].startswith("</script>")
    assert "</script" not in library()


def test_forecasters_have_the_scores_of_the_tables(tables: Tables, found: dict[str, Any]) -> None:
    rows = pd.DataFrame(found["datasets"]["forecasters"])
    per_state = 2 * (2 * 4) + 2  # two models of P1 and P2 with all optimisers; P3 has no server
    assert len(rows) == 2 * (per_state + len(fake_results.BASELINES))
    lost = rows[rows["label"] == "P1 · Prox + FedAvg"]
    assert lost.set_index(["state", "model"])["mase"].isna().to_dict() == {
        ("CA", "local"): True, ("CA", "global"): True,
        ("IL", "local"): False, ("IL", "global"): False,
    }  # fmt: skip
    for state in ("CA", "IL"):
        here = rows[(rows["state"] == state) & rows["best"]]
        assert here["label"].is_unique or set(here["model"]) == {"local", "global", "baseline"}
        for scheme in ("P1", "P2", "P3"):
            cell = tables.best("local", state=state, sharing=scheme)
            assert cell is not None
            (row,) = here[(here["kind"] == scheme) & (here["model"] == "local")].to_dict("records")
            mase = tables.scores("local", "last").loc[state, *cell.combination]
            assert row["mase"] == pytest.approx(mase["mase_mean"], rel=1e-3)
            assert row["validation"] == pytest.approx(mase["validation_mase"], rel=1e-3)
        of_baselines = here[here["kind"] == "baseline"].set_index("label")["mase"]
        for name, score in tables.baseline_scores.loc[state]["mase_mean"].items():
            assert of_baselines[baseline_label(str(name))] == pytest.approx(score, rel=1e-3)


def test_intervals_are_over_clients_weeks_and_seeds(tables: Tables) -> None:
    table = compared(tables)
    for state, of_state in scores(tables, "global").items():
        cell = {"sharing": "P2", "client_opt": "adam", "server_opt": "fedavgadaptive"}
        (forecaster,) = of_state.those(**cell)
        expected = Comparison((forecaster.name,), {state: forecaster.weekly})
        equal = pd.Series({"state": state, "model": "global", **cell})
        (row,) = table[(table[equal.index] == equal).all(axis=1)].to_dict("records")
        assert row["mase"] == pytest.approx(expected.effect)
        assert (row["low"], row["high"]) == pytest.approx(expected.interval)
        assert row["low"] < row["mase"] < row["high"]


def test_the_front_has_the_best_of_each_state(tables: Tables) -> None:
    for _, here in compared(tables).groupby("state"):
        on_front = here[here["front"]].sort_values("megabytes")
        assert on_front["mase"].is_monotonic_decreasing
        assert on_front["mase"].iloc[-1] == here["mase"].min()


def test_curves_are_means_of_the_records(tables: Tables, found: dict[str, Any]) -> None:
    curves = {
        (row["state"], row["sharing"], row["optimiser"], row["model"]): row
        for row in found["datasets"]["curves"]
    }
    assert len(curves) == 2 * (2 * 2 * 2 + 2)
    row = curves["IL", "P2", "Adam", "global"]
    records = tables.records(
        ["round", "mase"], split="validation", state="IL", sharing="P2", client_opt="adam",
        server_opt=row["server_opt"], model="global",
    ).groupby("round")["mase"].mean()  # fmt: skip
    assert row["round"] == records.index.tolist()
    np.testing.assert_allclose(row["mase"], records, rtol=1e-3)


def test_every_client_has_its_scores(tables: Tables, found: dict[str, Any]) -> None:
    rows = pd.DataFrame(found["datasets"]["clients"]).set_index(["state", "client", "kind"])
    assert len(rows) == 2 * 3 * 4
    cell = tables.best("local", state="IL", sharing="P3")
    assert cell is not None
    for client, mase in tables.test_scores(cell).items():
        records = tables.records(
            ["mase"], client=client, split="test", model="local", round=4, sharing="P3",
            client_opt=cell.client_opt, server_opt=cell.server_opt,
        )  # fmt: skip
        assert len(records) == 2 and mase in set(records["mase"])
        shown = rows.loc[("IL", client, "P3"), "mase"]
        assert shown == pytest.approx(records["mase"].mean(), rel=1e-3)


def test_weeks_are_those_of_the_tables(tables: Tables, found: dict[str, Any]) -> None:
    rows = {row["client"]: row for row in found["datasets"]["weeks"]}
    assert len(rows) == 6 and "IL: il137" in rows
    cell = tables.shown_cell("IL")
    assert cell is not None
    week = tables.forecasts(["stamp", "truth", "local"], client="il137", **asdict(cell))
    row = rows["IL: il137"]
    assert row["start"] == f"{week['stamp'].iloc[0]:%Y-%m-%dT%H:%M}"
    np.testing.assert_allclose(row["load"], week["truth"], rtol=1e-3)
    np.testing.assert_allclose(row["forecast"], week["local"], rtol=1e-3)
    other = tables.baseline_forecasts(
        ["forecast"], client="il137", baseline=tables.best_baselines["IL"]
    )
    np.testing.assert_allclose(row["best baseline"], other["forecast"], rtol=1e-3)


def test_a_gap_in_the_readings_interrupts_the_lines(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    for name in ("forecasts.parquet", "baseline_forecasts.parquet"):
        table = pd.read_parquet(tmp_path / name)
        at = table["stamp"] - table["stamp"].min()
        gap = at.between(pd.Timedelta(hours=25), pd.Timedelta(hours=30), inclusive="left")
        table[~gap].to_parquet(tmp_path / name)
    for row in charts.charts(Tables(tmp_path))["datasets"]["weeks"]:
        assert [i for i, value in enumerate(row["load"]) if value is None] == list(range(100, 120))
        assert len(row["load"]) == len(row["index"]) == 672


def test_of_many_clients_some_have_their_week(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "MOST_NUMBERS", 2 * 2 * 4 * 672)
    weeks = charts.charts(tables)["datasets"]["weeks"]
    assert [row["client"].split(":")[0] for row in weeks] == ["CA", "CA", "IL", "IL"]


def test_without_readings_there_is_no_week(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    forecasts = pd.read_parquet(tmp_path / "forecasts.parquet")
    forecasts[:0].to_parquet(tmp_path / "forecasts.parquet")
    assert "week" not in charts.charts(Tables(tmp_path))["specs"]
