# A step of FL4Health's APFL for f(w) = w²/2 at w = 2, v = 0, α = 0.5; run in the root of FL4Health
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch
from fl4health.clients.apfl_client import ApflClient
from fl4health.model_bases.apfl_base import ApflModule

model = ApflModule(torch.nn.Linear(1, 1, bias=False), alpha=0.5)
v, w = model.local_model, model.global_model
w.weight.data.fill_(2.0), v.weight.data.fill_(0.0)
client = MagicMock(model=model, criterion=lambda out, y: (out**2).mean() / 2)
client.predict = lambda x: (model(x), {})
client.optimizers = {
    "global": torch.optim.SGD(w.parameters(), lr=0.1),
    "local": torch.optim.SGD(v.parameters(), lr=0.1),
}
client.compute_training_loss = lambda preds, features, y: SimpleNamespace(
    backward={"backward": client.criterion(preds["personal"], y)}
)
ApflClient.train_step(client, torch.ones(1, 1), torch.zeros(1))
print(f"v = {v.weight.item():.3f}; APFL: v − 0.1 · 0.5 · ∇f(0.5 v + 0.5 w) = -0.050")
