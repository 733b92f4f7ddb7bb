# The model that FL-bench's pFedMe scores, for f(w) = w²/2 at w = 2; run in the root of FL-bench
from unittest.mock import MagicMock

import torch
from src.client.pfedme import pFedMeClient, pFedMeOptimizer

w = torch.nn.Linear(1, 1, bias=False)
w.weight.data.fill_(2.0)
client = MagicMock(model=w, local_parameters=[torch.full((1, 1), 2.0)])
client.configure_mock(device="cpu", criterion=lambda out, y: (out**2).mean() / 2)
client.personalized_params_dict = {"weight": torch.full((1, 1), 2.0)}
client.args.common.local_epoch, client.args.pfedme.k, client.args.pfedme.lamda = 1, 99, 1
client.args.optimizer.lr, client.optimzier = 0.1, pFedMeOptimizer(w.parameters(), 0.1, 1, 0)
client.trainloader = [(torch.ones(2, 1), torch.zeros(2))]
pFedMeClient.fit(client)
scored = client.personalized_params_dict["weight"].item()  # which evaluate() loads
print(f"θ = {w.weight.item():.2f}, scored: {scored:.2f}")
