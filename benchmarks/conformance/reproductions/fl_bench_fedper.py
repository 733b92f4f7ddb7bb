# What a client of FL-bench's FedPer uploads; run in the root of FL-bench
from collections import OrderedDict
from functools import partial
from unittest.mock import MagicMock

import torch
from src.client.fedper import FedPerClient

args, body, head = MagicMock(), torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
layers = OrderedDict(base=body, classifier=head)
args.common.batch_size, sgd = 2, partial(torch.optim.SGD, lr=0.1)
rest = {"lr_scheduler_cls": None, "dataset": [0], "data_indices": [], "return_diff": False}
model, cpu = torch.nn.Sequential(layers), torch.device("cpu")
client = FedPerClient(model=model, optimizer_cls=sgd, args=args, device=cpu, **rest)
print("uploaded:", *client.package()["regular_model_params"])
