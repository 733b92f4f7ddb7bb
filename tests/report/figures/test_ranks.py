"""The critical-difference diagram shows the ranks of the records and joins what is alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from plfl.report.figures import draw
from plfl.report.figures.ranks import blocks
from plfl.results.statistics import scores
from plfl.results.tables import Tables
from tests.helpers.constructed import write

OPTIMISER = {"adam": 1.0, "adamams": 1.001, "prox": 2.0, "proxadam": 3.0}


def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
    """ClientOpts far apart but for the first two; FedAdam better on validation alone."""
    fedadam = cell["server_opt"] == "fedadam"
    return OPTIMISER[cell["client_opt"]] * (1.05 if fedadam == (split == "test") else 1.0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    grid = {"sharing": ["P2"], "server_opt": ["fedavg", "fedadam"]}
    data = {"states": ["CA", "NY"], "clients": 12}
    return write(tmp_path_factory.mktemp("ranks"), level, grid=grid, data=data, constant="client4")


def _dots(axis: Axes) -> dict[str, float]:
    (dots,) = [line for line in axis.get_lines() if line.get_marker() == "o"]
    labels = [label.get_text() for label in axis.get_yticklabels()]
    return dict(zip(labels, np.asarray(dots.get_xdata()).tolist(), strict=True))


def _bars(axis: Axes) -> list[tuple[float, float]]:
    bars = [np.asarray(line.get_ydata()) for line in axis.get_lines() if line.get_marker() != "o"]
    return [(round(bar[0] + 0.25), round(bar[1] - 0.25)) for bar in bars]


def test_ranks_are_those_of_the_records(tables: Tables) -> None:
    figure = draw("ranks", tables)["ranks"]
    records = tables.records(
        ["state", "client", "client_opt", "mase"],
        split="test",
        model="global",
        server_opt="fedadam",
    ).dropna()
    mase = records.groupby(["state", "client", "client_opt"])["mase"].mean().unstack()
    expected = mase.rank(axis=1).mean()
    names = {"P2 Adam": "adam", "P2 AdamAMS": "adamams", "P2 Prox": "prox"}
    dots = _dots(figure.axes[1])
    for label, name in names.items():
        assert dots[label] == pytest.approx(expected[name])
    assert dots["P2 ProxAdam"] == 4
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[0].startswith("local models, 22 clients\nCD ")
    assert titles[1].startswith("global models, 22 clients\nCD ")


def test_bars_join_what_cannot_be_told_apart(tables: Tables) -> None:
    for axis in draw("ranks", tables)["ranks"].axes:
        assert set(list(_dots(axis))[:2]) == {"P2 Adam", "P2 AdamAMS"}
        assert (0, 1) in _bars(axis)
        assert (0, 2) not in _bars(axis)


def test_a_diverged_method_ranks_last(tmp_path: Path) -> None:
    def broken(cell: dict[str, Any], *rest: Any) -> float:
        return np.nan if cell["client_opt"] == "adam" else level(cell, *rest)

    grid = {"sharing": ["P2"], "client_opt": ["adam", "prox", "proxadam"]}
    tables = write(tmp_path, broken, grid=grid, data={"states": ["CA"], "clients": 5})
    table = blocks(tables.study, scores(tables, "local"))
    assert table["P2 adam"].isna().all()
    assert list(table) == ["P2 adam", "P2 prox", "P2 proxadam"]
    (axis, _) = draw("ranks", tables)["ranks"].axes
    assert _dots(axis)["P2 Adam"] == 3
    assert list(_dots(axis))[-1] == "P2 Adam"


def test_seeds_are_averaged_before_ranking(tables: Tables) -> None:
    table = blocks(tables.study, scores(tables, "local"))
    assert isinstance(table, pd.DataFrame)
    assert table.shape == (22, 4)
    records = tables.records(
        ["mase"], split="test", model="local", state="NY", client="client7", client_opt="prox",
        server_opt="fedadam",
    )  # fmt: skip
    assert len(records) == 3
    assert table["P2 prox"].loc["client7"].iloc[1] == pytest.approx(records["mase"].mean())
