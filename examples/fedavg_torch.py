"""FedAvg in plain PyTorch on the clients of a study, scored by plfl.

python examples/fedavg_torch.py config/smoke.yaml predictions.parquet
plfl score config/smoke.yaml predictions.parquet
"""

import sys

import pandas as pd
import torch
from torch import nn

import plfl

ROUNDS, STEPS, BATCH = 20, 20, 64
clients = plfl.clients(plfl.Study.load(sys.argv[1]))
inputs = [torch.from_numpy(client.flat("train")) for client in clients]
targets = [torch.from_numpy(client.y_train).view(len(client.y_train), -1) for client in clients]
torch.manual_seed(1)
width = inputs[0].shape[1], targets[0].shape[1]
model = nn.Sequential(nn.Linear(width[0], 64), nn.ReLU(), nn.Linear(64, width[1]))
shared = nn.utils.parameters_to_vector(model.parameters()).detach()
for _ in range(ROUNDS):
    trained = []
    for x, y in zip(inputs, targets, strict=True):
        nn.utils.vector_to_parameters(shared.clone(), model.parameters())
        optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
        for rows in torch.randint(len(x), (STEPS, BATCH)):
            optimiser.zero_grad()
            nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
            optimiser.step()
        trained.append(nn.utils.parameters_to_vector(model.parameters()).detach())
    shared = torch.stack(trained).mean(dim=0)
nn.utils.vector_to_parameters(shared, model.parameters())
with torch.no_grad():
    outputs = [model(torch.from_numpy(client.flat("test"))).numpy() for client in clients]
pairs = zip(clients, outputs, strict=True)
tables = [client.predictions(made.reshape(client.y_test.shape), 1) for client, made in pairs]
pd.concat(tables).to_parquet(sys.argv[2])
