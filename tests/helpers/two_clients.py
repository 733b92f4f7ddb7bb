"""Two clients with series of different lengths, to train them outside of a federation."""

from typing import Any

import torch
from torch import Tensor

from plfl.data.windows import build
from plfl.experiments.training_setup import network_of
from plfl.federated.client_data import ClientData
from plfl.layout import head_mask
from plfl.training.stacked import Stacked
from tests.helpers import tiny

STUDY = tiny.study(federation={"batch_size": 8})
TABLES = tiny.tables(2, rows=240)
DATA = build(TABLES | {"b": TABLES["b"].iloc[:170]}, STUDY.windows)
NETWORK: Any = network_of(STUDY, DATA.shape)
ENGINE = Stacked(NETWORK, DATA, torch.device("cpu"), torch.float64)
TWO_CLIENTS = ClientData(DATA, ENGINE, STUDY.federation, 10)
HEAD = torch.from_numpy(head_mask(NETWORK.layout, "mlp"))
"""Whether each parameter of a model belongs to the head."""


def draw_models() -> Tensor:
    """A model for each client."""
    return torch.stack([NETWORK.initial(seed) for seed in range(2)]).to(ENGINE.dtype)
