# Where a client of FL-bench's FedALA starts after another one; run in the root of FL-bench
from unittest.mock import MagicMock

import torch
from src.client.fedala import FedALAClient

last = torch.nn.Linear(1, 1, bias=False)
last.weight.data.fill_(5.0)  # the last model of client 0, which learned W = 0
client = MagicMock(model=last, weights=[torch.zeros(1, 1)], start_phase=False, device="cpu")
client.configure_mock(lr_scheduler=None, return_diff=False, criterion=lambda out, y: 0 * out.sum())
client.args.fedala.layer_idx, client.args.fedala.eta = 0, 1
client.sampled_trainloader = [(torch.ones(2, 1), torch.zeros(2))]
server = {"weight": torch.full((1, 1), 2.0)}
FedALAClient.set_parameters(client, MagicMock(__getitem__=lambda _, key: server))
print(f"client 1 starts at {client.model.weight.item():.1f}; FedALA, first round: 2.0")
