"""FedAvg in plain PyTorch: fedavg_torch.py sample predictions.parquet"""

import sys
from copy import deepcopy
from itertools import product

import pandas as pd
import torch
from torch import from_numpy, nn

import plfl

everyone, tables, rounds = plfl.clients(sys.argv[1]), [], 20
for origin, seed in product(dict.fromkeys(c.origin for c in everyone), (1, 2, 3)):
    clients = [c for c in everyone if c.origin == origin]  # later ones have readings of this test
    x = [torch.cat([from_numpy(c.flat(part)) for part in ("train", "val")]) for c in clients]
    y = [torch.cat([from_numpy(c.y_train), from_numpy(c.y_val)]) for c in clients]
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(x[0].shape[1], 16), nn.ReLU(), nn.Linear(16, y[0][0].numel()))
    for _ in range(rounds):
        copies = [deepcopy(model) for _ in clients]
        for own, inputs, targets in zip(copies, x, y, strict=True):
            optimiser = torch.optim.Adam(own.parameters(), lr=0.003)
            for rows in torch.randint(len(inputs), (20, 64)):
                optimiser.zero_grad()
                (own(inputs[rows]) - targets[rows].reshape(64, -1)).abs().mean().backward()
                optimiser.step()
        for mean, *sent in zip(*(some.parameters() for some in [model, *copies]), strict=True):
            mean.data = torch.stack(sent).detach().mean(dim=0)
    tables += [c.predictions(model(from_numpy(c.flat("test"))).detach(), seed) for c in clients]
pd.concat(tables).to_parquet(sys.argv[2])
print(f"bytes up, and down: {4 * rounds * sum(map(torch.numel, model.parameters()))}")
