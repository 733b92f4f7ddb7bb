# What stays with a client of FL-bench's LG-FedAvg; run in the root of FL-bench
from collections import OrderedDict
from functools import partial
from unittest.mock import MagicMock

import torch
from src.client.lgfedavg import LGFedAvgClient

args, body, head = MagicMock(), torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
layers = OrderedDict(base=body, classifier=head)
args.common.batch_size, args.lgfedavg.num_global_layers = 2, 1
sgd = partial(torch.optim.SGD, lr=0.1)
rest = {"lr_scheduler_cls": None, "dataset": [0], "data_indices": [], "return_diff": False}
model, cpu = torch.nn.Sequential(layers), torch.device("cpu")
client = LGFedAvgClient(model=model, optimizer_cls=sgd, args=args, device=cpu, **rest)
print("personal:", *client.personal_params_name, "; LG-FedAvg: base.weight base.bias")
