"""The critical-difference diagram shows the ranks of the records and joins what is alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from plfl.report.figures import draw
from plfl.report.figures.ranks import _groups, blocks
from plfl.results.ranking import ranking
from plfl.results.scores import scores
from plfl.results.tables import Tables
from tests.helpers.constructed import config
from tests.helpers.fake_results import write

OPTIMISER = {"adam": 1.0, "adamams": 1.001, "prox": 2.0, "proxadam": 3.0}


def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
    """ClientOpts far apart but for the first two; FedAdam better on validation alone."""
    fedadam = cell["server_opt"] == "fedadam"
    return OPTIMISER[cell["client_opt"]] * (1.05 if fedadam == (split == "test") else 1.0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    grid = {"sharing": ["P2"], "server_opt": ["fedavg", "fedadam"]}
    data = {"states": ["CA", "NY"], "clients": 12}
    folder = tmp_path_factory.mktemp("ranks")
    return write(folder, config(grid=grid, data=data), level, constant=4)


def _ranks(axis: Axes) -> dict[str, float]:
    """Mean rank of each name, read from the line that leads to it; the best first."""
    lines = {line.get_xydata()[-1].tobytes(): line for line in axis.get_lines()}
    names = [text for text in axis.texts if text.get_text() != "CD"]
    ends = [(name.get_text(), lines[np.array(name.xy, float).tobytes()]) for name in names]
    return dict(sorted(((n, float(e.get_xdata()[0])) for n, e in ends), key=lambda pair: pair[1]))


def _bars(axis: Axes) -> list[tuple[float, float]]:
    """Ends of the thick bars."""
    parts = [part for bar in axis.collections for part in bar.get_paths()]
    return [(path.vertices[0][0] + 0.04, path.vertices[1][0] - 0.04) for path in parts]


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
    dots = _ranks(figure.axes[1])
    for label, name in names.items():
        assert dots[label] == pytest.approx(expected[name])
    assert dots["P2 ProxAdam"] == 4
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[0].startswith(
        "local models, 22 clients: mean rank, the best on the right\ncritical difference (CD) "
    )
    assert titles[1].startswith(
        "global models, 22 clients: mean rank, the best on the right\ncritical difference (CD) "
    )


def test_bars_join_what_cannot_be_told_apart(tables: Tables) -> None:
    for axis in draw("ranks", tables)["ranks"].axes:
        ranks = _ranks(axis)
        first, second, third, _ = ranks.values()
        assert set(list(ranks)[:2]) == {"P2 Adam", "P2 AdamAMS"}
        assert any(bar == pytest.approx((first, second)) for bar in _bars(axis))
        assert not any(start <= first and end >= third for start, end in _bars(axis))


def test_the_best_is_on_the_right_and_the_bar_of_the_critical_difference_to_scale(
    tables: Tables,
) -> None:
    for model, axis in zip(("local", "global"), draw("ranks", tables)["ranks"].axes, strict=True):
        left, right = axis.get_xlim()
        assert (left, right) == (4, 1)
        names = {text.get_text(): text for text in axis.texts}
        assert names["P2 Adam"].xy[0] == right and names["P2 ProxAdam"].xy[0] == left
        ranked = ranking(blocks(tables.study, scores(tables, model)))
        (bar,) = [line for line in axis.get_lines() if line.get_marker() == "|"]
        assert abs(np.diff(bar.get_xdata()))[0] == pytest.approx(ranked.critical_difference)


def test_a_run_inside_another_has_no_bar() -> None:
    alike = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], bool)
    assert _groups(alike) == [(0, 1), (1, 2)]
    assert _groups(np.ones((4, 4), bool)) == [(0, 3)]
    assert _groups(np.eye(4, dtype=bool)) == []


def test_a_diverged_method_has_no_score(tmp_path: Path) -> None:
    def broken(cell: dict[str, Any], *rest: Any) -> float:
        return np.nan if cell["client_opt"] == "adam" else level(cell, *rest)

    grid = {"sharing": ["P2"], "client_opt": ["adam", "prox"]}
    of = config(grid=grid, data={"states": ["CA"], "clients": 5})
    tables = write(tmp_path, of, broken)
    table = blocks(tables.study, scores(tables, "local"))
    assert table["P2 adam"].isna().all() and table["P2 prox"].notna().all()
