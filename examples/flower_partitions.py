"""FedAvg on the partitions of Flower Datasets: `pip install flwr-datasets`.

plfl export clients config/smoke.yaml --to arrays
python examples/flower_partitions.py arrays/clients.parquet
"""

import sys

import datasets
import numpy as np
import torch
from flwr.server.strategy.aggregate import aggregate
from flwr_datasets.partitioner import NaturalIdPartitioner

partitioner = NaturalIdPartitioner(partition_by="client")
partitioner.dataset = datasets.Dataset.from_parquet(sys.argv[1])
partitions = []
for number in range(partitioner.num_partitions):
    client = partitioner.load_partition(number).with_format("numpy")
    train = client["split"][:] == "train"
    partitions.append([torch.from_numpy(client[key][:][train]).float() for key in "xy"])
model = torch.nn.Linear(partitions[0][0].shape[1], 1)
for t in range(10):
    received, sent = {k: v.clone() for k, v in model.state_dict().items()}, []
    for x, y in partitions:
        model.load_state_dict(received)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
        for rows in torch.randint(len(x), (20, 64)):
            optimiser.zero_grad()
            (loss := (model(x[rows])[:, 0] - y[rows]).square().mean()).backward()
            optimiser.step()
        sent.append(([value.numpy().copy() for value in model.state_dict().values()], len(x)))
    shared = map(torch.from_numpy, map(np.asarray, aggregate(sent)))
    model.load_state_dict(dict(zip(received, shared, strict=True)))
    print(f"round {t + 1}: loss of the last client {loss.item():.4f}")
