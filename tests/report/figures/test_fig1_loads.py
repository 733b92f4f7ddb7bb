"""Figure 1 shows the loads of the tables."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from plfl.report.figures import draw
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
