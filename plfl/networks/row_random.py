"""Random numbers of layers such as Dropout, for each row of a stack from a generator of its own.

A layer draws from PyTorch's default generator. While a row is trained, that generator is in the
state that a key of the row and the step gives it. So the numbers depend on the key alone, not on
other rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def is_random(operation: Any) -> bool:
    """Whether an operation of a recorded program draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(operation, "tags", ())


class RowGenerators:
    """The generators of the rows of a stack in one step."""

    def __init__(self, keys: Sequence[int], device: torch.device):
        """`keys`: a number of 63 bits for each row."""
        self.keys = keys
        self._states: list[Tensor | None] = [None] * len(keys)
        self._default = torch.default_generator
        if device.type == "cuda":
            self._default = torch.cuda.default_generators[device.index or 0]

    @contextmanager
    def draw_from(self, row: int) -> Iterator[None]:
        """A context in which PyTorch draws from the generator of a row."""
        outer_state, state = self._default.get_state(), self._states[row]
        if state is None:
            self._default.manual_seed(self.keys[row])
        else:
            self._default.set_state(state)
        try:
            yield
        finally:
            self._states[row] = self._default.get_state()
            self._default.set_state(outer_state)


def draw_by_row(generators: RowGenerators, operation: Any, *arguments: Any, **options: Any) -> Any:
    """What a random operation on a whole stack draws, row by row: a tensor or several. In tensors
    and sizes among its arguments, the first dimension is that of the rows."""
    rows = []
    for row in range(len(generators.keys)):
        with generators.draw_from(row):
            rows.append(operation(*(_select_row(part, row) for part in arguments), **options))
    stack = next((part for part in arguments if isinstance(part, Tensor)), None)
    if isinstance(rows[0], tuple):
        return tuple(_stack_like(stack, parts) for parts in zip(*rows, strict=True))
    return _stack_like(stack, rows)


def _select_row(argument: Any, row: int) -> Any:
    if isinstance(argument, Tensor):
        # Numbers are drawn in the order of the memory.
        return argument[row : row + 1].contiguous()
    return [1, *argument[1:]] if isinstance(argument, list | tuple) else argument


def _stack_like(model: Tensor | None, rows: Sequence[Tensor]) -> Tensor:
    """The rows in one tensor, in memory as the `model`, on which later operations may rely."""
    stack = torch.cat([*rows])
    if model is None or model.shape != stack.shape:
        return stack
    return torch.empty_like(model, dtype=stack.dtype).copy_(stack)
