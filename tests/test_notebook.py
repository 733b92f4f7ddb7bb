"""The notebook of the documentation still runs."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs" / "tutorial-python.ipynb"
mpl.use("Agg")


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return found


def test_it_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for cell in cells():
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
    plt.close("all")
    printed = capsys.readouterr().out
    assert "2 errors in the configuration" in printed  # the example of a wrong study
    assert names["last"]["mase"].notna().all()
    assert set(names["last"]["sharing"]) == {"P1", "P2", "P3"}
    # What is measured: sharing sends nothing where nothing is shared, and training helps.
    total = names["sent"].groupby("sharing")["bytes"].sum()
    assert total["P1"] > total["P2"] > total["P3"] == 0
    curves = names["curves"]
    assert (curves.iloc[-1] < curves.iloc[0]).all()


def test_colab_opens_it_and_its_first_cell_installs_plfl(monkeypatch: pytest.MonkeyPatch) -> None:
    head, first = ("".join(cell["source"]) for cell in cells()[:2])
    address = (NOTEBOOK.parents[1] / "release" / "address.txt").read_text().strip()
    place = f"/github/{address}/blob/main/docs/{NOTEBOOK.name})"
    assert f"](https://colab.research.google.com{place}" in head
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    exec(first, {})
    assert commands == [], "it is installed here"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    exec(first, {})
    assert commands == [[sys.executable, "-m", "pip", "install", "--quiet", "plfl"]]


def test_outputs_are_not_stored() -> None:
    # They come from the run that builds the documentation.
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
