# The weight decay of Flower's FedRep baseline; run in baselines/fedrep
from unittest.mock import MagicMock

import torch
from fedrep.base_model import ModelManager

model = MagicMock()
weight = torch.nn.Parameter(torch.tensor([[2.0]]))
model.named_parameters.side_effect = lambda: [("head.weight", weight)]
model.side_effect = lambda images: 0 * weight.repeat(1, 2)  # the loss is flat
manager = MagicMock(_model=model, learning_rate=0.1, momentum=0.0)
manager.trainloader = [{"img": torch.ones(1), "label": torch.zeros(1, dtype=torch.long)}]
manager.context.run_config = {"num-local-epochs": 1, "num-rep-epochs": 0}
ModelManager.train(manager, torch.device("cpu"))
print(f"the weight moves from 2 by {weight.item() - 2:.1e}; FedRep: 0.0e+00")
