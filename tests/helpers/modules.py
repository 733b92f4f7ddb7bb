"""Models of `nn.Module`s: the built-in ones, and modules of a user's own with PyTorch's layers."""

from typing import Any

import torch
from torch import Tensor, nn

from plfl.config.named import available_models
from plfl.interfaces.model import DEFAULT, OWN_MODULE, Model
from plfl.layout import WindowShape
from plfl_images.models import ImageModel

MODULE_SHAPE = WindowShape(inputs=3, look_back=4, covariates=2)
"""The windows that the modules below read."""
MODELS: list[Any] = [
    cls()
    for name, cls in available_models().items()
    if name not in (DEFAULT, OWN_MODULE) and not (issubclass(cls, ImageModel) or cls.only_method)
]


class Convolution(nn.Module):
    """What `vmap` turns into a grouped convolution, whose bits depend on the number of groups."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Conv1d(MODULE_SHAPE.inputs, 8, 3)
        self.head = nn.Linear(16, 1)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        outputs: Tensor = self.head(torch.relu(self.read(sequence.mT)).flatten(1))
        return outputs.squeeze(1)


class Recurrent(nn.Module):
    """PyTorch's own layer, for which `vmap` alone has no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.GRU(MODULE_SHAPE.inputs, 4, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.read(sequence)[0][:, -1])
        return outputs.squeeze(1)


class InPlace(nn.Module):
    """What changes a tensor that is used again."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(MODULE_SHAPE.inputs, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        z = self.read(sequence[:, -1])
        z += 1
        z[:, 0].mul_(2)
        outputs: Tensor = self.head(z)
        return outputs.squeeze(1)


def model_of_class(module: type[nn.Module]) -> Model:
    """The model, without hyperparameters, that builds a module of this class."""

    class ModuleModel(Model):
        name = module.__name__

        def build(self, shape: WindowShape) -> nn.Module:
            return module()

    return ModuleModel()
