"""Client-steps per second of every built-in model, and of a plain PyTorch loop, on one core.

    python benchmarks/bench_models.py

The windows are the paper's (8 features, minibatches of 16), and those with 96 covariates
(minibatches of 64). The loop trains the clients one after the other with `Adam(fused=True)`.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import nn

from plfl.config.rules import OWN, available_models
from plfl.config.sections import Windows
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.layout import WindowShape
from plfl.models import Model
from plfl.models.network import Network
from plfl.optimizers.client.adam import Adam
from plfl.training.fused import Fused
from plfl.training.stacked import Stacked
from plfl.training.task import LocalTask, Minibatches

CLIENTS, STEPS, ROUNDS, ROWS = 12, 10, 4, 4000
CPU = torch.device("cpu")
SHAPES = {16: WindowShape(8, 12, 0), 64: WindowShape(1, 12, 96)}
"""Windows by the size of a minibatch."""


def random_dataset(shape: WindowShape) -> Dataset:
    """One client's random numbers, which all models train on."""
    random = np.random.default_rng(0)
    stamps = pd.date_range("2018-01-01 00:15", periods=ROWS, freq="15min")
    names = ["load", *(f"x{i}" for i in range(1, shape.inputs))]
    table = pd.DataFrame(random.random((ROWS, len(names))), stamps, names)
    data = build({"client": table}, Windows(look_back=shape.look_back))
    return replace(data, covariates=random.random((ROWS, shape.covariates), dtype=np.float32))


def local_task(network: Network, batch: int) -> LocalTask:
    """A round of some clients."""
    rows, adam = torch.stack([network.initial(s) for s in range(CLIENTS)]), Adam()
    return LocalTask.fresh(
        adam,
        rows,
        Minibatches(torch.randint(0, ROWS // 2, (CLIENTS, STEPS, batch))),
        torch.ones(rows.shape[1], dtype=torch.bool),
    )


def plain(network: Network, dataset: Dataset, task: LocalTask) -> None:
    """The clients one after the other, as PyTorch's tutorials train a model."""
    module = network.module()
    features, covariates = torch.from_numpy(dataset.features), torch.from_numpy(dataset.covariates)
    targets, look_back = torch.from_numpy(dataset.targets), torch.arange(dataset.look_back)
    for row, batches in zip(task.rows, task.minibatches.starts, strict=True):
        nn.utils.vector_to_parameters(row, module.parameters())
        optimiser = torch.optim.Adam(module.parameters(), 1e-3, (0.5, 0.9), fused=True)
        for starts in batches:
            optimiser.zero_grad()
            last = starts + dataset.look_back - 1
            forecasts = module(features[starts[:, None] + look_back], covariates[last])
            nn.functional.mse_loss(forecasts, targets[last]).backward()
            optimiser.step()


def rates(runners: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Client-steps per second of processor time, of the best of some calls that alternate.

    A first call warms up.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(ROUNDS + 1):
        for name, work in runners.items():
            start = time.process_time()
            work()
            seconds[name].append(time.process_time() - start)
    return {name: CLIENTS * STEPS / min(own[1:]) for name, own in seconds.items()}


def measure() -> list[dict[str, Any]]:
    """Client-steps per second of each model on each kind of windows, by engine."""
    torch.set_num_threads(1)
    found = []
    for name, cls in available_models().items():
        for batch, shape in SHAPES.items():
            model = cast(Model, cls()) if name != OWN else None
            if model is None or model.problems(shape):
                continue
            network, dataset = model.network(shape), random_dataset(shape)
            task = local_task(network, batch)
            runners: dict[str, Callable[[], object]] = {
                "loop": partial(plain, network, dataset, task),
                "stacked": partial(Stacked(network, dataset, CPU).train, task),
            }
            if network.kernel_form is not None:
                runners["fused"] = partial(Fused(network, dataset, CPU, threads=1).train, task)
            windows = f"{shape.inputs}×{shape.look_back}+{shape.covariates}, {batch}"
            found.append({"model": model.summary, "windows": windows, **rates(runners)})
    return found


def main() -> None:
    """Print one line per model and window."""
    print(
        f"{'model':<22}{'windows':<16}{'loop':>8}{'stacked':>9}{'ratio':>7}{'fused':>9}{'ratio':>7}"
    )
    for row in measure():
        line = f"{row['model']:<22}{row['windows']:<16}{row['loop']:8,.0f}"
        for engine in ("stacked", "fused"):
            if engine in row:
                line += f"{row[engine]:9,.0f}{row[engine] / row['loop']:7.1f}"
        print(line)


if __name__ == "__main__":
    main()
