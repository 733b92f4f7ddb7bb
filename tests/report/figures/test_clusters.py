"""Memberships are those of the records, and studies without clusters say so."""

import json
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from plfl.report.figures import draw
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.report.figures.conftest import Results


def _numbers(axis: Axes) -> list[list[str]]:
    columns = len(axis.get_xticks())
    shown = [text.get_text() for text in axis.texts]
    return [shown[i : i + columns] for i in range(0, len(shown), columns)]


def test_clusters_are_those_of_the_records_counted_by_first_client(results: Results) -> None:
    tables = results("METHODS")
    assert fake_results.CLUSTERS == {"ifca": [1, 0, 1], "fedac": [-1, 4, 2]}
    figure = draw("clusters", tables)["clusters"]
    assert len(figure.axes) == 4, "two states, two schemes"
    clients = tables.clients[tables.clients["state"] == "CA"].sort_values("order")
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    first, *others = clients["client"]
    assert names == [f"office · {first}", *others]
    for axis in figure.axes:
        assert _numbers(axis) == [["1", "–"], ["2", "1"], ["1", "2"]]
        colours = [to_hex(p.get_facecolor()) for p in axis.patches if isinstance(p, Rectangle)]
        assert colours[0] == colours[3] == colours[4] != colours[1]
        assert colours[2] == colours[5]
    assert [t.get_text() for t in figure.axes[2].get_xticklabels()] == ["IFCA", "FedAC"]


def _tell(folder: Path, known: dict[str, dict[str, str]]) -> Tables:
    """The results in `folder` with this known of the clients of CA."""
    about = json.loads((folder / "study.json").read_text())
    about["sources"] = {"CA": {"source": "sample", "files": {}, "clients": known}}
    (folder / "study.json").write_text(json.dumps(about))
    return Tables(folder)


def test_of_many_clients_the_building_types_are_named(tmp_path: Path) -> None:
    many = json.loads(json.dumps(fake_results.METHODS))
    many["data"] |= {"states": ["CA"], "clients": 60}
    many["grid"] |= {"method": ["ifca"], "sharing": ["P1"]}
    clusters = {"ifca": [i % 3 for i in range(60)]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_results, "CLUSTERS", clusters)
        fake_results.write(tmp_path, many)
    names = Tables(tmp_path).clients["client"].tolist()
    kinds = {
        name: {"building type": "office" if i % 3 == 0 else "shop"} for i, name in enumerate(names)
    }
    (axis,) = draw("clusters", _tell(tmp_path, kinds))["clusters"].axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["office", "shop"]
    assert axis.get_yticks().tolist() == [10, 40]
    assert not axis.texts
