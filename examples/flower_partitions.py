"""FedAvg of a linear model on the partitions of Flower Datasets: `pip install flwr-datasets`.

plfl export clients config/smoke.yaml --to arrays
python examples/flower_partitions.py arrays/clients.parquet
"""

import sys

import datasets
import numpy as np
from flwr.server.strategy.aggregate import aggregate
from flwr_datasets.partitioner import NaturalIdPartitioner

partitioner, partitions = NaturalIdPartitioner(partition_by="client"), []
partitioner.dataset = datasets.Dataset.from_parquet(sys.argv[1])
for number in range(partitioner.num_partitions):
    client = partitioner.load_partition(number).with_format("numpy")
    train = client["split"][:] == "train"
    partitions.append([client[key][:][train] for key in "xy"])
shared, draw = np.zeros(partitions[0][0].shape[1]), np.random.default_rng(1)
for t in range(10):
    sent = []
    for x, y in partitions:
        own = shared
        for rows in draw.integers(len(x), size=(20, 64)):
            errors = x[rows] @ own - y[rows]
            own = own - errors @ x[rows] / np.square(x[rows]).sum()
        sent.append(([own], len(x)))
    (shared,) = aggregate(sent)
    print(f"round {t + 1}: loss of the last client {np.square(x @ shared - y).mean():.4f}")
