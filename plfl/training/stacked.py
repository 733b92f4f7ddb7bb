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
from torch.nn.utils.rnn import pad_sequence

from plfl.data.windows import Dataset
from plfl.forecaster import Forecaster
from plfl.training import Contrast, LocalTask, Recursion, passes
from plfl.training.losses import contrastive

CHUNK = 12
"""Most rows that are trained together on a CPU: as many as its caches like."""
WINDOWS = 2**20
"""About as many windows are forecast together on a GPU, which takes some gigabytes."""


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
        on_gpu = device.type != "cpu"
        self.block, self.chunk = (sys.maxsize, sys.maxsize) if on_gpu else (4 * CHUNK, CHUNK)
        # Those of one row are enough for a CPU.
        self.windows = WINDOWS if on_gpu else 1
        self.features = torch.from_numpy(dataset.features).to(device, dtype)
        self.look_back = torch.arange(dataset.look_back, device=device)
        self.target = dataset.look_back - 1 + dataset.look_ahead

    def train(self, task: LocalTask) -> Tensor:
        if len(task.rows) == 1:
            return self._train_with_a_twin(task)
        chunks = math.ceil(len(task.rows) / self.chunk)
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
        if task.recursion is not None and twins.recursion is not None:
            task.recursion.momentum.copy_(twins.recursion.momentum[:1])
            task.recursion.square.copy_(twins.recursion.square[:1])
        return loss

    @torch.inference_mode()
    def _train(self, task: LocalTask, chunk: slice) -> Tensor:
        optimiser = task.optimiser
        y = task.rows[chunk]
        start = y.clone()
        state = {name: rows[chunk] for name, rows in task.state.items()}
        behind = task.steps_taken.expand_as(task.rows)[chunk] if task.steps_taken.any() else 0
        constant, displacement, gradients = (
            None if x is None else x[chunk]
            for x in (task.constant, task.displacement, task.gradients)
        )
        pull = optimiser.proximal * task.shared + (0 if task.pull is None else task.pull)
        pulls = bool(pull.any())
        batches = task.batches[chunk]
        targets = self.features[batches + self.target, 0]
        if task.targets is not None:
            targets = task.targets[chunk].to(self.dtype)
        steps = _steps(task)[chunk]
        taken: list[int] = steps.tolist()
        always, most = min(taken) == max(taken), max(taken)
        # Rows that take a step are the first of these; a mask of them would stop a GPU every time.
        longest_first = steps.argsort(descending=True, stable=True)
        total = torch.zeros(len(y), dtype=torch.float64, device=self.device)
        g = torch.empty_like(y)
        recursion = task.recursion and task.recursion.map(lambda rows: rows[chunk])
        if recursion is not None:
            before = y + task.shared * recursion.scale * recursion.momentum
            old = torch.empty_like(y)
        for k in range(1, most + 1):
            minibatch = (self._inputs(batches[:, k - 1]), targets[:, k - 1], task, chunk, start)
            losses = self._gradient(y, *minibatch, g)
            active = None if always else steps >= k
            if recursion is not None:
                self._gradient(before, *minibatch, old)
                mine = task.shared if active is None else task.shared & active[:, None]
                _recur(recursion, g, old, mine)
                before.copy_(y)
                way = recursion.scale * recursion.momentum
                ahead = y - torch.where((steps > k)[:, None], way, 0)
            if gradients is not None:
                gradients += g if active is None else g * active[:, None]
            if pulls:
                g += pull * (y - start)
            if constant is not None:
                g += constant
            total += losses if active is None else losses * active
            now = slice(None) if always else longest_first[: sum(n >= k for n in taken)]
            with _only(now, y, state) as (rows, moments):
                optimiser.step(rows, g[now], moments, _part(behind, now) + k)
                if recursion is not None:
                    rows.copy_(torch.where(task.shared, ahead[now], rows))
                if displacement is not None:
                    rows += displacement[now]
                if task.frozen is not None:
                    rows.copy_(torch.where(task.frozen, start[now], rows))
        return total / steps

    def _gradient(
        self,
        y: Tensor,
        inputs: Tensor,
        targets: Tensor,
        task: LocalTask,
        chunk: slice,
        start: Tensor,
        out: Tensor,
    ) -> Tensor:
        """Losses (S,) of the models `y` on a minibatch, and their gradient into `out`."""
        forecasts, trace = passes.forward(self.forecaster, y, inputs)
        errors = forecasts - targets
        losses = errors.square().mean(1) * task.loss_scale
        features: dict[str, Tensor] = {}
        if task.contrast is not None and task.previous is not None:
            which = task.contrast.features
            near, far = (
                getattr(passes.forward(self.forecaster, rows, inputs)[1], which)
                for rows in (start, task.previous[chunk])
            )
            added, features[which] = _contrast(getattr(trace, which), near, far, task.contrast)
            losses = losses + added
        by_forecast = errors * (2 * task.loss_scale / errors.shape[1])
        passes.backward(self.forecaster, y, trace, by_forecast, features, out)
        return losses

    def _inputs(self, starts: Tensor) -> Tensor:
        return self.features[starts[..., None] + self.look_back]

    @torch.inference_mode()
    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        most = max(1, self.windows // max([1, *map(len, starts)]))
        forecasts: list[Tensor] = []
        for first in range(0, len(starts), most):
            some = starts[first : first + most]
            views = self.forecaster.layout.views(rows[first : first + most])
            inputs = self._inputs(pad_sequence(some, batch_first=True))
            padded = self.forecaster.forward(views, inputs)
            forecasts += [f[: len(own)] for f, own in zip(padded, some, strict=True)]
        return forecasts


def _contrast(h: Tensor, near: Tensor, far: Tensor, contrast: Contrast) -> tuple[Tensor, Tensor]:
    """MOON's term (S,) in the losses for features (S, W, B), and its gradient by `h`."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf, near, far = (x.mT.clone() for x in (h, near, far))
        distances = contrastive(leaf.requires_grad_(), near, far, contrast.temperature)
        added = contrast.weight * distances.mean(1)
        (by_leaf,) = torch.autograd.grad(added.sum(), leaf)
    return added.detach(), by_leaf.mT


def _recur(r: Recursion, g: Tensor, old: Tensor, where: Tensor) -> None:
    """Take the gradients at the point and at the one before into m and v, `where` they are to."""
    r.momentum.copy_(torch.where(where, g + (1 - r.a) * (r.momentum - old), r.momentum))
    r.square.copy_(torch.where(where, r.beta * r.square + (1 - r.beta) * g * g, r.square))


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
    chosen["recursion"] = task.recursion and task.recursion.map(lambda rows: rows[index])
    chosen["steps_taken"] = task.steps_taken.expand(len(task.rows), -1)[index]
    return replace(task, **chosen)


@contextmanager
def _only(
    now: Tensor | slice, y: Tensor, state: dict[str, Tensor]
) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """The rows with the indices `now`, or a slice for all of them, to be changed in place."""
    if isinstance(now, slice):
        yield y, state
        return
    rows, moments = y[now], {name: values[now] for name, values in state.items()}
    yield rows, moments
    y[now] = rows
    for name, values in moments.items():
        state[name][now] = values


def _part(behind: Tensor | int, now: Tensor | slice) -> Tensor | int:
    return behind if isinstance(behind, int) else behind[now]
