# The pull of PFLlib's FedAMP for a loss that is flat, at w = 2, u = 0; run in system/
from unittest.mock import MagicMock

import torch
from flcore.clients.clientamp import clientAMP

w, u = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
w.weight.data.fill_(2.0), u.weight.data.fill_(0.0)
client = MagicMock(model=w, client_u=u, lamda=1, alphaK=1, local_epochs=1, train_slow=False)
client.configure_mock(device="cpu", learning_rate_decay=False, loss=lambda out, y: 0 * out.sum())
client.optimizer = torch.optim.SGD(w.parameters(), lr=0.1)
client.load_train_data.return_value = [(torch.ones(1, 1), torch.zeros(1))]
clientAMP.train(client)
print(f"w = {w.weight.item():.2f}; FedAMP: 2 − 0.1 (2 − 0) = 1.80")
