# A step of α in PFLlib's APFL for f(w) = w²/2 at w = 2, v = 0, α = 0.5; run in system/
from unittest.mock import MagicMock

import torch
from flcore.clients.clientapfl import clientAPFL

w, v = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
w.weight.data.fill_(2.0), v.weight.data.fill_(0.0)
w.weight.grad, v.weight.grad = torch.full((1, 1), 2.0), torch.zeros(1, 1)  # ∇f(w), ∇f(v)
client = MagicMock(model=w, model_per=v, alpha=0.5, learning_rate=0.1)
clientAPFL.alpha_update(client)
print(f"α = {client.alpha:.3f}; APFL: 0.5 − 0.1 (v − w) ∇f(0.5 v + 0.5 w) = 0.700")
