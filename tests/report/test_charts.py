"""The charts of the page show the numbers of the tables."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest

from plfl.config.baselines import BASELINE
from plfl.report import charts
from plfl.report.charts import as_script, library
from plfl.results.assignment import assign
from plfl.results.selection import shown_cell
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.study import Study
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
    return charts.charts(Variant("", {}, tables))


def test_every_chart_is_valid_and_finds_its_data(found: dict[str, Any]) -> None:
    assert list(found["specs"]) == ["convergence", "week"]
    for name, spec in found["specs"].items():
        alt.LayerChart.from_dict(spec)  # validates
        assert spec["description"].endswith("."), name
        named = [layer.get("data", spec.get("data"))["name"] for layer in spec["layer"]]
        assert all(found["datasets"][data] for data in named), "each has rows"


def test_the_embedded_javascript_has_its_notice_of_copyright() -> None:
    notice = library().partition("*/")[0]
    assert "Copyright" in notice and "University of Washington Interactive Data Lab" in notice


def test_the_javascript_is_put_together_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there is no cache."""
    bundles = iter(["first", "second", "third"])
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda: next(bundles))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = []
    for _ in range(2):
        library.cache_clear()
        texts.append(library())
    assert texts[0] == texts[1] and "first" in texts[0]
    (tmp_path / "no folder").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no folder"))
    for word in ("second", "third"):
        library.cache_clear()
        assert word in library()
    library.cache_clear()


def test_names_cannot_end_the_script() -> None:
    text = as_script({"name": "</script><script>alert(1)"})
    assert "<" not in text and json.loads(text)["name"].startswith("</script>")
    assert "</script" not in library()


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


def test_weeks_are_those_of_the_tables(tables: Tables, found: dict[str, Any]) -> None:
    rows = {row["client"]: row for row in found["datasets"]["weeks"]}
    assert len(rows) == 6 and "IL: il137" in rows
    cell = shown_cell(tables, "IL")
    assert cell is not None
    week = tables.forecasts(["stamp", "truth"], client="il137", **asdict(cell))
    row = rows["IL: il137"]
    assert row["start"] == f"{week['stamp'].iloc[0]:%Y-%m-%dT%H:%M}"
    np.testing.assert_allclose(row["load"], week["truth"], rtol=1e-3)
    assignment = assign(tables, "IL")["il137"]
    if assignment.combination.sharing == BASELINE:
        names = {"state": "IL", "baseline": assignment.forecaster}
        used = tables.baseline_forecasts(["forecast"], client="il137", **names)["forecast"]
    else:
        names = asdict(cell) | assignment.combination._asdict()
        used = tables.forecasts(["local"], client="il137", **names)["local"]
    np.testing.assert_allclose(row["forecast"], used, rtol=1e-3)
    other = tables.baseline_forecasts(
        ["forecast"], client="il137", baseline=tables.best_baseline("IL")
    )
    np.testing.assert_allclose(row["best baseline"], other["forecast"], rtol=1e-3)


@pytest.mark.parametrize(("source", "hour"), [("meters", 1), ("sample", 0)])
def test_the_week_of_meters_is_in_local_time(source: str, hour: int) -> None:
    data = {"source": source, "meters": {"timezone": "Europe/Berlin"}, "clients": 2}
    study = Study.parse({"data": data}, "test")
    stamps = pd.Series(pd.DatetimeIndex(["2024-07-01 00:30", "2024-07-01 01:00"]))
    first = charts.find_local_start(study, "a", stamps)
    assert f"{first:%Y-%m-%dT%H:%M}" == f"2024-07-01T0{hour}:30"


def test_a_gap_in_the_readings_interrupts_the_lines(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    for name in ("forecasts.parquet", "baseline_forecasts.parquet"):
        table = pd.read_parquet(tmp_path / name)
        at = table["stamp"] - table["stamp"].min()
        gap = at.between(pd.Timedelta(hours=25), pd.Timedelta(hours=30), inclusive="left")
        table[~gap].to_parquet(tmp_path / name)
    for row in charts.charts(Variant("", {}, Tables(tmp_path)))["datasets"]["weeks"]:
        assert [i for i, value in enumerate(row["load"]) if value is None] == list(range(100, 120))
        assert len(row["load"]) == len(row["index"]) == 672


def test_of_many_clients_some_have_their_week(tables, monkeypatch):
    monkeypatch.setattr(charts, "MOST_WEEKS", 4)
    weeks = charts.charts(Variant("", {}, tables))["datasets"]["weeks"]
    assert [row["client"].split(":")[0] for row in weeks] == ["CA", "CA", "IL", "IL"]


def test_without_readings_there_is_no_week(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    forecasts = pd.read_parquet(tmp_path / "forecasts.parquet")
    forecasts[:0].to_parquet(tmp_path / "forecasts.parquet")
    assert "week" not in charts.charts(Variant("", {}, Tables(tmp_path)))["specs"]
