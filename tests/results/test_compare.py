"""Two sides are held together client by client, and only where they may be."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ResultsError
from plfl.results.compare import as_text, compare
from tests.helpers.constructed import config
from tests.helpers.fake_results import write
from tests.helpers.refusals import naming

FL, PL = "NY-P1-fedopt-adam-fedavg", "NY-P2-fedopt-adam-fedavg"
GRID = {"client_opt": ["adam"], "sharing": ["P1", "P2"], "seeds": [1, 2, 3]}


def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
    return (1.2 if cell["sharing"] == "P1" else 1.0) * (2 if model == "global" else 1)


def better(cell: dict[str, Any], *rest: Any) -> float:
    return 0.8 * level(cell, *rest)


def dull(name: str) -> float:
    return 2.0


def of(*states: str, clients: int = 8, **grid: Any) -> dict[str, Any]:
    return config(data={"states": list(states), "clients": clients}, grid=GRID | grid)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a")
    write(folder, of("NY", "CA"), level, baseline=dull)
    return folder


def ridge(name: str) -> float:
    return {"ridge": 1.25, "lightgbm_pooled": 1.0}.get(name, 2.0)


def _other(folder: Path, clients: int = 8, **grid: Any) -> Path:
    write(folder, of("NY", "IL", clients=clients, **grid), better, baseline=ridge)
    return folder


def test_cells_are_compared_client_by_client(folder: Path) -> None:
    found = compare(f"{folder}:{FL}", f"{folder}:{PL}")
    records = pd.read_parquet(folder / "records.parquet").query(
        "split == 'test' and state == 'NY' and model == 'global'"
    )
    means = records.groupby(["client", "sharing"])["mase"].mean().unstack()
    clients = found.clients.query("model == 'global'").set_index("client")
    np.testing.assert_allclose(clients["mase_a"], means.loc[clients.index, "P1"], rtol=1e-6)
    expected = (means["P2"] - means["P1"])[clients.index]
    np.testing.assert_allclose(clients["difference"], expected, rtol=1e-5)
    row = found.rows.set_index("model").loc["global"]
    assert row["difference"] == pytest.approx(clients["difference"].mean())
    assert row["low"] < row["difference"] < row["high"] < 0
    assert (row["seeds"], row["clients"], row["weeks"]) == (3, 8, 4)
    text = as_text(found)
    assert text.startswith(f"A: {FL}\nB: {PL}\n")
    assert all(client in text for client in clients.index)
    assert f"- {folder}:{FL}: sample data" in text


def test_studies_are_compared_where_they_have_the_same_cells(folder: Path, tmp_path: Path) -> None:
    other = _other(tmp_path, seeds=[2, 3, 4])
    found = compare(str(folder), str(other))
    assert set(found.rows["a"]) == {FL, PL}
    assert (found.rows["a"] == found.rows["b"]).all()
    assert (found.rows["high"] < 0).all()
    assert (found.rows["seeds"] == 2).all()
    assert [note for note in found.notes if note.startswith("2 ") and str(folder) in note]
    assert [note for note in found.notes if note.startswith("2 ") and str(other) in note]
    assert FL in as_text(found)


def test_what_is_compared_of_other_clients(folder: Path, tmp_path: Path) -> None:
    other = _other(tmp_path, clients=6)
    found = compare(str(folder), str(other))
    assert (found.rows["clients"] == 6).all()
    assert any("2 clients" in note and "one side only" in note for note in found.notes)
    # MASE that mean something else are named.
    path = tmp_path / "clients.parquet"
    pd.read_parquet(path).assign(persistence_mae_test=77.0).to_parquet(path)
    notes = compare(str(folder), str(tmp_path)).notes
    assert any("MASE are not comparable" in note for note in notes)
    assert not any("comparable" in note for note in compare(str(folder), str(folder)).notes)


def test_a_diverged_cell_has_no_difference(folder: Path, tmp_path: Path) -> None:
    def broken(cell: dict[str, Any], *rest: Any) -> float:
        return np.nan if cell["sharing"] == "P1" else level(cell, *rest)

    write(tmp_path, of("NY"), broken)
    rows = compare(str(folder), str(tmp_path)).rows.set_index(["a", "model"])
    assert rows.loc[(FL, "local"), ["mase_b", "difference", "low"]].isna().all()
    assert np.isfinite(rows.loc[(PL, "local"), ["difference", "low"]].astype(float)).all()


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Results of another state, and of the same one with other clients, and with other seeds."""
    il, renamed, seeded = (tmp_path_factory.mktemp(name) for name in ("il", "renamed", "seeded"))
    write(seeded, of("NY", seeds=[7, 8]), level)
    write(il, of("IL", clients=2), level)
    write(renamed, of("NY", clients=2), level)
    for name in ("records.parquet", "clients.parquet", "baselines.parquet", "errors.parquet"):
        table = pd.read_parquet(renamed / name)
        table.assign(client=table["client"] + "x").to_parquet(renamed / name)
    return il, renamed, seeded


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("{0}", "{0}:" + FL, "one is a study, the other a cell"),
        ("{0}:" + FL, "{0}:NY-P2-fedopt-adam-fedavx", "did you mean 'NY-P2-fedopt-adam-fedavg'"),
        ("{0}:NY-baseline-rigde", "{0}:" + PL, "NY-baseline-ridge"),
        ("{0}:CA", "{0}:" + PL, "name one of NY-P1-fedopt-adam-fedavg, NY-P2-fedopt-adam-fedavg, "),
        ("{0}", "{0}/none", "holds no study"),
        ("{0}", "{1}", "have no cell in common"),
        ("{0}:" + FL, "{2}:" + FL, "have no client in common"),
        ("{0}:" + FL, "{3}:" + FL, "have no seed in common"),
    ],
    ids=["mixed", "cell", "baseline", "state", "folder", "cells", "clients", "seeds"],
)
def test_what_cannot_be_compared_says_why(a, b, message, folder, others):
    folders = folder, *others
    with naming(ResultsError, message):
        compare(a.format(*folders), b.format(*folders))


def test_a_baseline_is_compared_with_a_cell(folder: Path) -> None:
    name = "NY-baseline-lightgbm_lags"
    found = compare(f"{folder}:{name}", f"{folder}:{PL}")
    row = found.rows.set_index("model").loc["local"]
    assert (row["a"], row["b"]) == (name, PL)
    assert row["mase_a"] == pytest.approx(2.0)
    assert row["difference"] == pytest.approx(row["mase_b"] - 2)
    assert (row["seeds"], row["clients"]) == (3, 8)
    assert row["low"] > 0 or row["high"] < 0
    assert not any("seed" in note for note in found.notes)
    turned = compare(f"{folder}:{PL}", f"{folder}:{name}").rows.set_index("model").loc["local"]
    assert turned["difference"] == pytest.approx(-row["difference"])


def test_two_baselines_are_compared_once(folder: Path, tmp_path: Path) -> None:
    write(tmp_path, of("NY"), level, baseline=lambda name: 1.5)
    found = compare(f"{folder}:NY-baseline-ridge", f"{tmp_path}:NY-baseline-ridge")
    (row,) = found.rows.to_dict("records")
    assert row["model"] == "baseline"
    assert row["difference"] == pytest.approx(-0.5)
    assert row["seeds"] == 0
    assert row["low"] > 0 or row["high"] < 0
    assert not any("seed" in note for note in found.notes)
    assert "ny359" in as_text(found)
