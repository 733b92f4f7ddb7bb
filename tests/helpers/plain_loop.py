"""FedAvg and PL-FL of any `nn.Module` as a plain loop: no rows, no engines, PyTorch alone.

Each client has a module and PyTorch's optimiser. Before every step, `torch.manual_seed` gets the
step's key, so that Dropout draws what it draws in the engines.
"""

from collections.abc import Callable, Collection
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from plfl.config.federation import FederationSettings
from plfl.data.dataset import Dataset
from plfl.training import batches

Build = Callable[[], nn.Module]


class InOrder(TorchDispatchMode):
    """Lets Dropout draw in the order of a tensor's entries, not of its memory, which for a module
    alone may be another one than in a stack."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, given: Any = (), options: Any = None
    ) -> Any:
        if operation is torch.ops.aten.bernoulli_.float:
            return given[0].copy_(torch.empty(given[0].shape).bernoulli_(*given[1:]))
        return operation(*given, **(options or {}))


def windows_of(dataset: Dataset, starts: np.ndarray) -> tuple[Tensor, Tensor]:
    """Sequences (B, T, F) and targets (B,)."""
    rows = starts[:, None] + np.arange(dataset.look_back)
    return torch.from_numpy(dataset.features[rows]), torch.from_numpy(dataset.targets[rows[:, -1]])


def forecasts(module: nn.Module, sequence: Tensor) -> Tensor:
    """Forecasts (B,)."""
    takes_two = "covariates" in module.forward.__code__.co_varnames
    given = (sequence, torch.empty(len(sequence), 0)) if takes_two else (sequence,)
    found: Tensor = module(*given).reshape(len(sequence))
    return found


def initial(build: Build, seed: int) -> nn.Module:
    """The module that the server and every client start from."""
    torch.manual_seed(seed)
    return build()


def train_plainly(
    build: Build,
    dataset: Dataset,
    settings: FederationSettings,
    shared: Collection[str],
    seed: int,
) -> tuple[nn.Module, list[nn.Module]]:
    """The server's module and those of the clients after the rounds. Clients take steps of SGD;
    the server's step is the mean of their updates of the `shared` parameters."""
    server, clients = initial(build, seed), [initial(build, seed) for _ in dataset.clients]
    for t in range(1, settings.rounds + 1):
        sums = {name: torch.zeros_like(p) for name, p in server.named_parameters()}
        for i, (name, module) in enumerate(zip(dataset.clients.tolist(), clients, strict=True)):
            receive(module, server, shared)
            every, K = dataset.starts(i, "train"), settings.local_steps
            drawn = every[batches.draw(seed, name, t, len(every), K, settings.batch_size)]
            optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
            for starts, key in zip(drawn, batches.draw_keys(seed, name, t, K), strict=True):
                sequence, targets = windows_of(dataset, starts)
                torch.manual_seed(int(key))
                with InOrder():  # type: ignore[no-untyped-call]
                    outputs = forecasts(module.train(), sequence)
                loss = nn.functional.mse_loss(outputs, targets)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            sent = dict(server.named_parameters())
            for parameter, values in module.named_parameters():
                sums[parameter] += values.detach() - sent[parameter].detach()
        for parameter, values in server.named_parameters():
            if parameter in shared:
                values.data += sums[parameter] / len(clients)
    return server, clients


def receive(module: nn.Module, server: nn.Module, shared: Collection[str]) -> nn.Module:
    """The module with the server's parameters of these names; its buffers stay its own."""
    sent = dict(server.named_parameters())
    for name, values in module.named_parameters():
        if name in shared:
            values.data.copy_(sent[name].data)
    return module


def joined(
    build: Build,
    server: nn.Module,
    shared: Collection[str],
    seed: int,
    dataset: Dataset,
    client: int,
    batch_size: int,
    most: int,
) -> nn.Module:
    """The module of a client that trains in no round: what the server sends, and buffers that
    follow its own training windows in one pass of at most `most` minibatches."""
    module = receive(initial(build, seed), server, shared)
    every, name = dataset.starts(client, "train"), f"buffers/{dataset.clients[client]}"
    steps = min(most, len(every) // batch_size)
    drawn = every[batches.epoch(seed, f"/{name}", 0, len(every), steps, batch_size)]
    for starts, key in zip(drawn, batches.draw_keys(seed, name, 0, steps), strict=True):
        torch.manual_seed(int(key))
        with torch.no_grad():
            forecasts(module.train(), windows_of(dataset, starts)[0])
    return module


def row_of(module: nn.Module, buffers: Collection[str]) -> Tensor:
    """Parameters, and then the named buffers, as one row."""
    own = dict(module.named_buffers())
    parts = [*module.parameters(), *(own[name].float() for name in buffers)]
    return torch.cat([part.detach().flatten() for part in deepcopy(parts)])
