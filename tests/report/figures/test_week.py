"""The week is that of the tables."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from plfl.base.errors import ResultsError
from plfl.report.figures import draw
from plfl.report.figures.nothing import EMPTY
from plfl.results.labels import baseline_label
from plfl.results.records import CELL
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.helpers.refusals import naming
from tests.report.figures.conftest import Results


def _lines(axis: Axes) -> dict[str, Any]:
    return {str(line.get_label()): np.asarray(line.get_ydata()) for line in axis.get_lines()}


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
        f"IL, {median['client']}: P2, {tables.optimisers(cell)}, "
        f"test\N{NO-BREAK SPACE}MASE\N{NO-BREAK SPACE}{median['mase']:.2f}; "
        f"{baseline_label(name)}, test\N{NO-BREAK SPACE}MASE\N{NO-BREAK SPACE}{other:.2f}"
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
    grid = product(("P1", "P2", "P3"), ("adam", "prox"), ("fedavg", "fedavgadaptive"))
    diverged = [f"NY-{scheme}-fedopt-{client}-{server}-10" for scheme, client, server in grid]
    *others, last = draw("week", results("SMALL", *diverged))["week"].axes
    assert [text.get_text() for text in last.texts] == ["every cell diverged"]
    assert all(len(axis.get_lines()) == 4 for axis in others)


def test_a_client_without_mase_is_not_the_median(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    records = pd.read_parquet(tmp_path / "records.parquet")
    for constant, left in (("ca100", "ca137"), ("ca137", "ca100")):
        changed = records.assign(mase=records["mase"].where(records["client"] != constant))
        changed.to_parquet(tmp_path / "records.parquet")
        (axis,) = draw("week", Tables(tmp_path))["week"].axes
        assert f"CA, {left}:" in axis.get_title(loc="left")


def test_missing_forecasts_of_a_client_are_an_error(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    of_baselines = pd.read_parquet(tmp_path / "baseline_forecasts.parquet")
    of_baselines[:0].to_parquet(tmp_path / "baseline_forecasts.parquet")
    with naming(ResultsError, "baseline_forecasts.parquet", "client ca"):
        draw("week", Tables(tmp_path))
    forecasts = pd.read_parquet(tmp_path / "forecasts.parquet")
    forecasts.assign(client="nobody").to_parquet(tmp_path / "forecasts.parquet")
    with naming(ResultsError, "forecasts.parquet", "client ca"):
        draw("week", Tables(tmp_path))
    forecasts[:0].to_parquet(tmp_path / "forecasts.parquet")
    assert draw("week", Tables(tmp_path))["week"].axes[0].texts[0].get_gid() == EMPTY


def test_lines_stop_at_gaps(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.SMALL)
    for name in ("forecasts.parquet", "baseline_forecasts.parquet"):
        table = pd.read_parquet(tmp_path / name)
        at = table.groupby([c for c in table if c in (*CELL, "client", "baseline")]).cumcount()
        table[(at < 100) | (at >= 130)].to_parquet(tmp_path / name)
    figure = draw("week", Tables(tmp_path))["week"]
    for line in figure.axes[0].get_lines():
        values, stamps = np.asarray(line.get_ydata()), pd.DatetimeIndex(line.get_xdata())
        assert np.flatnonzero(np.isnan(values)).tolist() == [100]
        assert stamps[101] - stamps[99] == pd.Timedelta(hours=7, minutes=45)
