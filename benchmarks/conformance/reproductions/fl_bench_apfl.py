# A step of FL-bench's APFL for f(w) = w²/2 at w = 2; run in the root of FL-bench
from unittest.mock import MagicMock

import torch
from src.client.apfl import APFLClient

w, v = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
w.weight.data.fill_(2.0), v.weight.data.fill_(0.0)
client = MagicMock(model=w, local_model=v, alpha=0.5, local_epoch=1, lr_scheduler=None)
client.configure_mock(device="cpu", criterion=lambda out, y: (out**2).mean() / 2)
client.args.apfl.adaptive_alpha = False
client.optimizer = torch.optim.SGD([{"params": m.parameters()} for m in (w, v)], lr=0.1)
client.trainloader = [(torch.ones(2, 1), torch.zeros(2))]
APFLClient.fit(client)
print(f"w = {w.weight.item():.2f}; APFL: 2 − 0.1 · 2 = 1.80")
