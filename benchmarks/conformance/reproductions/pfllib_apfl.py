# A step of PFLlib's APFL for f(w) = w²/2 at w = 2, v = 0, α = 0.5; run in system/
from unittest.mock import MagicMock

import torch
from flcore.clients.clientapfl import clientAPFL

w, v = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
w.weight.data.fill_(2.0), v.weight.data.fill_(0.0)
client = MagicMock(model=w, model_per=v, alpha=0.5, local_epochs=1, train_slow=False, device="cpu")
client.configure_mock(learning_rate_decay=False, loss=lambda out, y: (out**2).mean() / 2)
client.optimizer = torch.optim.SGD(w.parameters(), lr=0.1)
client.optimizer_per = torch.optim.SGD(v.parameters(), lr=0.1)
client.load_train_data.return_value = [(torch.ones(1, 1), torch.zeros(1))]
clientAPFL.train(client)
print(f"v = {v.weight.item():.3f}; APFL: v − 0.1 · 0.5 · ∇f(0.5 v + 0.5 w) = -0.050")
