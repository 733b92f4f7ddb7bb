"""The recipe of config/recipe.yaml (an MLP, mae, AdamW) as a plain PyTorch loop trains it.

The data are random, since speed does not depend on their values.
"""

from pathlib import Path

import numpy as np
import torch
from bench_quick import YEAR
from torch import nn

from plfl.config.study import Study
from plfl.data.windows import Dataset
from plfl.training.task import LocalTask

STUDY = Study.load(Path(__file__).parents[1] / "config" / "recipe.yaml")
ADAMW = STUDY.candidates(STUDY.cells[0])[0].client_opt
CLIENTS, STEPS = 10, 5000
"""What one training is: all steps of ten clients."""


def random_dataset() -> Dataset:
    """A year of windows for every client, of the recipe's shape."""
    random, windows, rows = np.random.default_rng(0), STUDY.windows, CLIENTS * YEAR
    return Dataset(
        clients=np.array([f"client {i}" for i in range(CLIENTS)]),
        columns=np.array(STUDY.data.features),
        features=random.standard_normal((rows, len(STUDY.data.features)), dtype=np.float32),
        context=random.standard_normal((rows, windows.context_width), dtype=np.float32),
        targets=random.standard_normal(rows, dtype=np.float32),
        load=np.ones(rows),
        stamps=np.tile(np.datetime64("2018-01-01T00:15", "s") + np.arange(YEAR) * 900, CLIENTS),
        bounds=YEAR * np.arange(CLIENTS)[:, None] + [0, YEAR - 200, YEAR - 100, YEAR],
        load_offset=np.zeros(CLIENTS),
        load_scale=np.ones(CLIENTS),
        relative=windows.target == "change",
        look_back=windows.look_back,
        look_ahead=windows.look_ahead,
        interval=15,
    )


def local_task(dataset: Dataset, t: int, steps: int) -> LocalTask:
    """What round `t` asks of the clients."""
    network, random = STUDY.model.network(dataset.shape), torch.Generator().manual_seed(t)
    rows = network.initial(10).expand(CLIENTS, -1).clone()
    size = (CLIENTS, steps, STUDY.federation.batch_size)
    drawn = torch.randint(0, YEAR - 300, size, generator=random)
    return LocalTask(
        optimiser=ADAMW,
        rows=rows,
        batches=torch.from_numpy(dataset.bounds)[:, :1, None] + drawn,
        shared=torch.from_numpy(network.layout.mask(["body"])),
        state=ADAMW.init(rows),
        steps_taken=torch.zeros(CLIENTS, 1, dtype=torch.float64),
        loss=STUDY.federation.loss,
    )


class PlainLoop:
    """The clients one after the other, as PyTorch's tutorials train a model."""

    def __init__(self, dataset: Dataset):
        self.module = STUDY.model.network(dataset.shape).module()
        tables = (dataset.features, dataset.context, dataset.targets)
        self.features, self.context, self.targets = map(torch.from_numpy, tables)
        self.look_back = torch.arange(dataset.look_back)

    def train(self, task: LocalTask) -> torch.Tensor:
        """Run the K local steps of every client; returns their mean losses."""
        totals = torch.zeros(len(task.rows))
        for s, batches in enumerate(task.batches):
            nn.utils.vector_to_parameters(task.rows[s].clone(), self.module.parameters())
            optimiser = torch.optim.AdamW(
                self.module.parameters(),
                ADAMW.lr,
                (ADAMW.beta1, ADAMW.beta2),
                ADAMW.eps,
                ADAMW.weight_decay,
                fused=True,
            )
            for starts in batches:
                optimiser.zero_grad()
                load = self.features[starts[:, None] + self.look_back]
                last = starts + self.look_back[-1]
                forecast = self.module(load - load[:, -1:], self.context[last])
                loss = nn.functional.l1_loss(forecast, self.targets[last])
                loss.backward()
                optimiser.step()
                totals[s] += loss.detach()
            task.rows[s] = nn.utils.parameters_to_vector(self.module.parameters()).detach()
        return totals / len(task.batches[0])
