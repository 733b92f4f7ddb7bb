"""The curves are those of the tables."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from plfl.report.figures import draw
from plfl.results.labels import baseline_label
from tests.helpers import constructed
from tests.report.figures.conftest import Drawn, Results


def test_curves_are_means_over_clients_and_seeds_of_the_best_server(results: Results) -> None:
    tables = results("METERS")
    figure = draw("convergence", tables)["convergence"]
    axis = figure.axes[0]  # Nord, head
    scores = tables.scores("local", "last")["validation_mase"]
    assert scores.xs(("Nord", "head", "fedopt", "sgd")).idxmin() == "fedavgm"
    records = tables.records(
        ["seed", "client", "round", "mase"],
        state="Nord",
        sharing="head",
        client_opt="sgd",
        server_opt="fedavgm",
        split="validation",
        model="local",
    )
    assert set(records["seed"]) == {1, 2}
    curve = axis.get_lines()[0]
    np.testing.assert_array_equal(curve.get_xdata(), [3, 6, 7])
    np.testing.assert_allclose(
        np.asarray(curve.get_ydata()), records.groupby("round")["mase"].mean()
    )
    persistence, baseline = axis.get_lines()[-2:]
    assert np.asarray(persistence.get_ydata()).tolist() == [1, 1]
    name = tables.best_baseline("Nord")
    table = tables.baselines
    here = table[(table["state"] == "Nord") & (table["baseline"] == name)]
    level = here.loc[here["split"] == "validation", "mase"].mean()
    np.testing.assert_allclose(np.asarray(baseline.get_ydata()), level)


def test_the_legend_names_each_state_s_best_baseline(results: Results, drawn: Drawn) -> None:
    tables = results("METERS")
    best = {state: tables.best_baseline(state) for state in tables.study.data.states}
    assert set(best.values()) == {"lightgbm", "lightgbm_lags"}
    legend = draw("convergence", tables)["convergence"].legends[0]
    shown = [text.get_text().replace("\n", " ") for text in legend.get_texts()]
    for name, label in (("lightgbm", "LightGBM"), ("lightgbm_lags", "LightGBM, day and week lags")):
        states = ", ".join(state for state, found in best.items() if found == name)
        assert f"best baseline ({states}): {label}" in shown
    one = drawn("convergence", "TINY")["convergence"].legends[0]
    label = baseline_label(results("TINY").best_baseline("CA") or "")
    assert one.get_texts()[-1].get_text() == f"best baseline: {label}"


def _gaps(line: Line2D) -> tuple[float, list[float]]:
    """Offset and lengths of a line's dashes and gaps, in widths of the line."""
    return line._unscaled_dash_pattern  # type: ignore[attr-defined, no-any-return]


def test_curves_that_coincide_take_turns(tmp_path: Path) -> None:
    def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
        moved = 1.2 if cell["client_opt"] == "proxadam" and cell["sharing"] == "P2" else 1
        return (2.0 if cell["client_opt"] == "prox" else moved) / t

    grid = {"client_opt": ["adam", "prox", "proxadam"], "sharing": ["P2", "P3"]}
    rounds = {"rounds": 40, "evaluate_every": 1}
    data = {"states": ["CA"], "clients": 2}
    tables = constructed.write(tmp_path, level, noise=0, grid=grid, federation=rounds, data=data)
    shared, alone = draw("convergence", tables)["convergence"].axes
    adam, prox, proxadam = shared.get_lines()[:3]
    assert {line.get_linestyle() for line in (adam, prox, proxadam)} == {"-"}
    # In the order in which curves that coincide are drawn: they come one after another.
    adam, proxadam, prox, *lines = alone.get_lines()
    assert len(lines) == 2, "no global models where nothing is shared; persistence, baseline"
    np.testing.assert_allclose(np.asarray(adam.get_ydata()), np.asarray(proxadam.get_ydata()))
    assert prox.get_linestyle() == "-"
    (start, (dash, gap)), (turn, (other, wait)) = _gaps(adam), _gaps(proxadam)
    assert dash == gap == other == wait, "each has half of the line"
    assert abs(turn - start) == dash, "where the one has its dashes the other has its gaps"
    marks = [
        set(range(40)[line.get_markevery()[0] :: line.get_markevery()[1]])
        for line in (adam, proxadam)
    ]
    assert all(marks)
    assert not marks[0] & marks[1]


def test_a_diverged_optimiser_is_named_instead_of_drawn(drawn: Drawn) -> None:
    diverged = [f"CA-P1-fedopt-prox-{server}-10" for server in ("fedavg", "fedavgadaptive")]
    first, second, *_ = drawn("convergence", "SMALL", *diverged)["convergence"].axes
    assert [text.get_text() for text in first.texts] == ["diverged: Prox"]
    assert not second.texts
    assert len(first.get_lines()) == len(second.get_lines()) - 2
