"""The programs in examples/ run, on a small study."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.cli.main import main
from tests.outside.conftest import Write, write

__all__ = ["write"]
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_fedavg_in_plain_pytorch(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "fedavg_torch.py", str(write()), "predictions.parquet")
    table = pd.read_parquet("predictions.parquet")
    assert set(table["client"]) == {"a", "b", "c"}
    # The load is about 2, and its day a sine of amplitude 1.
    assert table["forecast"].between(0.5, 3.8).all()


def test_partitions_of_flower(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flwr_datasets")
    assert main(["export", "clients", str(write()), "--to", "arrays"]) == 0
    run(monkeypatch, "flower_partitions.py", "arrays/clients.parquet")
    losses = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()[1:]]
    assert losses[-1] < losses[0]


def test_folder_of_pfllib(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "pfllib_folder.py", str(write()), "Meters")
    with np.load("Meters/train/2.npz", allow_pickle=True) as file:
        data = file["data"].tolist()  # as PFLlib reads it
    assert data["x"].shape == (len(data["y"]), 12)
