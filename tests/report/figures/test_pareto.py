"""What accuracy costs: points, Pareto front and labels are those of the tables."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from plfl.report.figures import draw
from plfl.report.figures.pareto import front, points, spread
from plfl.results.labels import baseline_label
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.report.figures.conftest import Results

LOST = "CA-P2-ifca-sgd-fedavg-10"


def _dots(axis: Axes) -> set[tuple[float, float]]:
    lines = [line for line in axis.get_lines() if line.get_linestyle() == "None"]
    return {
        (round(float(x), 9), round(float(y), 9))
        for line in lines
        for x, y in np.column_stack([line.get_xdata(), line.get_ydata()])
        if np.isfinite(y)
    }


def _labels(axis: Axes) -> dict[tuple[float, float], str]:
    """What is named, by the place of the point."""
    return {
        (round(float(text.xy[0]), 9), round(float(text.xy[1]), 9)): text.get_text()
        for text in axis.texts
        if isinstance(text, Annotation) and text.arrowprops
    }


def _baselines(tables: Tables, state: str) -> dict[str, tuple[float, float]]:
    """Place of each baseline by its name in print, straight from the table."""
    table = tables.baselines
    here = table[(table["state"] == state) & (table["split"] == "test")].groupby("baseline")
    places = zip(here["bytes"].mean() / 1e6, here["mase"].mean(), strict=True)
    found = {
        baseline_label(name): (round(sent, 9), round(mase, 9))
        for name, (sent, mase) in zip(here.groups, places, strict=True)
    }
    del found["Persistence"]
    return found


def _figure(tables: Tables) -> Figure:
    return draw("pareto", tables)["pareto"]


def test_the_front_is_what_nothing_betters() -> None:
    cost = pd.Series([2.0, 1.0, 3.0, 1.0, 4.0, 2.0, 5.0, 0.5])
    error = pd.Series([5.0, 6.0, 5.0, 7.0, 4.0, 5.0, 4.5, np.nan])
    assert np.flatnonzero(front(cost, error)).tolist() == [0, 1, 4]
    assert not front(cost, error * np.nan).any()


def test_points_are_the_summary_s(results: Results) -> None:
    tables = results("METHODS", LOST)
    summary = tables.summary[tables.summary["chosen"] == "last"]
    figure = _figure(tables)
    assert len(figure.axes) == 4, "two states, bytes and hours"
    for (state, cost), axis in zip(
        product(("CA", "IL"), ("bytes", "time")), figure.axes, strict=True
    ):
        here = summary[(summary["state"] == state) & ~summary["diverged"]]
        assert len(here) == (30 if state == "CA" else 32)
        clients = tables.study.data.clients
        costs = {
            "bytes": (here["bytes_down"] + here["bytes_up"]) / clients / 1e6,
            "time": here["seconds"] / 3600,
        }
        expected = set(zip(costs[cost].round(9), here["mase_mean"].round(9), strict=True))
        stars = _baselines(tables, state).values() if cost == "bytes" else ()
        assert _dots(axis) == expected | set(stars)
    assert next(text.get_text() for text in figure.axes[1].texts) == "2 of 32 points diverged"
    assert figure.axes[2].get_xlabel() == "Megabytes per client"
    assert figure.axes[3].get_xlabel() == "Simulated hours"


def test_the_front_is_over_cells_and_baselines(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.METHODS)
    table = pd.read_parquet(tmp_path / "baselines.parquet")
    table["mase"] = table["baseline"].map({"linear": 3.0, "lightgbm_pooled": 2.5}).fillna(9.0)
    table.to_parquet(tmp_path / "baselines.parquet")
    tables = Tables(tmp_path)
    axis = _figure(tables).axes[0]
    (stairs,) = [
        line
        for line in axis.get_lines()
        if line.get_linestyle() == "-" and len(np.asarray(line.get_xdata())) > 2
    ]
    corners = set(zip(np.asarray(stairs.get_xdata()), np.asarray(stairs.get_ydata()), strict=True))
    here = points(tables)
    here = here[here["state"] == "CA"][["megabytes", "mase", "label"]]
    pooled = 4 * 0.9 * 35040 / 1e6
    every = [
        *here.itertuples(index=False, name=None),
        (0.0, 3.0, "Linear"),
        (pooled, 2.5, "pooled"),
    ]
    kept = {
        (cost, mase): name
        for cost, mase, name in every
        if not any(c <= cost and m <= mase and (c, m) != (cost, mase) for c, m, _ in every)
    }
    assert (0.0, 3.0) in kept
    assert len(kept) > 2, "cells too"
    assert set(kept) <= corners
    named = _labels(axis)
    for (cost, mase), name in kept.items():
        if name not in ("Linear", "pooled"):
            assert named[round(cost, 9), round(mase, 9)] == name


def test_names_are_spread_as_little_as_it_takes() -> None:
    assert spread(np.array([0.0, 3.0, 9.0]), 2, -5, 15).tolist() == [0, 3, 9], "room enough"
    assert spread(np.array([1.0, 1.0, 1.0]), 2, -5, 15).tolist() == [-1, 1, 3]
    assert spread(np.array([0.0, 1.0, 9.0]), 2, -5, 15).tolist() == [-0.5, 1.5, 9]
    assert spread(np.array([0.0, 0.0]), 2, 0, 15).tolist() == [1, 3], "whole names fit"
    assert spread(np.array([14.0, 15.0]), 2, 0, 15).tolist() == [12, 14]
    assert spread(np.array([0.0, 0.0, 0.0]), 2, 0, 3).tolist() == [0.5, 1.5, 2.5], "closer"


def test_who_trains_alone_is_not_taken_for_who_has_a_server(tmp_path: Path) -> None:
    """P3 of the authors' code has a server; that of every other method has none."""
    grid = fake_results.AUTHORS["grid"] | {"method": ["authors_code", "fedopt"]}
    fake_results.write(tmp_path, fake_results.AUTHORS | {"grid": grid})
    table = points(Tables(tmp_path))
    shown = table[table["sharing"] == "P3"].groupby("method", sort=False).size()
    assert shown.to_dict() == {"authors_code": 2 * 2, "fedopt": 1}


def test_without_simulated_time_there_are_bytes_alone(results: Results) -> None:
    figure = _figure(results("SMALL"))
    assert len(figure.axes) == 3
    assert figure.axes[-1].get_xlabel() == "Megabytes per client"
    assert all(axis.get_xlim()[0] < 0 for axis in figure.axes), "0 bytes have their place"


def test_one_seed_that_diverged_leaves_no_score(results: Results) -> None:
    table = points(results("METERS", "Ost-head-fedopt-sgd-fedyogi-2"))
    lost = (table["state"] == "Ost") & (table["label"] == "SGD + FedYogi")
    assert table["mase"].isna().equals(lost) and lost.sum() == 2
