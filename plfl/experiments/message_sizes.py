"""How much each method sends, counted on the real channel in federations of synthetic data.

A method runs some rounds with models of three sizes, and the bytes that cross the channel are
written as a d_s + b d_φ + c, where d_s is the number of parameters that go through the channel and
d_φ the number of the LSTM's. Sizes are in floats of 4 bytes; other types count by their bytes. The
size of a message does not depend on the values of the parameters, so models change at random
instead of being trained.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl import methods
from plfl.config import task_rules
from plfl.config.study import Study
from plfl.data import sources
from plfl.experiments.trainer import federation_of, network_of
from plfl.federated.client_data import ClientData
from plfl.federated.round import run
from plfl.optimizers import client as clients
from plfl.optimizers import server as servers
from plfl.tasks import task_of
from plfl.training.task import LocalTask, Minibatches

FLOAT = 4
"""Bytes of a float."""
ROUNDS = 3
"""Rounds trained. The last is counted, because some methods send less in the first."""


class Random:
    """An engine that changes models at random, without looking at any data."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, outputs: int) -> None:
        self.output = () if outputs == 1 else (outputs,)
        self.generator = torch.Generator().manual_seed(0)

    def block(self, task: Callable[[], LocalTask]) -> int:
        return 1000

    def train(self, task: LocalTask) -> Tensor:
        task.rows.add_(torch.randn(task.rows.shape, generator=self.generator))
        return torch.zeros(len(task.rows), dtype=torch.float64)

    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        return [torch.zeros(len(some), *self.output) for some in starts]

    def features_of(self, rows: Tensor, minibatches: Minibatches, which: str) -> Tensor:
        return torch.ones(*minibatches.starts.shape[:2], 1, minibatches.starts.shape[2])

    def penultimate(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        raise AssertionError("nothing is forecast here")


@dataclass(frozen=True)
class Sizes:
    """Floats per client, as terms in d_s and d_φ."""

    before_down: str
    """Down to a client before round 1."""
    before_up: str
    """Up from a client before round 1."""
    down: str
    """Down to a participant in a round."""
    up: str
    """Up from a participant in a round."""


@cache
def sizes(method: str) -> Sizes | None:
    """The sizes of a method's messages; None if it accepts no pair of optimisers with their
    defaults."""
    pair = _accepted(method)
    if pair is None:
        return None
    task = task_rules.find(methods.available()[method].only_task or task_rules.DEFAULT)
    counted = [_counted(method, *pair, blocks) for blocks in task.small]
    terms = np.array([some for _, some in counted])
    return Sizes(*(_as_terms(terms, some) for some in np.transpose([n for n, _ in counted])))


def _accepted(method: str) -> tuple[str, str] | None:
    """The first ClientOpt and ServerOpt that a method accepts."""
    algorithms = _study({}).hyperparameters
    return next(
        (
            (client, server)
            for client, server in itertools.product(clients.available(), servers.available())
            if not algorithms.of_method(method).refuses(
                algorithms.of_client_opt(client), algorithms.of_server_opt(server)
            )
        ),
        None,
    )


def _study(blocks: dict[str, Any]) -> Study:
    # FedADC with double momentum needs averaged gradients; other methods do not depend on it.
    # FedALA would learn its weights on all windows.
    raw = {
        "hyperparameters": {
            "client_opt": {"sgdm": {"dampening": 0.9}},
            "method": {"fedala": {"most_steps": 1}},
        },
        "federation": {"rounds": ROUNDS, "local_steps": 2, "batch_size": 4},
    }
    data = {"source": "sample", "states": ["XX"], **blocks.get("data", {})}
    return Study.parse(raw | blocks | {"data": data}, "message sizes")


def _counted(
    method: str, client_opt: str, server_opt: str, blocks: dict[str, Any]
) -> tuple[NDArray[np.float64], tuple[int, int, int]]:
    """Floats (4,), in the order of `Sizes`, in a study with these `blocks`; and its (d_s, d_φ,
    1)."""
    grid = {
        "method": [method],
        "client_opt": [client_opt],
        "server_opt": [server_opt],
        "sharing": list(blocks["sharing"]),  # the first that the method works with is counted
        "refused": "skip",
    }
    study = _study(blocks | {"grid": grid})
    cell, engine = study.cells[0], Random(study.window_shape.outputs)
    dataset = sources.of(study.data).noise(study, study.data.most_clients)
    network = network_of(study, dataset.shape)
    client_data = ClientData(dataset, engine, study.federation, cell.seed, task_of(study))
    f = federation_of(study, cell, study.candidates(cell)[0], network, client_data)
    traffic = [f.channel.close_round()]
    run([f], engine, range(1, ROUNDS + 1), lambda r: traffic.append(r[0].traffic))
    kinds = ("bytes_down", "bytes_up")
    floats = [
        crossed[kind].max() / FLOAT for crossed in (traffic[0], traffic[-1]) for kind in kinds
    ]
    embedding = int(network.layout.mask(["body"]).sum())
    return np.array(floats), (f.channel.shared, embedding, 1)


def _as_terms(terms: NDArray[np.int64], counts: NDArray[np.float64]) -> str:
    """The counts (3,) as whole multiples of the `terms` (3, 3); if that fails, the last count as a
    number."""
    if np.array_equal(terms[:, 0], terms[:, 1]):  # nothing but the LSTM goes through the channel
        terms = terms * np.array([1, 0, 1])
    found = np.linalg.lstsq(terms, counts, rcond=None)[0].round()
    if not np.array_equal(terms @ found, counts):
        return f"{counts[-1]:g} with d_s = {terms[-1, 0]}"
    pairs = zip(found.astype(int).tolist(), (" d_s", " d_φ", ""), strict=True)
    parts = [f"{'' if n == 1 and name else n}{name}".strip() for n, name in pairs if n]
    return " + ".join(parts) or "0"
