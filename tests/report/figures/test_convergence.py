"""The curves are those of the tables."""

from pathlib import Path
from typing import Any

import numpy as np

from plfl.report.figures import draw
from tests.helpers.constructed import config
from tests.helpers.fake_results import write
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


def test_curves_that_coincide_take_turns(tmp_path: Path) -> None:
    def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
        return (2.0 if cell["client_opt"] == "prox" else 1.0) / t

    grid = {"client_opt": ["adam", "prox", "proxadam"], "sharing": ["P3"], "seeds": [1]}
    rounds = {"rounds": 40, "evaluate_every": 1}
    data = {"states": ["CA"], "clients": 2}
    tables = write(tmp_path, config(grid=grid, federation=rounds, data=data), level, noise=0)
    # In the order in which curves that coincide are drawn: they come one after another.
    adam, proxadam, prox, *_ = draw("convergence", tables)["convergence"].axes[0].get_lines()
    assert prox.get_linestyle() == "-"
    # Offset and lengths of dashes and gaps, in widths of the line.
    (start, (dash, gap)), (turn, (other, wait)) = (
        line._unscaled_dash_pattern  # type: ignore[attr-defined]
        for line in (adam, proxadam)
    )
    assert dash == gap == other == wait, "each has half of the line"
    assert abs(turn - start) == dash, "where the one has its dashes the other has its gaps"


def test_a_diverged_optimiser_is_named_instead_of_drawn(drawn: Drawn) -> None:
    diverged = [f"CA-P1-fedopt-prox-{server}-10" for server in ("fedavg", "fedavgadaptive")]
    first, second, *_ = drawn("convergence", "SMALL", *diverged)["convergence"].axes
    assert [text.get_text() for text in first.texts] == ["diverged: Prox"]
    assert not second.texts
    assert len(first.get_lines()) == len(second.get_lines()) - 2
