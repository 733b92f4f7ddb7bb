"""The programs in examples/ run, on a small study."""

import pickle
import runpy
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import plfl
from plfl.cli.main import main
from plfl.outside.score import score
from plfl.study import Study
from tests.helpers.projects import WriteStudy

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_fedavg_in_plain_pytorch(write_study: WriteStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "fedavg_torch.py", str(write_study()), "predictions.parquet")
    table = pd.read_parquet("predictions.parquet")
    assert set(table["client"]) == {"a", "b", "c"}
    # The load is about 2, and its day a sine of amplitude 1.
    assert table["forecast"].between(0.5, 3.8).all()


def test_partitions_of_flower(write_study, monkeypatch, capsys):
    pytest.importorskip("flwr_datasets")
    assert main(["export", "clients", str(write_study()), "--to", "arrays"]) == 0
    run(monkeypatch, "flower_partitions.py", "arrays/clients.parquet")
    losses = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()[1:]]
    assert losses[-1] < losses[0]


def test_folder_of_pfllib(write_study: WriteStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "pfllib_folder.py", str(write_study()), "Meters")
    with np.load("Meters/train/2.npz", allow_pickle=True) as file:
        data = file["data"].tolist()  # as PFLlib reads it
    client = plfl.clients("own.yaml")[2]
    assert data["x"].shape == (len(client.y_train) + len(client.y_val), 12)
    assert data["y"][:, 0].tolist() == [*client.y_train, *client.y_val]


def test_folder_of_fl_bench(write_study: WriteStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "fl_bench_folder.py", str(write_study()), "synthetic")
    partition = pickle.loads(Path("synthetic/partition.pkl").read_bytes())
    rows, targets = np.load("synthetic/data.npy"), np.load("synthetic/targets.npy")
    assert partition["separation"]["total"] == 3
    for client, indices in zip(plfl.clients("own.yaml"), partition["data_indices"], strict=True):
        for part, own in indices.items():
            np.testing.assert_array_equal(rows[own], client.flat(part))
            np.testing.assert_array_equal(targets[own, 0], getattr(client, f"y_{part}"))


PFLLIB = {
    "flcore/clients/clientbase.py": """
        class Client:
            def __init__(self, number, model):
                self.id, self.model = number, model

            def test_metrics(self):
                raise AssertionError("it classifies")
        """,
    "flcore/trainmodel/models.py": "DNN = None",
    "utils/data_utils.py": "process_image = None",
    "main.py": """
        import copy, sys
        import numpy as np
        import torch
        from flcore.clients.clientbase import Client
        from flcore.trainmodel.models import *
        from utils import data_utils

        assert sys.argv[1:] == ["-t", "2"]
        for time in range(2):
            model = DNN(60, 20, num_classes=10)
            assert model.fc.out_features == 1
            clients = [Client(number, copy.deepcopy(model)) for number in range(3)]
            for client in clients:
                assert client.test_metrics()[1] == 1
                with open(f"../dataset/Meters/train/{client.id}.npz", "rb") as file:
                    data = np.load(file, allow_pickle=True)["data"].tolist()
                x, y = map(torch.stack, zip(*data_utils.process_image(data)))
                optimizer = torch.optim.Adam(client.model.parameters(), 0.01)
                for step in range(150):
                    optimizer.zero_grad()
                    torch.nn.CrossEntropyLoss()(client.model(x), y).backward()
                    optimizer.step()
                client.test_metrics()
        """,
}
"""What pfllib_run.py imports and replaces of PFLlib, and a program that uses it as PFLlib does: in
each of `-t` repetitions, which here train alone, there are new clients, tested more than once."""
FL_BENCH = {
    "src/client/fedavg.py": """
        class BaseDataset:
            def __init__(self, data, targets, classes):
                self.data, self.targets = data, targets
                self._rescale_data()

            def _rescale_data(self):
                self.data /= 255

            def __getitem__(self, index):
                return self.data[index], self.targets[index]

        class Metrics:
            loss = 0.0

        def evaluate_model(**keys):
            raise AssertionError("it classifies")
        """,
    "src/server/fedavg.py": "DATASETS = {}",
    "main.py": """
        import json, pickle, sys
        from pathlib import Path
        import torch
        from src.client import fedavg
        from src.server.fedavg import DATASETS
        from torch.utils.data import DataLoader, Subset

        assert sys.argv[1][:12] == "common.seed=" and sys.argv[2:] == ["method=fedavg"]
        root = Path("data/synthetic")
        dataset = DATASETS["synthetic"](root=root, args=None)
        width = json.loads((root / "args.json").read_text())["dimension"]
        for client in pickle.loads((root / "partition.pkl").read_bytes())["data_indices"]:
            model = torch.nn.Linear(width, 1)
            x, y = dataset[client["train"]]
            optimizer = torch.optim.Adam(model.parameters(), 0.01)
            for step in range(150):
                optimizer.zero_grad()
                torch.nn.CrossEntropyLoss()(model(x), y).backward()
                optimizer.step()
            loader = DataLoader(Subset(dataset, client["test"]), batch_size=64)
            with torch.no_grad():
                keys = {"criterion": None, "device": None}
                assert fedavg.evaluate_model(model=model, dataloader=loader, **keys).loss == 0
        """,
}
"""The same of FL-bench for fl_bench_run.py."""


@pytest.mark.parametrize(
    ("modules", "programs", "data", "options", "seeds"),
    [
        (PFLLIB, "pfllib", "../dataset/Meters", ["-t", "2"], {1, 2}),
        (FL_BENCH, "fl_bench", "data/synthetic", ["method=fedavg"], {1, 2, 3}),
    ],
    ids=["PFLlib", "FL-bench"],
)
def test_training_with_a_stand_in_for(
    modules, programs, data, options, seeds, write_study, tmp_path, monkeypatch
):
    study = str(write_study().resolve())
    for name, text in modules.items():
        path = tmp_path / "system" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    (tmp_path / "system" / "meters").symlink_to(tmp_path / "meters")
    monkeypatch.setattr("torch.nn.CrossEntropyLoss", None)  # restored afterwards
    monkeypatch.syspath_prepend(tmp_path / "system")
    run(monkeypatch, f"{programs}_folder.py", study, str(tmp_path / "system" / data))
    monkeypatch.chdir(tmp_path / "system")
    run(monkeypatch, f"{programs}_run.py", study, "predictions.parquet", *options)
    for name in [name for name in sys.modules if name.split(".")[0] in ("flcore", "src", "utils")]:
        del sys.modules[name]
    found = score(Study.load(study), Path("predictions.parquet"))
    assert set(pd.read_parquet("predictions.parquet")["seed"]) == seeds
    assert found.own_row["mase"] < 0.6


def test_dataset_of_appfl(write_study: WriteStudy) -> None:
    found = runpy.run_path(str(EXAMPLES / "appfl_dataset.py"))
    train, validation = found["of_client"](study=str(write_study()), client_id=1, num_clients=3)
    client = plfl.clients("own.yaml")[1]
    np.testing.assert_array_equal(train[5][0], client.flat("train")[5])
    assert float(validation[7][1]) == client.y_val[7]
    assert len(validation) == len(client.y_val)


def test_the_whole_idea(here, monkeypatch, capsys):
    """As it is, but for one seed of three."""
    text = (EXAMPLES / "whole_idea.py").read_text(encoding="utf-8")
    assert '"seeds": [1, 2, 3]' in text
    program = here / "whole_idea.py"
    program.write_text(text.replace('"seeds": [1, 2, 3]', '"seeds": [1]'), encoding="utf-8")
    run(monkeypatch, str(program), "1", "plot.png")
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith(("P2,", "P3,", "unseen,"))]
    assert len(rows) == 6
    mase = {line[:2]: float(line.split()[2]) for line in rows if "fine_tuning" in line}
    # With a week of readings, sharing beats training alone, which beats the last load.
    assert mase["P2"] < mase["P3"] < 1
    assert Path("plot.png").stat().st_size > 10_000


def test_models_of_fev_forecast_and_windows_are_a_task_of_fev(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error that fev computes is the one that plfl scores, and that of plfl's own baseline."""
    pytest.importorskip("fev", reason="fev, with heavy dependencies, is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    data = {"source": "sample", "states": ["NY"], "clients": 2, "resample": 60}
    windows = {"look_ahead": 2, "horizons": 2, "split": [0.98, 0.01, 0.01]}
    windows |= {"scaling": "per_client", "target": "change"}
    raw = {"name": "small", "data": data | {"features": ["load"]}, "windows": windows}
    Path("small.yaml").write_text(yaml.safe_dump(raw | {"model": {"name": "mlp"}}))
    run(monkeypatch, "fev_tasks.py", "small.yaml", "loads.parquet", "p.parquet")
    fev_error = float(capsys.readouterr().out.split()[-1])
    study = Study.load("small.yaml")
    scores = score(study, Path("p.parquet"), with_rivals=False).clients
    day = plfl.datasets.forecast("small.yaml", "naive_day")
    own = plfl.datasets.score("small.yaml", day)
    np.testing.assert_allclose(scores["mase"], own["mase"])
    errors = (day["forecast"] - day["truth"]).abs().groupby(day["client"]).mean()
    # fev also counts the hour before the first target.
    assert fev_error == pytest.approx(errors.mean(), rel=0.05)
