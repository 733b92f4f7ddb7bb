"""A grid from which combinations are left out: they are shown as absent, never as diverged."""

from typing import Any

import pytest

from plfl.report.figures import available, draw
from plfl.results.tables import Tables
from tests.helpers import fake_results

SKIPPING: dict[str, Any] = {
    **fake_results.METHODS,
    "data": fake_results.METHODS["data"] | {"states": ["CA"]},
    "grid": {
        "method": ["fedopt", "fedadc", "fedprox", "ifca", "fedrep"],
        "client_opt": ["sgd", "prox"],
        "server_opt": ["fedavg", "slowmo"],
        "sharing": ["P1", "P2", "P3"],
        "refused": "skip",
    },
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("refused")
    fake_results.write(folder / "results", SKIPPING)
    return Tables(folder / "results")


def test_the_heat_map_has_no_number_there(tables: Tables) -> None:
    assert set(tables.study.combinations.refused) == {
        ("fedadc", "sgd", "slowmo"),
        ("fedadc", "prox", "slowmo"),
        ("fedprox", "prox", "fedavg"),
        ("fedprox", "prox", "slowmo"),
    }
    for figure in draw("fig3_mase", tables).values():
        shown = [text.get_text() for axis in figure.axes for text in axis.texts]
        # Two schemes with a server; in the third, FedProx of Prox; FedRep with P1.
        assert shown.count("n/a") == 2 * 4 + 1 + 4
        assert "div." not in shown


@pytest.mark.parametrize("name", ["clusters", "convergence", "fig2_bytes", "pareto", "ranks"])
def test_every_figure_draws(name: str, tables: Tables) -> None:
    assert name in available(tables.study) and draw(name, tables)
