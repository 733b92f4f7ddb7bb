"""Many models at once in torch: batched matrix products over the rows of a stack."""

import itertools
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from plfl.data.windows import Dataset
from plfl.forecaster import Forecaster
from plfl.training import LocalTask
from plfl.training.losses import contrastive

CHUNK = 12
"""Most rows that are trained together on a CPU: as many as its caches like."""


class Stacked:
    """Trains any number of rows, on CPU or GPU."""

    def __init__(
        self,
        forecaster: Forecaster,
        dataset: Dataset,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ):
        self.forecaster = forecaster
        self.device, self.dtype = device, dtype
        self.block = sys.maxsize if device.type == "cuda" else 4 * CHUNK
        self.features = torch.from_numpy(dataset.features).to(device, dtype)
        self.look_back = torch.arange(dataset.look_back, device=device)
        self.target = dataset.look_back - 1 + dataset.look_ahead

    def train(self, task: LocalTask) -> Tensor:
        if len(task.rows) == 1:
            return self._train_with_a_twin(task)
        chunks = 1 if self.device.type == "cuda" else math.ceil(len(task.rows) / CHUNK)
        edges = [round(i * len(task.rows) / chunks) for i in range(chunks + 1)]
        return torch.cat([self._train(task, slice(*edge)) for edge in itertools.pairwise(edges)])

    def _train_with_a_twin(self, task: LocalTask) -> Tensor:
        """Train a lone row beside a copy of itself.

        Torch computes a batch of one matrix product by another routine, which would give a row
        other bits alone than in company.
        """
        twins = _taken(task, torch.zeros(2, dtype=torch.int64, device=self.device))
        loss = self._train(twins, slice(2))[:1]
        task.rows.copy_(twins.rows[:1])
        for name, rows in task.state.items():
            rows.copy_(twins.state[name][:1])
        if task.gradients is not None and twins.gradients is not None:
            task.gradients.copy_(twins.gradients[:1])
        return loss

    def _train(self, task: LocalTask, chunk: slice) -> Tensor:
        optimiser, layout = task.optimiser, self.forecaster.layout
        y = task.rows[chunk]
        start = y.clone()
        state = {name: rows[chunk] for name, rows in task.state.items()}
        behind = task.steps_taken.expand_as(task.rows)[chunk] if task.steps_taken.any() else 0
        constant, displacement, gradients = (
            None if x is None else x[chunk]
            for x in (task.constant, task.displacement, task.gradients)
        )
        pull = optimiser.proximal * task.shared + (0 if task.pull is None else task.pull)
        batches = task.batches[chunk]
        targets = self.features[batches + self.target, 0]
        if task.targets is not None:
            targets = task.targets[chunk].to(self.dtype)
        steps = _steps(task)[chunk]
        total = torch.zeros(len(y), dtype=torch.float64, device=self.device)
        for k in range(1, int(steps.max()) + 1):
            leaves = {n: v.detach().requires_grad_() for n, v in layout.views(y).items()}
            inputs = self._inputs(batches[:, k - 1])
            made = self.forecaster.run(leaves, inputs)
            losses = (made.forecast - targets[:, k - 1]).square().mean(1) * task.loss_scale
            if task.contrast is not None and task.previous is not None:
                which, others = task.contrast.features, (start, task.previous[chunk])
                near, far = (self._features(rows, inputs, which) for rows in others)
                h = getattr(made, which)
                distances = contrastive(h, near, far, task.contrast.temperature)
                losses = losses + task.contrast.weight * distances.mean(1)
            parts = torch.autograd.grad(losses.sum(), list(leaves.values()))
            g = torch.cat([part.flatten(1) for part in parts], 1)
            active = steps >= k
            if gradients is not None:
                gradients += g * active[:, None]
            if pull.any():
                g += pull * (y - start)
            if constant is not None:
                g += constant
            total += losses.detach() * active
            with _only(active, y, state) as (rows, moments):
                optimiser.step(rows, g[active], moments, _part(behind, active) + k)
                if displacement is not None:
                    rows += displacement[active]
                if task.frozen is not None:
                    rows.copy_(torch.where(task.frozen, start[active], rows))
        return total / steps

    @torch.no_grad()
    def _features(self, rows: Tensor, inputs: Tensor, which: str) -> Tensor:
        made = self.forecaster.run(self.forecaster.layout.views(rows), inputs)
        features: Tensor = getattr(made, which)
        return features

    def _inputs(self, starts: Tensor) -> Tensor:
        return self.features[starts[..., None] + self.look_back]

    @torch.inference_mode()
    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        views = self.forecaster.layout.views(rows)
        return [
            self.forecaster.forward({n: v[s : s + 1] for n, v in views.items()}, inputs)[0]
            for s, inputs in enumerate(self._inputs(windows)[None] for windows in starts)
        ]


def _steps(task: LocalTask) -> Tensor:
    """Steps (S,) of each row."""
    if task.steps is not None:
        return task.steps
    S, K, _ = task.batches.shape
    return torch.full((S,), K, device=task.rows.device)


def _taken(task: LocalTask, index: Tensor) -> LocalTask:
    """A task of the rows `index` of another, as copies."""
    per_row = {"rows", "batches", "constant", "displacement", "targets", "previous"}
    per_row |= {"steps", "gradients"}
    chosen: dict[str, Any] = {
        name: None if value is None else value[index]
        for name, value in vars(task).items()
        if name in per_row
    }
    chosen["state"] = {name: rows[index] for name, rows in task.state.items()}
    chosen["steps_taken"] = task.steps_taken.expand(len(task.rows), -1)[index]
    return replace(task, **chosen)


@contextmanager
def _only(
    active: Tensor, y: Tensor, state: dict[str, Tensor]
) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """The rows that are `active`, to be changed in place."""
    if active.all():
        yield y, state
        return
    rows, moments = y[active], {name: values[active] for name, values in state.items()}
    yield rows, moments
    y[active] = rows
    for name, values in moments.items():
        state[name][active] = values


def _part(behind: Tensor | int, active: Tensor) -> Tensor | int:
    return behind if isinstance(behind, int) else behind[active]
