# The epochs of the body in Flower's FedRep baseline; run in baselines/fedrep
from unittest.mock import MagicMock

import torch
from fedrep.base_model import ModelManager

model = MagicMock()
weight = torch.nn.Parameter(torch.tensor([[2.0]]))
model.named_parameters.side_effect = lambda: [("body.weight", weight)]
model.side_effect = lambda images: weight.repeat(1, 2)
manager = MagicMock(_model=model, learning_rate=0.1, momentum=0.0)
manager.trainloader = [{"img": torch.ones(1), "label": torch.zeros(1, dtype=torch.long)}]
manager.context.run_config = {"num-local-epochs": 0, "num-rep-epochs": 5}
ModelManager.train(manager, torch.device("cpu"))
print(f"{model.call_count} epoch of the body; asked for: 5")
