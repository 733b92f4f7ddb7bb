"""Memberships are those of the records, and studies without clusters say so."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from plfl.figures import draw
from plfl.figures.clusters import memberships
from plfl.results.tables import Tables
from tests import fake_results
from tests.figures.conftest import Results


def _numbers(axis: Axes) -> list[list[str]]:
    columns = len(axis.get_xticks())
    shown = [text.get_text() for text in axis.texts]
    return [shown[i : i + columns] for i in range(0, len(shown), columns)]


def test_clusters_are_those_of_the_records_counted_by_first_client(results: Results) -> None:
    tables = results("METHODS")
    assert fake_results.CLUSTERS == {"ifca": [1, 0, 1], "fedac": [-1, 4, 2]}
    figure = draw("clusters", tables)["clusters"]
    assert len(figure.axes) == 4, "two states, two splits"
    clients = tables.clients[tables.clients["state"] == "CA"].sort_values("order")
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == clients["client"].tolist()
    for axis in figure.axes:
        assert _numbers(axis) == [["1", "–"], ["2", "1"], ["1", "2"]]
        colours = [to_hex(p.get_facecolor()) for p in axis.patches if isinstance(p, Rectangle)]
        assert colours[0] == colours[3] == colours[4] != colours[1]
        assert colours[2] == colours[5]
    assert [t.get_text() for t in figure.axes[2].get_xticklabels()] == ["Ifca", "FedAC"]


def test_only_the_last_round_and_the_first_seed_count(results: Results) -> None:
    tables = results("METHODS")
    records = pd.read_parquet(tables.folder / "records.parquet")
    assert set(records.loc[records["cluster"].notna(), "round"]) == {2, 4}
    found = memberships(tables)
    assert len(found) == 2 * 2 * 2 * 3, "states, splits, methods, clients"
    assert np.isnan(found["cluster"]).sum() == 4


def test_a_study_without_clusters_says_so(results: Results) -> None:
    tables: Tables = results("SMALL")
    assert memberships(tables).empty
    (axis,) = draw("clusters", tables)["clusters"].axes
    assert [text.get_text() for text in axis.texts] == ["no method of this study has clusters"]
