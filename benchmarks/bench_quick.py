"""How much faster than a plain PyTorch loop the fused engine trains, in under a minute.

    python benchmarks/bench_quick.py

One thread, the paper's model and batch, 12 clients of 125 local steps a round. The plain loop is
what a user would write: `nn.LSTM`, `nn.Linear`, autograd and `torch.optim.Adam(fused=True)`, the
fastest of the tools that can be had (see benchmarks/README.md). Rounds of the two alternate, so
that whatever else the machine does slows both; the last line is the ratio of the medians.
"""

import statistics
import time

import numpy as np
import pandas as pd
import torch
from torch import nn

from plfl.config.sections import Windows
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from plfl.optimizers.client.adam import Adam
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.task import LocalTask, Minibatches

FORECASTER = LstmMlpNetwork(inputs=8, look_back=12, hidden=25, mlp=(150, 75), absolute=True)
CLIENTS, STEPS, BATCH = 12, 125, 16
ROUNDS = 7
YEAR = 365 * 96
CPU = torch.device("cpu")


def random_dataset() -> Dataset:
    """A year of random features for every client: speed does not depend on their values."""
    random = np.random.default_rng(0)
    stamps = pd.date_range("2018-01-01 00:15", periods=YEAR, freq="15min")
    names = ["load", *(f"x{i}" for i in range(1, FORECASTER.inputs))]
    tables = {
        f"client {i}": pd.DataFrame(random.random((YEAR, len(names))), stamps, names)
        for i in range(CLIENTS)
    }
    return build(tables, Windows(look_back=FORECASTER.look_back))


def local_task(dataset: Dataset, adam: Adam, t: int, steps: int = STEPS) -> LocalTask:
    """What round `t` asks of the clients."""
    random = torch.Generator().manual_seed(t)
    rows = FORECASTER.initial(10).expand(CLIENTS, -1).clone()
    bounds = torch.from_numpy(dataset.bounds)
    windows = bounds[:, 1] - bounds[:, 0] - dataset.look_back - dataset.look_ahead
    drawn = torch.rand(CLIENTS, steps, BATCH, generator=random) * windows[:, None, None]
    return LocalTask.fresh(
        adam,
        rows,
        Minibatches(bounds[:, :1, None] + drawn.long()),
        torch.from_numpy(FORECASTER.layout.mask(["lstm.*"])),
    )


class PlainLoop:
    """The clients one after the other, as PyTorch's tutorials train a model."""

    def __init__(self, dataset: Dataset, fused: bool = True, device: torch.device = CPU):
        self.fused = fused
        self.module = FORECASTER.module().to(device)
        self.features = torch.from_numpy(dataset.features).to(device)
        self.look_back = torch.arange(dataset.look_back, device=device)
        self.target = dataset.look_back - 1 + dataset.look_ahead

    def train(self, task: LocalTask, adam: Adam) -> torch.Tensor:
        """Run the K local steps of every client; returns their mean losses."""
        totals = torch.zeros(len(task.rows), device=task.rows.device)
        for s, batches in enumerate(task.minibatches.starts):
            nn.utils.vector_to_parameters(task.rows[s].clone(), self.module.parameters())
            optimiser = torch.optim.Adam(
                self.module.parameters(),
                adam.lr,
                (adam.beta1, adam.beta2),
                adam.eps,
                fused=self.fused or None,
            )
            for starts in batches:
                optimiser.zero_grad()
                forecast = self.module(self.features[starts[:, None] + self.look_back])
                loss = nn.functional.mse_loss(forecast, self.features[starts + self.target, 0])
                loss.backward()
                optimiser.step()
                totals[s] += loss.detach()
            task.rows[s] = nn.utils.parameters_to_vector(self.module.parameters()).detach()
        return totals / len(task.minibatches.starts[0])


def main() -> None:
    """Print the rates of both and, last, their ratio."""
    if reason := unavailable_reason():
        raise SystemExit(f"the fused engine is not available: {reason}")
    torch.set_num_threads(1)
    adam, dataset = Adam(), random_dataset()
    plain = PlainLoop(dataset)
    fused = Fused(FORECASTER, dataset, torch.device("cpu"), threads=1)
    seconds: dict[str, list[float]] = {"plain": [], "fused": []}
    for t in range(ROUNDS + 1):  # the first is for warming up
        a, b = local_task(dataset, adam, t), local_task(dataset, adam, t)
        start = time.perf_counter()
        expected = plain.train(a, adam)
        middle = time.perf_counter()
        losses = fused.train(b)
        end = time.perf_counter()
        torch.testing.assert_close(losses.float(), expected, rtol=1e-3, atol=0)
        if t:
            seconds["plain"].append(middle - start)
            seconds["fused"].append(end - middle)
    for name, title in {"plain": "PyTorch loop, Adam(fused=True)", "fused": "fused"}.items():
        rates = sorted(CLIENTS * STEPS / s for s in seconds[name])
        median = statistics.median(rates)
        print(f"{title:<32}{median:8,.0f} client-steps/s ({rates[0]:,.0f} … {rates[-1]:,.0f})")
    ratio = statistics.median(seconds["plain"]) / statistics.median(seconds["fused"])
    print(f"fused/plain {ratio:.1f}")


if __name__ == "__main__":
    main()
