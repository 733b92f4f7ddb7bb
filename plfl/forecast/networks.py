"""The networks of a file of models, given their parameters: what they forecast, and their modules.

This needs torch, which baselines do without; so it is imported when a network is used.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from plfl.config.compute import Compute
from plfl.data.dataset import Dataset
from plfl.experiments.training_setup import network_of
from plfl.study import Study
from plfl.training.engines import make_engine


def predict_row(
    study: Study, dataset: Dataset, row: NDArray[np.float32], starts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The loads or quantiles in kWh that the network with the parameters `row` (P,) forecasts for
    windows of a dataset with one client, without widths."""
    network = network_of(study, study.plan.window_shape)
    engine = make_engine(Compute(device="cpu"), network, dataset)
    (outputs,) = engine.predict(torch.from_numpy(row)[None], [torch.from_numpy(starts)])
    return study.task.predictions(dataset, 0, starts, outputs.double().numpy())


def module_of(study: Study, row: NDArray[np.float32]) -> nn.Module:
    """The module of a study's network with the parameters `row` (P,)."""
    return network_of(study, study.plan.window_shape).module(torch.from_numpy(row))
