"""The clients' quadratic losses as a PyTorch model that other libraries can train.

A library trains a classifier on batches (x, label) with a cross-entropy loss. Here a row x holds a
client's constants, the model's output is the residual √a (m₀ s + m₁ p − c), and the loss is half
its square. s is the body of the model and p its head. A row of test data also carries the number of
its client: the model then notes which parameters are being scored.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.helpers.personalised import Problem

CLASSES = 3
"""Width of the output: libraries that compute an AUC need three classes. All but one are zero."""
Row = tuple[Tensor, Tensor]

scored: list[tuple[int, float, float]] = []
"""Client, s and p of every evaluation on test data, in order."""


class Body(nn.Module):
    """m₀ s, and the row as it came."""

    def __init__(self, s: float) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.layer.weight, s)

    def forward(self, x: Tensor) -> Tensor:
        s = self.layer.weight.detach()[0].expand(len(x), 1)
        return torch.cat([self.layer(x[:, 2:3]), x, s], 1)


class Head(nn.Module):
    """The residual, from what the body returns."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.layer.weight, p)

    def forward(self, z: Tensor) -> Tensor:
        *_, client, s = z[0].tolist()
        if client:
            scored.append((int(client) - 1, s, float(self.layer.weight.detach())))
        residual = z[:, 1:2] * (z[:, :1] + self.layer(z[:, 4:5]) - z[:, 2:3])
        return torch.cat([residual, residual.new_zeros(len(z), CLASSES - 1)], 1)


class Model(nn.Module):
    """The model, with its parts under the names that libraries look for."""

    def __init__(self, start: tuple[float, float]) -> None:
        super().__init__()
        self.base, self.head = Body(start[0]), Head(start[1])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.base(x))
        return out


class HalfSquare(nn.Module):
    """Half the squared residual; takes the place of `nn.CrossEntropyLoss`."""

    def __init__(self, *args: Any, reduction: str = "mean", **kwargs: Any) -> None:
        super().__init__()
        self.reduce: Callable[[Tensor], Tensor] = getattr(torch, reduction)

    def forward(self, output: Tensor, label: Tensor) -> Tensor:
        return self.reduce(output[:, 0] ** 2) / 2


def row(problem: Problem, client: int, test: bool = False) -> Row:
    """A row of a client's data, and a label that nothing depends on."""
    constants = [problem.a[client] ** 0.5, problem.c[client], *problem.mix, (client + 1) * test]
    return torch.tensor(constants, dtype=torch.float64), torch.tensor(client)


def parameters(model: nn.Module) -> list[float]:
    """s and p of a model."""
    return [float(w.detach()) for w in model.parameters()]


def prepare() -> None:
    """Let PyTorch compute in float64, and every cross-entropy be `HalfSquare`."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    nn.CrossEntropyLoss = HalfSquare  # type: ignore[assignment, misc]
    torch.nn.modules.loss.CrossEntropyLoss = HalfSquare  # type: ignore[assignment, misc]
