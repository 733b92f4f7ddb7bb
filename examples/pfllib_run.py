"""Train with PFLlib on the folder of pfllib_folder.py, and write predictions for `plfl score`.

    cd PFLlib/system
    python EXAMPLES/pfllib_run.py sample predictions.parquet -algo FedAvg -data Meters -t 3

PFLlib classifies. Replaced are, without a change of its files: loss, reader, model, and score.
"""

import runpy
import sys

import pandas as pd
import torch
from torch import nn

import plfl

clients, file = plfl.clients(sys.argv[1]), sys.argv[2]
width, targets = clients[0].flat("test").shape[1], clients[0].y_test[:1].size
sys.argv[1:3] = ["-nc", str(len(clients)), "-m", "DNN", "-dev", "cpu"]
sys.path.insert(0, "")
nn.CrossEntropyLoss = nn.L1Loss
from flcore.clients.clientbase import Client  # noqa: E402
from flcore.servers.serverbase import Server  # noqa: E402
from flcore.trainmodel import models  # noqa: E402
from utils import data_utils  # noqa: E402


class DNN(nn.Module):
    __module__ = models.__name__

    def __init__(self, *_, **__):
        super().__init__()
        self.base, self.fc = nn.Linear(width, 64), nn.Linear(64, targets)

    def forward(self, x):
        return self.fc(torch.relu(self.base(x)))


def arrays(data):
    return torch.from_numpy(data["x"]), torch.from_numpy(data["y"])


def score(self):
    x, y = arrays(data_utils.read_data(self.dataset, self.id, False))
    with torch.no_grad():
        outputs[self.id] = self.model(x)
    return -nn.functional.l1_loss(outputs[self.id], y).item() * len(y), len(y), 0


def save(self):
    for number, client in enumerate(clients):
        found = outputs[number].numpy().reshape(client.y_test.shape)
        tables.append(client.predictions(found, self.times + 1))
    write(self)


outputs, tables, write = {}, [], Server.save_results
models.DNN, Client.test_metrics, Server.save_results = DNN, score, save
data_utils.process_image = lambda data: list(zip(*arrays(data), strict=True))
runpy.run_path("main.py", run_name="__main__")
pd.concat(tables).to_parquet(file)
