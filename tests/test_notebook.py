"""The notebook of the documentation still runs."""

import json
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


def test_outputs_are_not_stored() -> None:
    # They come from the run that builds the documentation.
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
