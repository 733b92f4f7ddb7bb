# What PFLlib's FedFomo weighs others' models against, for f(w) = w²/2 from 2; run in system/
import torch
from flcore.clients.clientfomo import clientFomo

client = object.__new__(clientFomo)
client.model, client.old_model, client.other = (torch.nn.Linear(1, 1, bias=False) for _ in "123")
for model, value in ((client.model, 2.0), (client.old_model, 2.0), (client.other, 1.0)):
    model.weight.data.fill_(value)
client.num_clients = client.local_epochs = 1
client.device, client.train_slow, client.learning_rate_decay = "cpu", False, False
client.train_time_cost = {"num_rounds": 0, "total_cost": 0}
client.loss = lambda out, y: (out**2).sum() / 2
client.optimizer = torch.optim.SGD(client.model.parameters(), lr=0.1)
client.load_train_data = lambda: [[(torch.ones(1, 1), torch.zeros(1))]] * 2
for models in ([], [client.other]):
    client.receive_models(range(len(models)), models)
    client.train()  # round 1 from 2 to 1.8, round 2 from the mixture
print(f"round 3 weighs against {client.old_model.weight.item():.1f}; FedFomo: round 1's model, 1.8")
