"""Figures 1 and 2, the curves and the week show the numbers of the tables."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from plfl.errors import ResultsError
from plfl.figures import draw
from plfl.results.tables import Tables
from tests import fake_results
from tests.figures.conftest import Results


def _lines(axis: Axes) -> dict[str, Any]:
    return {str(line.get_label()): np.asarray(line.get_ydata()) for line in axis.get_lines()}


def test_loads_are_those_of_the_clients_in_their_order(results: Results) -> None:
    tables = results("METERS")
    figure = draw("fig1_loads", tables)["fig1_loads"]
    panels = {axis.get_title(): axis for axis in figure.axes if axis.get_title()}
    assert list(panels) == tables.study.data.states
    for state, axis in panels.items():
        here = tables.clients[tables.clients["state"] == state].sort_values("order")
        np.testing.assert_array_equal(_lines(axis)["mean"], here["mean"])
        np.testing.assert_array_equal(_lines(axis)["standard deviation"], here["std"])
        assert axis.get_xticks().tolist() == [1, 2, 3]
    assert figure.axes[0].get_ylabel() == "Load (kWh per 60 min)"


def test_bytes_are_those_of_the_ledger(results: Results) -> None:
    tables = results("SMALL")
    (axis,) = draw("fig2_bytes", tables)["fig2_bytes"].axes
    down, up = axis.containers
    assert [bar.get_width() for bar in down] == [241104, 14000, 0]
    assert [bar.get_width() for bar in up] == [241104, 14000, 0]
    numbers = [text.get_text() for text in axis.texts]
    assert numbers == ["241\u202f104", "14\u202f000", "0"] * 2
    assert axis.get_xlim()[0] == 0, "lengths of bars are compared with the eye"
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names == ["P1\nall shared", "P2\nlstm.* shared", "P3\nnothing shared"]


def test_curves_are_means_over_clients_and_seeds_of_the_best_server(results: Results) -> None:
    tables = results("METERS")
    figure = draw("convergence", tables)["convergence"]
    axis = figure.axes[0]  # Nord, head
    scores = tables.scores("local", "last")["validation_mase"]
    assert scores.xs(("Nord", "head", "fedopt", "sgd")).idxmin() == "fedavgm"
    records = tables.records(
        ["seed", "client", "round", "mase"],
        state="Nord",
        personalization="head",
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
    persistence = axis.get_lines()[-1]
    assert np.asarray(persistence.get_ydata()).tolist() == [1, 1]


def test_each_client_optimiser_has_its_colour_and_its_marker(results: Results) -> None:
    legend = draw("convergence", results("METERS"))["convergence"].legends[0]
    looks = {
        line.get_label(): (to_hex(line.get_color()), line.get_marker())
        for line in legend.get_lines()
        if line.get_marker() != "None"
    }
    assert list(looks) == ["SGD", "Adam"]
    assert all(len(set(column)) == 2 for column in zip(*looks.values(), strict=True))


def test_a_diverged_optimiser_is_named_instead_of_drawn(results: Results) -> None:
    diverged = [f"CA-P1-fedopt-prox-{server}-10" for server in ("fedavg", "fedavgadaptive")]
    first, second, *_ = draw("convergence", results("SMALL", *diverged))["convergence"].axes
    assert [text.get_text() for text in first.texts] == ["diverged: Prox"]
    assert not second.texts
    assert len(first.get_lines()) == len(second.get_lines()) - 2


def test_the_week_is_that_of_the_median_client(results: Results) -> None:
    tables = results("SMALL")
    figure = draw("week", tables)["week"]
    assert len(figure.axes) == 3
    axis, state = figure.axes[1], "IL"
    cell = tables.best("local", state=state, personalization="P2")
    assert cell is not None
    keys = {"state": state, "personalization": "P2", "seed": 10}
    keys |= {"client_opt": cell.client_opt, "server_opt": cell.server_opt}
    test = tables.records(["client", "mase"], **keys, split="test", model="local", round=4)
    median = test.sort_values("mase").iloc[1]
    title = axis.get_title(loc="left")
    assert title == (
        f"IL, client {median['client']}: P2, {tables.optimisers(cell)}, "
        f"test MASE {median['mase']:.2f}"
    )
    week = tables.forecasts(["stamp", "truth", "local"], **keys, client=median["client"])
    assert len(week) == 7 * 96
    np.testing.assert_array_equal(_lines(axis)["truth"], week["truth"])
    np.testing.assert_array_equal(_lines(axis)["forecast (local model)"], week["local"])
    (_, truth, _) = axis.get_lines()
    np.testing.assert_array_equal(np.asarray(truth.get_xdata()), week["stamp"])


def test_a_state_without_a_finite_cell_says_so(results: Results) -> None:
    diverged = [
        f"NY-P2-fedopt-{client}-{server}-10"
        for client in ("adam", "prox")
        for server in ("fedavg", "fedavgadaptive")
    ]
    figure = draw("week", results("SMALL", *diverged))["week"]
    *others, last = figure.axes
    assert [text.get_text() for text in last.texts] == ["every cell diverged"]
    assert all(len(axis.get_lines()) == 3 for axis in others)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["persistence", "truth", "forecast (local model)"]


def test_a_client_without_mase_is_not_the_median(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("constant")
    fake_results.write(folder, fake_results.TINY)
    records = pd.read_parquet(folder / "records.parquet")
    for constant, left in (("ca100", "ca137"), ("ca137", "ca100")):
        changed = records.assign(mase=records["mase"].where(records["client"] != constant))
        changed.to_parquet(folder / "records.parquet")
        (axis,) = draw("week", Tables(folder))["week"].axes
        assert f"client {left}:" in axis.get_title(loc="left")


def test_missing_forecasts_are_an_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("no-forecasts")
    fake_results.write(folder, fake_results.TINY)
    forecasts = pd.read_parquet(folder / "forecasts.parquet")
    forecasts[:0].to_parquet(folder / "forecasts.parquet")
    with pytest.raises(ResultsError, match=r"forecasts\.parquet: has no rows of client ca"):
        draw("week", Tables(folder))
