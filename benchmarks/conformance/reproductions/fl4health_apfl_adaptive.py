# A step of α in FL4Health's APFL for f(w) = w²/2 at w = 2, v = 0; run in the root of FL4Health
import torch
from fl4health.model_bases.apfl_base import ApflModule

model = ApflModule(torch.nn.Linear(1, 1, bias=False), alpha=0.5, alpha_lr=0.1)
v, w = model.local_model.weight, model.global_model.weight
w.data.fill_(2.0), v.data.fill_(0.0)
out = model(torch.ones(1, 1))["personal"]
((out**2).mean() / 2).backward()  # leaves 0.5 ∇f(0.5 v + 0.5 w) in both gradients
model.update_alpha()
print(f"α = {model.alpha:.3f}; APFL: 0.5 − 0.1 (v − w) ∇f(0.5 v + 0.5 w) = 0.700")
