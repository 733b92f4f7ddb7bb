"""What accuracy costs: points, Pareto front and labels are those of the tables."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from plfl.figures import draw
from plfl.figures.pareto import front, points
from plfl.results.tables import Tables
from tests import fake_results
from tests.figures.conftest import Results

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


def _figure(tables: Tables) -> Figure:
    return draw("pareto", tables)["pareto"]


def test_the_front_is_what_nothing_betters() -> None:
    cost = pd.Series([2.0, 1.0, 3.0, 1.0, 4.0, 2.0, 5.0, 0.5])
    error = pd.Series([5.0, 6.0, 5.0, 7.0, 4.0, 5.0, 4.5, np.nan])
    assert np.flatnonzero(front(cost, error)).tolist() == [0, 1, 4]
    assert not front(cost, error * np.nan).any()


def test_the_front_agrees_with_its_definition() -> None:
    random = np.random.default_rng(3)
    for _ in range(50):
        cost, error = pd.Series(random.permutation(30)), pd.Series(random.permutation(30))
        bettered = [((cost < c) & (error < e)).any() for c, e in zip(cost, error, strict=True)]
        assert front(cost, error).tolist() == np.logical_not(bettered).tolist()


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
        expected = zip(costs[cost].round(9), here["mase_mean"].round(9), strict=True)
        assert _dots(axis) == set(expected)
    assert next(text.get_text() for text in figure.axes[1].texts) == "2 of 32 points diverged"
    assert figure.axes[2].get_xlabel() == "Megabytes per client"
    assert figure.axes[3].get_xlabel() == "Simulated hours"


def test_what_lies_on_the_front_is_named(results: Results) -> None:
    tables = results("METHODS", LOST)
    table, axes = points(tables), _figure(tables).axes
    for (state, cost), axis in zip(
        product(("CA", "IL"), ("megabytes", "hours")), axes, strict=True
    ):
        here = table[table["state"] == state]
        best = here[front(here[cost], here["mase"])]
        corners = zip(best[cost].round(9), best["mase"].round(9), strict=True)
        assert _labels(axis) == dict(zip(corners, best["label"], strict=True))
        if state == "IL":
            assert set(best["label"]) == {"MOON", "SCAFFOLD", "IFCA"}


def test_seeds_are_averaged_and_clients_by_themselves_are_one_point(results: Results) -> None:
    tables = results("METERS", "Ost-head-fedopt-sgd-fedyogi-2")
    table = points(tables)
    alone = table[table["personalization"] == "alone"]
    assert alone["megabytes"].tolist() == [0] * 10
    assert alone["label"].unique().tolist() == ["SGD", "Adam"], "no server"
    summary = tables.summary
    of_seeds = summary[
        (summary["state"] == "Ost")
        & (summary["personalization"] == "head")
        & (summary["client_opt"] == "sgd")
        & (summary["model"] == "global")
        & (summary["chosen"] == "last")
    ]
    shown = table[(table["state"] == "Ost") & (table["model"] == "global")].set_index("label")
    for server, label in (("fedavg", "SGD + FedAvg"), ("fedyogi", "SGD + FedYogi")):
        seeds = of_seeds[of_seeds["server_opt"] == server]
        assert len(seeds) == 2
        mean = np.nan if seeds["diverged"].any() else seeds["mase_mean"].mean()
        assert shown["mase"][label] == pytest.approx(mean, nan_ok=True)
    assert np.isnan(shown["mase"]["SGD + FedYogi"]), "one seed diverged"


def test_who_trains_alone_is_not_taken_for_who_has_a_server(tmp_path: Path) -> None:
    """P3 of the authors' code has a server; that of every other method has none."""
    grid = fake_results.AUTHORS["grid"] | {"method": ["authors_code", "fedopt"]}
    fake_results.write(tmp_path, fake_results.AUTHORS | {"grid": grid})
    table = points(Tables(tmp_path))
    shown = table[table["personalization"] == "P3"].groupby("method", sort=False).size()
    assert shown.to_dict() == {"authors_code": 2 * 2, "fedopt": 1}


def test_without_simulated_time_there_are_bytes_alone(results: Results) -> None:
    figure = _figure(results("SMALL"))
    assert len(figure.axes) == 3
    assert figure.axes[-1].get_xlabel() == "Megabytes per client"
    assert all(axis.get_xlim()[0] < 0 for axis in figure.axes), "0 bytes have their place"
