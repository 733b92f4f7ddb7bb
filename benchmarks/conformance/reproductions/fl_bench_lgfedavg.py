# What stays with a client of FL-bench's LG-FedAvg; run in the root of FL-bench
from collections import OrderedDict
from functools import partial
from unittest.mock import MagicMock

import torch
from src.client.lgfedavg import LGFedAvgClient

args, layers = (
    MagicMock(),
    OrderedDict(base=torch.nn.Linear(1, 1), classifier=torch.nn.Linear(1, 1)),
)
args.common.batch_size, args.lgfedavg.num_global_layers = 2, 1
sgd = partial(torch.optim.SGD, lr=0.1)
client = LGFedAvgClient(
    model=torch.nn.Sequential(layers), optimizer_cls=sgd, lr_scheduler_cls=None, args=args,
    dataset=[0], data_indices=[], device=torch.device("cpu"), return_diff=False,
)  # fmt: skip
print("personal:", *client.personal_params_name, "; LG-FedAvg: base.weight base.bias")
