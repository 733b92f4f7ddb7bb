"""The whole round of FedAvg and PL-FL, without engines, codecs and checkpoints: read this first.

N buildings (clients) train one model each. A model is a row of P parameters, and a mask says which
of them are shared: all (P1, FedAvg), the LSTM (P2, PL-FL) or none (P3). A test compares this
program with plfl's engines: python examples/plain_round.py
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

import plfl
from plfl.training import batches


def run_rounds(
    study: plfl.Study, dataset: plfl.Dataset, shared: Tensor, seed: int
) -> Iterator[Tensor]:
    """The models (N, P) of the N clients after each round. `shared`: mask (P,) of what crosses."""
    network, settings = study.model.network(dataset.shape), study.federation
    x = network.initial(seed)  # the server's parameters
    theta = x.repeat(len(dataset.clients), 1)  # one row per client
    for t in range(1, settings.rounds + 1):
        updates = torch.zeros_like(theta)
        for i, name in enumerate(dataset.clients):
            theta[i, shared] = x[shared]  # down: the server sends what is shared
            windows = dataset.starts(i, "train")  # the first row of each training window
            sizes = len(windows), settings.local_steps, settings.batch_size
            minibatches = windows[batches.draw(seed, name, t, *sizes)]
            y = train_locally(network.module(), theta[i], dataset, minibatches)
            updates[i], theta[i] = y - theta[i], y  # up: D = y − x; the rest stays with the client
        x[shared] += updates[:, shared].mean(dim=0)  # the server adds the mean of the updates
        yield theta.clone()


def train_locally(model: nn.Module, y: Tensor, dataset: plfl.Dataset, minibatches: Any) -> Tensor:
    """Parameters (P,) after a step of SGD, from `y`, on each of a client's `minibatches` (K, B)."""
    nn.utils.vector_to_parameters(y.clone(), model.parameters())
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    for first_rows in minibatches:
        rows = first_rows[:, None] + range(dataset.look_back)
        forecasts = model(torch.from_numpy(dataset.features[rows]), torch.empty(len(rows), 0))
        targets = torch.from_numpy(dataset.targets[rows[:, -1]])
        optimiser.zero_grad()
        nn.functional.mse_loss(forecasts, targets).backward()
        optimiser.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


if __name__ == "__main__":
    study = plfl.Study.load("config/smoke.yaml")
    dataset = plfl.load_dataset(study, "NY")
    schemes = study.plan.schemes.patterns  # P1, P2 and P3, as names of parameters
    for name, patterns in schemes.items():
        mask = torch.from_numpy(study.plan.layout.mask(patterns))
        *_, models = run_rounds(study, dataset, mask, seed=10)
        spread = f"standard deviation between clients {models.std(dim=0).mean():.1e}"
        print(f"{name}: {int(mask.sum()):,} of {len(mask):,} parameters cross; {spread}")
