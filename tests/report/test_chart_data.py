"""The charts of the page get the numbers of the tables, and the library that is vendored."""

import hashlib
import json
import re
from dataclasses import asdict
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plfl.report import chart_data
from plfl.report.figures.ranks import blocks
from plfl.results.ranking import ranking
from plfl.results.scores import scores
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.helpers.contrast import contrast, luminance

LOST = "CA-P1-fedopt-prox-fedavg-1"
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
SEEDS = fake_results.SMALL | {
    "data": fake_results.SMALL["data"] | {"states": ["CA", "IL"]},
    "grid": fake_results.SMALL["grid"] | {"seeds": [1, 2]},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("results")
    fake_results.write(folder, SEEDS, diverged=(LOST,))
    return Tables(folder)


@pytest.fixture(scope="module")
def data(tables: Tables) -> Any:
    return json.loads(chart_data.chart_data(tables))


def _cells(data: Any) -> list[Any]:
    return [one for one in data["forecasters"] if one["kind"] != "baseline"]


def test_every_training_is_there_once(tables: Tables, data: Any) -> None:
    per_state = 2 * 2 * 2 + 2  # P1 and P2 with all optimisers, P3 without a server
    assert len(_cells(data)) == 2 * per_state
    assert len(data["forecasters"]) == 2 * (per_state + len(fake_results.BASELINES))
    assert {one["kind"] for one in data["forecasters"]} == {"alone", "federated", "baseline"}
    assert [axis["key"] for axis in data["axes"]] == chart_data.AXES
    diverged = [one["name"] for one in data["forecasters"] if "diverged" in one]
    assert diverged == ["P1, Prox + FedAvg"]


def test_scores_are_means_over_the_seeds(tables: Tables, data: Any) -> None:
    summary = tables.summary
    for one in _cells(data):
        if "diverged" in one:
            continue
        of = dict(zip(chart_data.AXES, one["axes"], strict=True))
        for model in data["models"]:
            rows = summary[(summary[list(of)] == pd.Series(of)).all(axis=1)]
            rows = rows[(rows["model"] == model) & (rows["chosen"] == "last")]
            shown = one.get(model, one["local"])
            assert np.mean(shown["mase"]) == pytest.approx(rows["mase_mean"].mean(), rel=1e-3)
            mean = one.get(f"{model}_mean", one["local_mean"])["mase"]
            assert mean == pytest.approx(rows["mase_mean"].mean(), rel=1e-4)
            seeds = one.get(f"{model}_seeds", one["local_seeds"])
            assert seeds["mase"] == pytest.approx(rows["mase_mean"].tolist(), rel=1e-3)
        assert one["validation"] == pytest.approx(rows["validation_mase"].mean(), rel=0.2)
        assert one["local_curve"]["round"] == [2, 4]


def test_baselines_have_their_scores_and_bytes(tables: Tables, data: Any) -> None:
    means = tables.baseline_scores
    for one in data["forecasters"]:
        if one["kind"] == "baseline":
            state, _, name, *_ = one["axes"]
            row = means.loc[(state, name)]
            assert np.mean(one["local"]["mase"]) == pytest.approx(row["mase_mean"], rel=1e-3)
            assert one["mb"] == pytest.approx(row["bytes"] / 3 / 1e6, rel=1e-3)


def test_a_score_that_the_tables_lack_is_not_offered(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    table = pd.read_parquet(tmp_path / "records.parquet").drop(columns="rmse")
    table.to_parquet(tmp_path / "records.parquet")
    found = json.loads(chart_data.chart_data(Tables(tmp_path)))
    assert [score["key"] for score in found["scores"]] == ["mase", "mae"]


def _unpacked(packed: list[Any]) -> list[float]:
    offset, step, digits = packed
    pairs = zip(digits[::2], digits[1::2], strict=True)
    return [offset + step * (64 * DIGITS.index(a) + DIGITS.index(b)) for a, b in pairs]


def test_weeks_are_those_of_the_table(tables: Tables, data: Any) -> None:
    cell = tables.shown_cell("IL")
    assert cell is not None
    week = data["weeks"]["IL"]
    assert list(week["chief"]) == ["federation", "best without one"]
    shown = week["chief"]["federation"]
    assert list(data["forecasters"][shown]["axes"]) == [*asdict(cell).values()][:-1]
    (client, own), *_ = week["clients"].items()
    rows = tables.forecasts(["stamp", "truth", "local"], client=client, **asdict(cell))
    assert own["start"] == f"{rows['stamp'].iloc[0]:%Y-%m-%dT%H:%M}" and own["minutes"] == 15
    span = np.ptp(rows["local"]) / 4000
    for name, line in (("load", "truth"), (str(shown), "local")):
        assert _unpacked(own["lines"][name]) == pytest.approx(rows[line].tolist(), abs=span)


def test_a_large_study_has_fewer_weeks(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(chart_data.chart_data(tables))["weeks"]["CA"]["clients"]
    assert len(whole) == 3, "all clients of a small study"
    monkeypatch.setattr(chart_data, "MOST_POINTS", 2 * 672 * 7)
    small = json.loads(chart_data.chart_data(tables))["weeks"]["CA"]
    (client,) = (name for name, one in small["clients"].items() if len(one["lines"]) == 7)
    assert {len(one["lines"]) for one in small["clients"].values()} == {4, 7}
    assert client == small["middle"]
    cell = tables.shown_cell("CA")
    assert cell is not None
    assert tables.test_scores(cell).median() == tables.test_scores(cell)[client]


def test_numbers_that_are_none_have_a_sign_of_their_own() -> None:
    offset, step, digits = chart_data.packed(np.array([1.0, np.nan, 3.0]))
    assert (offset, digits[2:4]) == (1.0, "__")
    assert offset + step * 4094 == pytest.approx(3.0) and digits[4:] == "_-"
    assert chart_data.packed(np.array([2.0, 2.0]))[0] == 2.0
    assert chart_data.packed(np.array([np.nan]))[2] == "__"


def test_the_critical_difference_is_that_of_the_figure(tables: Tables, data: Any) -> None:
    ranked = ranking(blocks(tables.study, scores(tables, "local")))
    k = len(ranked.ranks)
    distance = data["q"][k] * np.sqrt(k * (k + 1) / (6 * ranked.clients))
    assert distance == pytest.approx(ranked.critical_difference, rel=1e-3)


def test_what_the_interval_of_a_difference_is_made_of(tables: Tables, data: Any) -> None:
    found = scores(tables, "local", baselines=True)
    for one in data["forecasters"]:
        if "diverged" in one:
            continue
        of_state = found[one["axes"][0]]
        weekly = of_state.weekly[of_state.combinations.index(tuple(one["axes"][1:]))]
        assert one["local_blocks"] == pytest.approx(4 * weekly.mean(axis=(0, 1)), rel=1e-5)
    # As many degrees of freedom as clients, weeks and seeds can have.
    expected = stats.t.ppf(0.975, range(1, 3 + 4 + 2 + 1))
    assert data["t"][1:] == pytest.approx(expected, rel=1e-3)
    # Demšar (2006), table 5a.
    assert [round(q, 3) for q in data["q"][2:6]] == [1.96, 2.344, 2.569, 2.728]


def test_the_library_is_the_one_that_was_built() -> None:
    folder = resources.files("plfl.report") / "charts"
    digest, name = (folder / "plot.js.sha256").read_text().split()
    content = (folder / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest
    text = content.decode()
    assert "ISC" in text or "Permission to use, copy, modify" in text
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]["@observablehq/plot"]
    assert f"@observablehq/plot {wanted}." in text
    for script in ("plot.js", "charts.js"):
        assert "</script" not in (folder / script).read_text(encoding="utf-8")


def test_colours_have_the_contrast_of_wcag_aa() -> None:
    folder = resources.files("plfl.report") / "templates"
    style = (folder / "style.html.jinja").read_text(encoding="utf-8")
    pairs = re.findall(r"--([a-z0-9-]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    colours = {name: both for name, *both in pairs}
    hues = [name for name in colours if name.startswith("hue-")]
    assert len(hues) == 10
    text = [*product(["ink", "quiet", "link", "warn", "contrary"], ["paper", "band"])]
    text.append(("warn", "warn-band"))
    marks = ["mark", "side-a", "side-b", "load", "naive", "base", *hues]
    wanted = dict.fromkeys(text, 4.5) | dict.fromkeys(product(marks, ["paper"]), 3.0)
    for (ink, paper), least in wanted.items():
        for k in (0, 1):
            assert contrast(colours[ink][k], colours[paper][k]) >= least, (ink, paper, k)
        light, dark = map(luminance, colours[paper])
        assert light > 0.7 > 0.05 > dark
