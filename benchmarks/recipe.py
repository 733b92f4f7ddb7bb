"""Studies of an MLP with AdamW as a plain PyTorch loop trains them.

The data are random, since speed does not depend on their values.
"""

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from bench_quick import YEAR
from torch import nn

from plfl.data.dataset import Dataset
from plfl.experiments.trainer import network_of
from plfl.optimizers.client.adamw import AdamW
from plfl.study import Study
from plfl.tasks.losses import Loss, Pinball
from plfl.training.task import LocalTask, Minibatches

CONFIG = Path(__file__).parents[1] / "config"
RECIPE = Study.load(CONFIG / "recipe.yaml")
"""Point forecasts: an MLP of 11,201 parameters, mae, minibatches of 64."""
DAY_AHEAD = Study.load(CONFIG / "day-ahead.yaml")
"""Five quantiles of each of the next 24 hours."""
CLIENTS, STEPS = 10, 5000
"""What one training of the recipe is: all steps of ten clients."""


def random_dataset(study: Study, evaluated: int = 100) -> Dataset:
    """A year of windows of the study's shape for every client, with `evaluated` rows for validation
    and for test."""
    random, windows, rows = np.random.default_rng(0), study.windows, CLIENTS * YEAR
    horizons = windows.horizons
    return Dataset(
        clients=np.array([f"client {i}" for i in range(CLIENTS)]),
        columns=np.array(study.data.features),
        features=random.standard_normal((rows, len(study.data.features)), dtype=np.float32),
        covariates=random.standard_normal((rows, windows.covariates_width), dtype=np.float32),
        targets=random.standard_normal(
            rows if horizons == 1 else (rows, horizons), dtype=np.float32
        ),
        load=np.ones(rows),
        stamps=np.tile(np.datetime64("2018-01-01T00:15", "s") + np.arange(YEAR) * 900, CLIENTS),
        bounds=YEAR * np.arange(CLIENTS)[:, None]
        + [0, YEAR - 2 * evaluated, YEAR - evaluated, YEAR],
        load_offset=np.zeros(CLIENTS),
        load_scale=np.ones(CLIENTS),
        relative=windows.target == "change",
        look_back=windows.look_back,
        look_ahead=windows.look_ahead,
        interval=15,
        horizons=horizons,
    )


def adamw_of(study: Study) -> AdamW:
    """The local optimiser of a study's first cell."""
    return cast(AdamW, study.candidates(study.cells[0])[0].client_opt)


def local_task(study: Study, dataset: Dataset, t: int, steps: int) -> LocalTask:
    """What round `t` asks of the clients."""
    network, random = network_of(study, dataset.shape), torch.Generator().manual_seed(t)
    optimiser = adamw_of(study)
    rows = network.initial(10).expand(CLIENTS, -1).clone()
    size = (CLIENTS, steps, study.federation.batch_size)
    drawn = torch.randint(0, YEAR - 300, size, generator=random)
    return replace(
        LocalTask.fresh(
            optimiser,
            rows,
            Minibatches(torch.from_numpy(dataset.bounds)[:, :1, None] + drawn),
            torch.from_numpy(network.layout.mask(["body"])),
        ),
        objective=study.task.objective(study.federation.loss),
    )


class PlainLoop:
    """The clients one after the other, as PyTorch's tutorials train a model."""

    def __init__(self, study: Study, dataset: Dataset):
        self.module, self.adamw = network_of(study, dataset.shape).module(), adamw_of(study)
        tables = (dataset.features, dataset.covariates, dataset.targets)
        self.features, self.covariates, self.targets = map(torch.from_numpy, tables)
        self.look_back = torch.arange(dataset.look_back)

    def train(self, task: LocalTask) -> torch.Tensor:
        """Run the K local steps of every client; returns their mean losses."""
        totals = torch.zeros(len(task.rows))
        for s, batches in enumerate(task.minibatches.starts):
            nn.utils.vector_to_parameters(task.rows[s].clone(), self.module.parameters())
            optimiser = torch.optim.AdamW(
                self.module.parameters(),
                self.adamw.lr,
                (self.adamw.beta1, self.adamw.beta2),
                self.adamw.eps,
                self.adamw.weight_decay,
                fused=True,
            )
            for starts in batches:
                optimiser.zero_grad()
                load = self.features[starts[:, None] + self.look_back]
                last = starts + self.look_back[-1]
                forecast = self.module(load - load[:, -1:], self.covariates[last])
                loss = _loss(task.objective.loss, forecast, self.targets[last])
                loss.backward()
                optimiser.step()
                totals[s] += loss.detach()
            task.rows[s] = nn.utils.parameters_to_vector(self.module.parameters()).detach()
        return totals / len(task.minibatches.starts[0])


def _loss(loss: Loss, forecast: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if not isinstance(loss, Pinball):
        return nn.functional.l1_loss(forecast, target)
    levels = torch.tensor(loss.levels)
    error = target[..., None] - forecast.view(*target.shape, len(levels))
    return torch.maximum(levels * error, (levels - 1) * error).mean()
