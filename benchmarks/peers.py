"""Other tools' simulations of the same training: client-steps per second of whole rounds.

    pip install 'plfl[benchmark]'; python benchmarks/bench.py others

The plain loop's model, minibatches and `Adam(fused=True)`, federated averaging, one worker with one
thread. What a tool takes to start is left out, as is its first round, which warms up.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import astuple
from functools import cache
from importlib.util import find_spec
from itertools import cycle, pairwise
from typing import Any

import torch
from bench_quick import BATCH, CLIENTS, FORECASTER, STEPS, PlainLoop, local_task, random_dataset
from torch import Tensor, nn

from plfl.models.layers import Module
from plfl.optimizers.client.adam import Adam

ROUNDS = 5
"""Rounds of which a median is taken."""


def plain() -> float:
    """Client-steps per second of the plain loop."""
    torch.set_num_threads(1)
    dataset, ends = random_dataset(), [time.perf_counter()]
    loop = PlainLoop(dataset)
    for t in range(ROUNDS + 1):
        loop.train(local_task(dataset, Adam(), t), Adam())
        ends.append(time.perf_counter())
    return _rate(ends[1:])


def flower() -> float:
    """Client-steps per second of Flower's simulation: Ray, one worker."""
    from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server = ClientApp(), ServerApp()
    ends: list[float] = []

    @client.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        loop, tasks = _tasks()
        loop.module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        i = int(context.node_config["partition-id"])
        task = tasks(int(message.content["config"]["server-round"]), i)
        task.rows[0] = nn.utils.parameters_to_vector(loop.module.parameters()).detach()
        loss = loop.train(task, Adam())
        metrics = MetricRecord({"loss": float(loss), "num-examples": STEPS * BATCH})
        arrays = ArrayRecord(loop.module.state_dict())
        content = RecordDict({"arrays": arrays, "metrics": metrics})
        return Message(content, reply_to=message)

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        while len(list(grid.get_node_ids())) < CLIENTS:
            time.sleep(0.1)
        strategy = FedAvg(fraction_evaluate=0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
        strategy.start(
            grid,
            ArrayRecord(FORECASTER.module().state_dict()),
            num_rounds=ROUNDS + 1,
            train_config=ConfigRecord(),
            evaluate_fn=lambda t, arrays: ends.append(time.perf_counter()),
        )

    worker = {"num_cpus": 1, "num_gpus": 0.0}
    config: Any = {"client_resources": worker, "init_args": {"num_cpus": 1}}
    run_simulation(server, client, CLIENTS, backend_config=config)
    return _rate(ends)


@cache
def _tasks() -> tuple[PlainLoop, Callable[[int, int], Any]]:
    """The plain loop, and what round t asks of client i alone."""
    dataset = random_dataset()

    @cache
    def asked(t: int) -> Any:
        return local_task(dataset, Adam(), t)

    def of(t: int, i: int) -> Any:
        return asked(t).select(torch.tensor([i]))

    return PlainLoop(dataset), of


def pfl() -> float:
    """Client-steps per second of Apple pfl's simulated backend, in one process."""
    # It takes a process of any other name for a worker of its own.
    multiprocessing.current_process().name = "MainProcess"

    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel

    torch.set_num_threads(1)

    class WithLoss(Module):
        """The forecaster with what pfl asks of a model."""

        def loss(self, x: Tensor, target: Tensor, is_eval: bool = False) -> Tensor:
            self.train(not is_eval)
            return nn.functional.mse_loss(self(x), target)

        def metrics(self, x: Tensor, target: Tensor) -> dict[str, Weighted]:
            return {"loss": Weighted(self.loss(x, target, True).item() * len(x), len(x))}

    data = random_dataset()
    features = torch.from_numpy(data.features)
    offsets, target = torch.arange(data.look_back), data.look_back - 1 + data.look_ahead
    starts = local_task(data, Adam(), 1).minibatches.starts.flatten(1)

    def of(user: int) -> Dataset:
        rows = starts[user]
        return Dataset([features[rows[:, None] + offsets], features[rows + target, 0]])

    adam = Adam()
    model = PyTorchModel(
        module := WithLoss(*astuple(FORECASTER)),
        lambda parameters, lr: torch.optim.Adam(
            parameters, lr, (adam.beta1, adam.beta2), adam.eps, fused=True
        ),
        torch.optim.SGD(module.parameters(), 1.0),
    )
    ends: list[float] = []

    class Clock(TrainingProcessCallback):  # type: ignore[misc]
        def after_central_iteration(self, *args: Any, **kwargs: Any) -> tuple[bool, Any]:
            ends.append(time.perf_counter())
            return False, Metrics()

    turns = cycle(range(CLIENTS))
    backend = SimulatedBackend(FederatedDataset(of, lambda: next(turns)), val_data=None)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(ROUNDS + 1, ROUNDS + 2, CLIENTS, None),
        backend=backend,
        model=model,
        model_train_params=NNTrainHyperParams(
            local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=adam.lr
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=None),
        callbacks=[Clock()],
    )
    return _rate(ends)


def _rate(ends: list[float]) -> float:
    """Client-steps per second of the rounds between `ends`."""
    return CLIENTS * STEPS / statistics.median(b - a for a, b in pairwise(ends))


TOOLS: dict[str, tuple[Callable[[], float], tuple[str, ...]]] = {
    "Flower's simulation": (flower, ("flwr", "ray")),
    "Apple pfl": (pfl, ("pfl",)),
}
"""What measures each tool, and the packages that it needs."""


def lacking(packages: tuple[str, ...]) -> str | None:
    """Why a tool is not measured: the packages that are not installed here."""
    absent = [package for package in packages if find_spec(package) is None]
    return f"{' and '.join(absent)} not installed" if absent else None
