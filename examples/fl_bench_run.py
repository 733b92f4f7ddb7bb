"""Train with FL-bench on the folder of fl_bench_folder.py, and write predictions for `plfl score`.

    cd FL-bench
    python EXAMPLES/fl_bench_run.py sample predictions.parquet method=fedavg common.join_ratio=1

FL-bench classifies. Replaced are, without a change of its files: loss, reader, and score.
"""

import runpy
import sys

import numpy as np
import pandas as pd
import torch

import plfl

clients, file, options = plfl.clients(sys.argv[1]), sys.argv[2], sys.argv[3:]
sys.path.insert(0, "")
torch.nn.CrossEntropyLoss = torch.nn.L1Loss
from data.utils.datasets import DATASETS, BaseDataset  # noqa: E402
from src.client import fedavg  # noqa: E402
from src.utils.metrics import Metrics  # noqa: E402


class Loads(BaseDataset):
    def __init__(self, root, **_):
        arrays = (torch.from_numpy(np.load(root / f"{name}.npy")) for name in ("data", "targets"))
        super().__init__(*arrays, classes=[0])

    def _rescale_data(self):
        """Keep the inputs: FL-bench would divide all by 255 if one is above 1."""


def score(model, dataloader, criterion, **_):
    rows, whole = dataloader.dataset.indices, dataloader.dataset.dataset
    outputs[rows[0]] = model(whole.data[rows])  # no_grad in `evaluate`
    loss = criterion(outputs[rows[0]], whole.targets[rows]).item()
    return Metrics(loss, *[np.zeros(len(rows))] * 2)


DATASETS["synthetic"], fedavg.evaluate_model = Loads, score
tables = []
for seed in (1, 2, 3):
    outputs, first = {}, 0
    sys.argv = ["main.py", "dataset.name=synthetic", "model.name=2nn", f"common.seed={seed}"]
    sys.argv += options
    runpy.run_path("main.py", run_name="__main__")
    for client in clients:
        first += len(client.y_train) + len(client.y_val)
        found = outputs[first].numpy().reshape(client.y_test.shape)
        tables.append(client.predictions(found, seed))
        first += len(client.y_test)
pd.concat(tables).to_parquet(file)
