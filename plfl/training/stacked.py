"""Many models at once in torch: batched matrix products over the rows of a stack."""

import itertools
import math
from dataclasses import replace

import torch
from torch import Tensor

from plfl.data.windows import Dataset
from plfl.forecaster import Forecaster
from plfl.training import LocalTask

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
        state = {name: rows.repeat(2, 1) for name, rows in task.state.items()}
        pair = replace(
            task,
            rows=task.rows.repeat(2, 1),
            batches=task.batches.repeat(2, 1, 1),
            state=state,
            steps_taken=task.steps_taken.repeat(2, 1),
        )
        loss = self._train(pair, slice(2))[:1]
        task.rows.copy_(pair.rows[:1])
        for name, rows in task.state.items():
            rows.copy_(state[name][:1])
        return loss

    def _train(self, task: LocalTask, chunk: slice) -> Tensor:
        optimiser, layout = task.optimiser, self.forecaster.layout
        y = task.rows[chunk]
        anchor = y.clone()
        state = {name: rows[chunk] for name, rows in task.state.items()}
        taken = task.steps_taken.expand_as(task.rows)[chunk] if task.steps_taken.any() else 0
        pull = optimiser.proximal * task.shared
        total = torch.zeros(len(y), dtype=torch.float64, device=self.device)
        for k, starts in enumerate(task.batches[chunk].unbind(1), 1):
            leaves = {n: v.detach().requires_grad_() for n, v in layout.views(y).items()}
            forecast = self.forecaster.forward(leaves, self._inputs(starts))
            losses = (forecast - self.features[starts + self.target, 0]).square().mean(1)
            gradients = torch.autograd.grad(losses.sum(), list(leaves.values()))
            g = torch.cat([gradient.flatten(1) for gradient in gradients], 1)
            if optimiser.proximal:
                g += pull * (y - anchor)
            optimiser.step(y, g, state, taken + k)
            total += losses.detach()
        return total / task.batches.shape[1]

    def _inputs(self, starts: Tensor) -> Tensor:
        return self.features[starts[..., None] + self.look_back]

    @torch.inference_mode()
    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        views = self.forecaster.layout.views(rows)
        return [
            self.forecaster.forward({n: v[s : s + 1] for n, v in views.items()}, inputs)[0]
            for s, inputs in enumerate(self._inputs(windows)[None] for windows in starts)
        ]
