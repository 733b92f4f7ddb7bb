"""Train with PFLlib, which classifies: its loss, reader, network and score are replaced here."""

import runpy
import sys
from collections import OrderedDict

import pandas as pd
from flcore.clients.clientbase import Client
from flcore.trainmodel import models
from torch import from_numpy, nn
from utils import data_utils

import plfl


def score(self):
    client, seed = clients[self.id], 1 + [*forecasts, self].index(self) // len(clients)
    forecasts[self] = client.predictions(self.model(from_numpy(client.flat("test"))).detach(), seed)
    return 0, 1, 0  # accuracy, windows and AUC, which PFLlib prints


clients, file, forecasts = plfl.clients(sys.argv.pop(1)), sys.argv.pop(1), {}
width, targets = clients[0].flat("test").shape[1], clients[0].y_test[0].size
nn.CrossEntropyLoss, Client.test_metrics = nn.L1Loss, score
data_utils.process_image = lambda data: [*zip(*(from_numpy(data[k]) for k in "xy"), strict=True)]
models.DNN = lambda *_, **__: nn.Sequential(
    OrderedDict(base=nn.Linear(width, 64), relu=nn.ReLU(), fc=nn.Linear(64, targets))
)
runpy.run_path("main.py", run_name="__main__")
pd.concat(forecasts.values()).to_parquet(file)
