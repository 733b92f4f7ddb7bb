# What a client of FL-bench's FedPer uploads; run in the root of FL-bench
from collections import OrderedDict
from functools import partial
from unittest.mock import MagicMock

import torch
from src.client.fedper import FedPerClient

args, layers = (
    MagicMock(),
    OrderedDict(base=torch.nn.Linear(1, 1), classifier=torch.nn.Linear(1, 1)),
)
args.common.batch_size, sgd = 2, partial(torch.optim.SGD, lr=0.1)
client = FedPerClient(
    model=torch.nn.Sequential(layers), optimizer_cls=sgd, lr_scheduler_cls=None, args=args,
    dataset=[0], data_indices=[], device=torch.device("cpu"), return_diff=False,
)  # fmt: skip
print("uploaded:", *client.package()["regular_model_params"])
