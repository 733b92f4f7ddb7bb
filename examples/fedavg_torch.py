"""FedAvg in plain PyTorch on the clients of a study or a frozen task, scored by plfl.

python examples/fedavg_torch.py sample predictions.parquet
plfl score sample predictions.parquet
"""

import sys

import numpy as np
import pandas as pd
import torch
from torch import nn

import plfl

ROUNDS, STEPS, BATCH = 20, 20, 64


def trained(clients: list[plfl.Client]) -> nn.Module:
    """The global model of a federation."""
    inputs, targets = [], []
    for client in clients:  # nothing is chosen on `val` here, so it is for training
        parts = [client.flat("train"), client.flat("val")], [client.y_train, client.y_val]
        x, y = (torch.from_numpy(np.concatenate(part)) for part in parts)
        inputs.append(x)
        targets.append(y.view(len(y), -1))
    width = inputs[0].shape[1], targets[0].shape[1]
    layers = [nn.Linear(width[0], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(128, width[1]))
    shared = nn.utils.parameters_to_vector(model.parameters()).detach()
    for _ in range(ROUNDS):
        sent = []
        for x, y in zip(inputs, targets, strict=True):
            nn.utils.vector_to_parameters(shared.clone(), model.parameters())
            optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
            for rows in torch.randint(len(x), (STEPS, BATCH)):
                optimiser.zero_grad()
                nn.functional.l1_loss(model(x[rows]), y[rows]).backward()
                optimiser.step()
            sent.append(nn.utils.parameters_to_vector(model.parameters()).detach())
        shared = torch.stack(sent).mean(dim=0)
    nn.utils.vector_to_parameters(shared, model.parameters())
    return model


tables, everyone = [], plfl.clients(sys.argv[1])
for seed in (1, 2, 3):
    torch.manual_seed(seed)
    for origin in dict.fromkeys(client.origin for client in everyone):
        clients = [client for client in everyone if client.origin == origin]
        model = trained(clients)
        for client in clients:
            with torch.no_grad():
                outputs = model(torch.from_numpy(client.flat("test"))).numpy()
            tables.append(client.predictions(outputs.reshape(client.y_test.shape), seed))
pd.concat(tables).to_parquet(sys.argv[2])
numbers = sum(parameter.numel() for parameter in model.parameters())
print(f"each client sent and received {4 * numbers * ROUNDS} bytes")
