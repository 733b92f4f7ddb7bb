# The model that PFLlib's pFedMe scores, for f(w) = w²/2 at w = 2; run in system/
from copy import deepcopy
from unittest.mock import MagicMock

import torch
from flcore.clients.clientpFedMe import clientpFedMe
from flcore.optimizers.fedoptimizer import pFedMeOptimizer

model = torch.nn.Linear(1, 1, bias=False)
model.weight.data.fill_(2.0)
client = MagicMock(model=model, local_params=deepcopy(list(model.parameters())), lamda=1, K=99)
client.configure_mock(learning_rate=0.1, local_epochs=1, train_slow=False, device="cpu")
client.configure_mock(learning_rate_decay=False, loss=lambda out, y: (out**2).mean() / 2)
client.optimizer = pFedMeOptimizer(model.parameters(), lr=0.1, lamda=1)
client.update_parameters = lambda m, new: clientpFedMe.update_parameters(client, m, new)
client.load_train_data.return_value = [(torch.ones(1, 1), torch.zeros(1))]
clientpFedMe.train(client)
print(f"personalized_params = {client.personalized_params[0].item():.4f}", end=", ")
print(f"w = {client.local_params[0].item():.4f}; pFedMe: θ = prox(2) = 1.0000, w = 1.9000")
