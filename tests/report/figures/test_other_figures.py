"""Figures 1 and 2, the curves and the week show the numbers of the tables."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

from plfl.errors import ResultsError
from plfl.report.figures import draw
from plfl.results.tables import Tables, baseline_label
from tests.helpers import constructed, fake_results
from tests.report.figures.conftest import Results


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
    axes = draw("fig2_bytes", tables)["fig2_bytes"].axes
    heading, *names = "\n".join(axis.get_title("left") for axis in axes).split("\n")
    assert heading == "Bytes per round and client, by sharing scheme"
    assert names == ["", "P1: all shared", "P2: body shared", "P3: nothing shared"]
    for axis, count in zip(axes, (241104, 14000, 0), strict=True):
        down, up = axis.containers
        assert [bar.get_width() for bar in (*down, *up)] == [count, count]
        assert {text.get_text() for text in axis.texts} == {f"{count:,}".replace(",", "\u202f")}
        assert axis.get_xlim() == axes[0].get_xlim(), "lengths of bars are compared with the eye"
        assert axis.get_xlim()[0] == 0
        assert [label.get_text() for label in axis.get_yticklabels()] == [""]


def test_bytes_are_those_of_each_method(tmp_path: Path) -> None:
    methods = ["fedopt", "scaffold", "ifca", "fedac", "fedeff"]
    axes = {"method": methods, "sharing": ["P1", "P2", "P3"]}
    grid = fake_results.METHODS["grid"] | axes
    fake_results.write(tmp_path, fake_results.METHODS | {"grid": grid})
    tables = Tables(tmp_path)
    records = tables.records(["sharing", "method", "bytes_up"], split="train")
    figure = draw("fig2_bytes", tables)["fig2_bytes"]
    assert (
        figure.axes[0]
        .get_title("left")
        .startswith("Bytes per round and client, by scheme and method")
    )
    for axis, scheme in zip(figure.axes[:2], ("P1", "P2"), strict=True):
        names = [label.get_text() for label in axis.get_yticklabels()]
        assert names == ["FedOpt", "SCAFFOLD", "IFCA", "FedAC", "FedEff"]
        _, up = axis.containers
        for bar, method in zip(up, methods, strict=True):
            here = records[(records["sharing"] == scheme) & (records["method"] == method)]
            assert {bar.get_width()} == set(here["bytes_up"])
    widths = [bar.get_width() for bar in figure.axes[0].containers[0]]
    assert widths == [241104 * copies for copies in (1, 2, 3, 2, 1)]
    alone = figure.axes[2]
    assert [label.get_text() for label in alone.get_yticklabels()] == [""], "one for all methods"
    assert [bar.get_width() for bars in alone.containers for bar in bars] == [0, 0]


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


def test_the_legend_names_each_state_s_best_baseline(results: Results) -> None:
    tables = results("METERS")
    best = {state: tables.best_baseline(state) for state in tables.study.data.states}
    assert set(best.values()) == {"lightgbm", "lightgbm_lags"}
    legend = draw("convergence", tables)["convergence"].legends[0]
    shown = [text.get_text().replace("\n", " ") for text in legend.get_texts()]
    for name, label in (("lightgbm", "LightGBM"), ("lightgbm_lags", "LightGBM, day and week lags")):
        states = ", ".join(state for state, found in best.items() if found == name)
        assert f"best baseline ({states}): {label}" in shown
    one = draw("convergence", results("TINY"))["convergence"].legends[0]
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
    cell = tables.best("local", state=state, sharing="P2")
    assert cell is not None
    keys = {"state": state, "sharing": "P2", "seed": 10}
    keys |= {"client_opt": cell.client_opt, "server_opt": cell.server_opt}
    test = tables.records(["client", "mase"], **keys, split="test", model="local", round=4)
    median = test.sort_values("mase").iloc[1]
    name = tables.best_baseline(state)
    assert name is not None
    scores = tables.baselines.set_index(["baseline", "client", "split"])["mase"]
    other = scores[name, median["client"], "test"]
    title = axis.get_title(loc="left")
    assert title == (
        f"IL, client {median['client']}: P2, {tables.optimisers(cell)}, "
        f"test MASE {median['mase']:.2f}; {baseline_label(name)}, test MASE {other:.2f}"
    )
    week = tables.forecasts(["stamp", "truth", "local"], **keys, client=median["client"])
    assert len(week) == 7 * 96
    np.testing.assert_array_equal(_lines(axis)["load"], week["truth"])
    np.testing.assert_array_equal(_lines(axis)["forecast (local model)"], week["local"])
    (_, truth, _, baseline) = axis.get_lines()
    forecast = tables.baseline_forecasts(["forecast"], client=median["client"], baseline=name)
    np.testing.assert_array_equal(np.asarray(baseline.get_ydata()), forecast["forecast"])
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
    assert all(len(axis.get_lines()) == 4 for axis in others)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:3] == ["persistence", "load", "forecast (local model)"]
    assert labels[3:]
    assert all(label.startswith("best baseline") for label in labels[3:])


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
    with pytest.raises(ResultsError, match=r"forecasts\.parquet: has no rows for client ca"):
        draw("week", Tables(folder))


def test_missing_forecasts_of_a_baseline_are_an_error(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    forecasts = pd.read_parquet(tmp_path / "baseline_forecasts.parquet")
    forecasts[:0].to_parquet(tmp_path / "baseline_forecasts.parquet")
    with pytest.raises(
        ResultsError, match=r"baseline_forecasts\.parquet: has no rows for client ca"
    ):
        draw("week", Tables(tmp_path))


def test_results_without_baselines_are_drawn_without_them(tmp_path: Path) -> None:
    """Data of a deployed study stay with their clients, so it has none."""
    fake_results.write(tmp_path, fake_results.TINY)
    about = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps(about | {"engine": "flower"}))
    for name in ("baselines", "baseline_forecasts"):
        (tmp_path / f"{name}.parquet").unlink()
    tables = Tables(tmp_path)
    assert len(draw("fig3_mase", tables)["fig3_mase_local"].axes) == 4, "panels and colour bar"
    for name in ("convergence", "pareto", "week"):
        (legend,) = draw(name, tables)[name].legends
        labels = [text.get_text() for text in legend.get_texts()]
        assert not [label for label in labels if "baseline" in label]
