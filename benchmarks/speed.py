"""Client-steps per second: plfl's engines beside a plain PyTorch loop, every model, every method.

    python benchmarks/speed.py [--quick]

The plain loop is what a user would write: PyTorch's own layers, autograd and a fused Adam, one
client after the other. All take turns, on one thread, by the processor's clock, so that whatever
else the machine does slows all of them. The data are random, since speed does not depend on their
values. Writes the tables of README.md; `--quick` prints the first row alone, in under a minute.
"""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, cast

import machine
import numpy as np
import torch
from torch import Tensor, nn

from plfl import methods
from plfl.base.errors import ConfigError
from plfl.base.files import write_text
from plfl.config.named import available_models
from plfl.data.dataset import ClientView, Dataset
from plfl.experiments.training_setup import federation_of, network_of
from plfl.federated import round as rounds
from plfl.federated.client_data import ClientData
from plfl.interfaces.model import OWN_MODULE
from plfl.networks.network import Network
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamw import AdamW
from plfl.study import Study
from plfl.tasks.losses import Loss, Pinball
from plfl.training.engines import make_engine
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.stacked import Stacked
from plfl.training.work import LocalWork, Minibatches

CLIENTS, YEAR = 12, 365 * 96
ROUNDS = 7
"""Of which a median is taken; one more before them is for warming up."""
CPU = torch.device("cpu")
CONFIG = Path(__file__).parents[1] / "config"
README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- make bench -->", "<!-- /make bench -->"
PAPER: dict[str, Any] = {
    "data": {"source": "sample", "states": ["CA"]},
    "grid": {"sharing": ["P1"], "client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [10]},
    "federation": {"rounds": ROUNDS + 1, "local_steps": 125, "evaluate_every": ROUNDS + 1},
    "compute": {"engine": "fused", "device": "cpu"},
}
"""The paper's model, windows and minibatches."""
CUT = {"fedeff": {"epoch_steps": 25}, "fedala": {"most_steps": 125}}
"""Options of methods that would else take many more steps than the others."""


@dataclass(frozen=True)
class Setting:
    """What is trained: the model, windows, optimiser and minibatches of a study's first cell."""

    study: Study

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """That of a study given as a dictionary; `ConfigError` if its keys do not fit."""
        return cls(Study.parse(raw, "benchmark"))

    @cached_property
    def dataset(self) -> Dataset:
        """A year of random windows of each client."""
        random, windows, rows = np.random.default_rng(0), self.study.windows, CLIENTS * YEAR
        columns, horizons = self.study.data.features, windows.horizons
        bounds = YEAR * np.arange(CLIENTS)[:, None] + [0, YEAR - 1000, YEAR - 500, YEAR]
        return Dataset(
            clients=np.array([f"client {i}" for i in range(CLIENTS)]),
            columns=np.array(columns),
            features=random.random((rows, len(columns)), dtype=np.float32),
            covariates=random.random((rows, windows.covariates_width), dtype=np.float32),
            targets=random.random((rows, horizons) if horizons > 1 else rows, dtype=np.float32),
            load=random.random(rows),
            stamps=np.tile(np.datetime64("2018-01-01T00:15", "s") + np.arange(YEAR) * 900, CLIENTS),
            views={"usual": ClientView(bounds, np.zeros(CLIENTS), np.ones(CLIENTS))},
            relative=windows.target == "change",
            look_back=windows.look_back,
            look_ahead=windows.look_ahead,
            interval=15,
            horizons=horizons,
        )

    @cached_property
    def network(self) -> Network:
        """The study's model."""
        return network_of(self.study, self.dataset.shape)

    @property
    def optimiser(self) -> Adam | AdamW:
        """The local optimiser, untuned."""
        first = self.study.plan.candidates(self.study.cells[0])[0]
        return cast("Adam | AdamW", first.client_opt)

    def task(
        self, t: int, steps: int, models: int = CLIENTS, device: torch.device = CPU
    ) -> LocalWork:
        """What round `t` asks of so many models, which take turns with the clients' windows."""
        random = torch.Generator().manual_seed(t)
        size = (models, steps, self.study.federation.batch_size)
        first = torch.from_numpy(self.dataset.view.bounds[np.arange(models) % CLIENTS, 0])
        starts = first[:, None, None] + torch.randint(0, YEAR - 1300, size, generator=random)
        rows = self.network.initial(10).repeat(models, 1)
        shared = torch.ones(rows.shape[1], dtype=torch.bool)
        task = LocalWork.fresh(
            self.optimiser, rows.to(device), Minibatches(starts.to(device)), shared.to(device)
        )
        return replace(task, objective=self.study.task.objective(self.study.federation.loss))


class PlainLoop:
    """The clients one after the other, as PyTorch's tutorials train a model."""

    def __init__(self, setting: Setting, device: torch.device = CPU):
        self.module, self.rule = setting.network.module().to(device), setting.optimiser
        data = setting.dataset
        tables = (data.features, data.covariates, data.targets)
        self.tables = [torch.from_numpy(table).to(device) for table in tables]
        self.offsets = torch.arange(data.look_back, device=device)
        self.relative = data.relative

    def train(self, task: LocalWork) -> Tensor:
        """Run the local steps of every client; returns their mean losses (S,)."""
        features, covariates, targets = self.tables
        totals = torch.zeros(len(task.rows), device=task.rows.device)
        options: dict[str, Any] = {"betas": (self.rule.beta1, self.rule.beta2), "fused": True}
        kind: type[torch.optim.Adam] = torch.optim.Adam
        if isinstance(self.rule, AdamW):
            kind, options["weight_decay"] = torch.optim.AdamW, self.rule.weight_decay
        for s, batches in enumerate(task.minibatches.starts):
            nn.utils.vector_to_parameters(task.rows[s].clone(), self.module.parameters())
            optimiser = kind(
                self.module.parameters(), lr=self.rule.lr, eps=self.rule.eps, **options
            )
            for starts in batches:
                optimiser.zero_grad()
                inputs, last = features[starts[:, None] + self.offsets], starts + self.offsets[-1]
                if self.relative:
                    inputs = inputs - inputs[:, -1:]
                forecast = self.module(inputs, covariates[last])
                loss = _loss(task.objective.loss, forecast, targets[last])
                loss.backward()
                optimiser.step()
                totals[s] += loss.detach()
            task.rows[s] = nn.utils.parameters_to_vector(self.module.parameters()).detach()
        return totals / len(task.minibatches.starts[0])


def _loss(loss: Loss, forecast: Tensor, target: Tensor) -> Tensor:
    if isinstance(loss, Pinball):
        levels = torch.tensor(loss.levels)
        error = target[..., None] - forecast.view(*target.shape, len(levels))
        return torch.maximum(levels * error, (levels - 1) * error).mean()
    point = nn.functional.l1_loss if loss.name == "mae" else nn.functional.mse_loss
    return point(forecast.view_as(target), target)


def rates(setting: Setting) -> dict[str, float]:
    """Client-steps per second of processor time of the plain loop and of each engine.

    Raises:
        AssertionError: they do not train the same model.
    """
    torch.set_num_threads(1)
    ways: dict[str, tuple[int, Callable[[LocalWork], Tensor]]] = {
        "plain loop": (10, PlainLoop(setting).train),
        "stacked": (20, Stacked(setting.network, setting.dataset, CPU).train),
    }
    if setting.network.kernel_form is not None:
        ways["fused"] = (125, Fused(setting.network, setting.dataset, CPU, threads=1).train)
    losses = [train(setting.task(0, 10)).float() for _, train in ways.values()]  # warms up, too
    for other in losses[1:]:
        torch.testing.assert_close(other, losses[0], rtol=1e-3, atol=0)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for t in range(1, ROUNDS + 1):
        for name, (steps, train) in ways.items():
            spent = _seconds(partial(train, setting.task(t, steps)), time.process_time)
            seconds[name].append(spent / (CLIENTS * steps))
    return {name: 1 / statistics.median(spent) for name, spent in seconds.items()}


def _seconds(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def by_model() -> dict[str, dict[str, float]]:
    """The rates of every built-in model on the paper's windows."""
    shared = {"sharing": {"P1": ["*"]}}
    return {
        name: rates(Setting.of({**PAPER, **shared, "model": {"name": name}}))
        for name in available_models()
        if name != OWN_MODULE
    }


def by_method() -> dict[str, float]:
    """How fast the rounds of every method are, relative to those of fedopt with the same
    optimisers; without those that run with none of the optimisers tried."""
    tries: list[dict[str, Any]] = [
        {},
        {"client_opt": ["sgd"]},
        {"client_opt": ["sgdm"]},
        {"client_opt": ["sgdm"], "options": {"sgdm": {"dampening": 0.9}}},
        {"sharing": ["P2"]},
    ]
    measured: dict[str, float] = {}
    for name, method in methods.available().items():
        if method.only_task:
            continue
        for changes in tries:
            try:
                both = [_setting_of_method(each, **changes) for each in ("fedopt", name)]
            except ConfigError:
                continue
            fedopt, plugin = _rounds(both)
            measured[name] = fedopt / plugin
            break
    return measured


def _setting_of_method(name: str, options: Mapping[str, Any] | None = None, **grid: Any) -> Setting:
    hyperparameters = {"method": CUT, "client_opt": options or {}}
    grid = {**PAPER["grid"], **grid, "method": [name]}
    return Setting.of({**PAPER, "grid": grid, "hyperparameters": hyperparameters})


def _rounds(settings: Sequence[Setting]) -> list[float]:
    """Seconds of processor time of a round of each setting's first cell, in turns."""
    torch.set_num_threads(1)
    runs = []
    for each in settings:
        study, cell = each.study, each.study.cells[0]
        engine = make_engine(study.compute, each.network, each.dataset)
        client_data = ClientData(each.dataset, engine, study.federation, cell.seed)
        f = federation_of(study, cell, study.plan.candidates(cell)[0], each.network, client_data)
        runs.append(partial(rounds.run_rounds, [f], engine))
    seconds: list[list[float]] = [[] for _ in runs]
    for t in range(1, ROUNDS + 1):
        for run, spent in zip(runs, seconds, strict=True):
            run_round = partial(run, range(t, t + 1), lambda finished: None)
            spent.append(_seconds(run_round, time.process_time))
    return [statistics.median(spent[1:]) for spent in seconds]


def row(title: str, measured: Mapping[str, float]) -> list[str]:
    """A line of the table of engines: the loop's rate, then each engine's and its ratio."""
    loop = measured["plain loop"]
    engines = (measured.get(name) for name in ("stacked", "fused"))
    return [title, f"{loop:,.0f}", *(f"{x:,.0f} ({x / loop:.1f} ×)" if x else "" for x in engines)]


def tables() -> str:
    """Measure everything; all tables, in Markdown."""
    named = {"the paper's model, minibatches of 16": Setting.of(PAPER)}
    for file, title in {
        "recipe": "`config/recipe.yaml`: an MLP, minibatches of 64",
        "day-ahead": "`config/day-ahead.yaml`: an MLP, five quantiles of 24 hours",
    }.items():
        named[title] = Setting(Study.load(CONFIG / f"{file}.yaml"))
    engines = [row(title, rates(setting)) for title, setting in named.items()]
    head = ["client-steps per second, one thread", "plain loop", "stacked", "fused"]
    parts = [
        f"`make bench` on a core of {machine.processor()} that does {machine.peak():.0f} GFLOP/s "
        f"in products of matrices, load {machine.load()}, Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}:",
        _table(head, engines),
        "### Models",
        "Every built-in model with the defaults of its options, on the paper's windows (8 features "
        "of 12 rows, minibatches of 16).",
        _table(head, [row(f"`{name}`", measured) for name, measured in by_model().items()]),
        "### Methods",
        "The speed of whole rounds of the paper's model with `fused`, relative to `fedopt` with "
        "the same optimisers. Methods that take several gradients in a step, or [steps of their "
        "own](../docs/add-an-algorithm.md), are slower.",
        ", ".join(f"`{name}` {ratio:.2f}" for name, ratio in by_method().items()) + ".",
    ]
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in [head, *rows]]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def main() -> None:
    """Print the first ratio, or write all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    if reason := unavailable_reason():
        sys.exit(f"the fused engine is not available: {reason}")
    if quick:
        measured = rates(Setting.of(PAPER))
        for name, rate in measured.items():
            print(f"{name:<12}{rate:8,.0f} client-steps/s")
        print(f"fused/plain {measured['fused'] / measured['plain loop']:.1f}")
        return
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    text = tables()
    write_text(README, f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")
    print(text)


if __name__ == "__main__":
    main()
