# Ditto with PFLlib's default --mu; run in system/
import re
from pathlib import Path

import torch
from flcore.optimizers.fedoptimizer import PerturbedGradientDescent

mu = float(re.search(r'"--mu".*default=([\d.]+)', Path("main.py").read_text())[1])
v, x = torch.nn.Parameter(torch.tensor([2.0])), torch.zeros(1)
v.grad = torch.zeros(1)  # the loss is flat: only the pull moves v
PerturbedGradientDescent([v], lr=0.1, mu=mu).step([x], "cpu")
print(f"v moves from 2 to {v.item():.2f}; with Ditto's λ = 1 to 1.80")
