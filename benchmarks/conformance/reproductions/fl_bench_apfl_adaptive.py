# A step of α in FL-bench's APFL for f(w) = w²/2 at w = 2, v = 0; run in the root of FL-bench
from unittest.mock import MagicMock

import torch
from src.client.apfl import APFLClient

w, v = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
w.weight.data.fill_(2.0), v.weight.data.fill_(0.0)
w.weight.grad = torch.full((1, 1), 2.0)  # ∇f(w)
v.weight.grad = torch.full((1, 1), 0.5)  # as FL-bench leaves it: 0.5 ∇f(0.5 v + 0.5 w)
client = MagicMock(model=w, local_model=v, alpha=torch.tensor(0.5))
client.args.optimizer.lr = 0.1
APFLClient.update_alpha(client)
print(f"α = {client.alpha.item():.3f}; APFL: 0.5 − 0.1 (v − w) ∇f(0.5 v + 0.5 w) = 0.700")
