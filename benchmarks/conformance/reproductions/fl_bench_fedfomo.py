# Where a client of FL-bench's FedFomo starts, for f(w) = w²/2, with the models 2 and then 1 of its
# own and 0.5 of another client; run in the root of FL-bench
from unittest.mock import MagicMock

import torch
from src.client.fedfomo import FedFomoClient

client = MagicMock(device="cpu", criterion=lambda out, y: (out**2).sum() / 2)
client.model, client.eval_model = (torch.nn.Linear(1, 1, bias=False) for _ in "12")
client.eval_model.device = "cpu"
client.valloader = [(torch.ones(1, 1), torch.zeros(1))]
models = {0: {"weight": torch.tensor([[1.0]])}, 1: {"weight": torch.tensor([[0.5]])}}
package = {"client_id": 0, "local_epoch": 1, "optimizer_state": None}
FedFomoClient.set_parameters(client, package | {"model_params_from_selected_clients": models})
print(f"starts at {client.model.weight.item():.2f}; FedFomo: (1.5 · 1 + 1.25 · 0.5) / 2.75 = 0.77")
