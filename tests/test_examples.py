"""The programs in examples/ run, on a small study."""

import pickle
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import plfl
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
    client = plfl.clients("own.yaml")[2]
    assert data["x"].shape == (len(client.y_train) + len(client.y_val), 12)
    assert data["y"][:, 0].tolist() == [*client.y_train, *client.y_val]


def test_folder_of_fl_bench(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "fl_bench_folder.py", str(write()), "synthetic")
    partition = pickle.loads(Path("synthetic/partition.pkl").read_bytes())
    rows, targets = np.load("synthetic/data.npy"), np.load("synthetic/targets.npy")
    assert partition["separation"]["total"] == 3
    for client, indices in zip(plfl.clients("own.yaml"), partition["data_indices"], strict=True):
        for part, own in indices.items():
            np.testing.assert_array_equal(rows[own], client.flat(part))
            np.testing.assert_array_equal(targets[own, 0], getattr(client, f"y_{part}"))


def test_dataset_of_appfl(write: Write) -> None:
    found = runpy.run_path(str(EXAMPLES / "appfl_dataset.py"))
    train, validation = found["of_client"](study=str(write()), client_id=1, num_clients=3)
    client = plfl.clients("own.yaml")[1]
    np.testing.assert_array_equal(train[5][0], client.flat("train")[5])
    assert float(validation[7][1]) == client.y_val[7]
    assert len(validation) == len(client.y_val)


def test_the_whole_idea(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(monkeypatch, "whole_idea.py", "1", "plot.png")
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith(("P2,", "P3,", "unseen,"))]
    assert len(rows) == 6
    mase = {line[:2]: float(line.split()[2]) for line in rows if "fine_tuning" in line}
    # With a week of readings, sharing beats training alone, which beats the last load.
    assert mase["P2"] < mase["P3"] < 1
    assert Path("plot.png").stat().st_size > 10_000
