"""The shape of a model's windows, the columns of its parameters in a row, and what it computes."""

import math
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plfl.base import Tensor

GROUPS = ("body", "head")
"""Two groups, which patterns name like parameters. Every parameter is in one of them."""

Head = Literal["mlp", "last"]
"""What counts as the head of a model: the group `head`, in the paper the MLP, or its last layer."""

Mask: TypeAlias = NDArray[np.bool_]
"""Which columns of a row are meant, (P,)."""

Activation = Literal["prelu", "silu"]
"""The activations of the hidden layers of an MLP."""


class WindowShape(NamedTuple):
    """What a model reads of one window, a sequence (T, F) and covariates (G,), and how many numbers
    it returns."""

    inputs: int
    """F, the features of a row of the sequence; the first is the scaled load."""
    look_back: int
    """T, rows of the sequence."""
    covariates: int = 0
    """G, numbers that are read once per window."""
    outputs: int = 1
    """O, numbers that a model returns for a window."""


class KernelForm(NamedTuple):
    """A model as the native kernel describes it: an optional LSTM, and an MLP, which reads the
    LSTM's hidden states of all steps. Without an LSTM it reads the window: the sequence row by row,
    then the covariates. A row has the parameters of `nn.LSTM`, and then weight, bias and, if any,
    PReLU slope of each layer of the MLP."""

    hidden: int
    """Units of the LSTM; 0: there is none."""
    widths: tuple[int, ...]
    """Widths of the hidden layers of the MLP."""
    activation: Activation
    """The activation of each hidden layer; PReLU has a slope per unit."""
    absolute: bool = False
    """Whether the forecast is the absolute value of the output."""


@dataclass(frozen=True)
class ParameterLayout:
    """Which slice of a row holds which parameter."""

    shapes: dict[str, tuple[int, ...]]
    """Shapes of the parameters by name, in the order of a row."""
    head: tuple[str, ...] = ()
    """Glob patterns of the parameters in the group `head`. All others are in `body`."""
    buffers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of the buffers that training changes, such as the running statistics of BatchNorm, by
    name. They follow the parameters in a row. No pattern means them: they belong to one client and
    are never sent."""

    @property
    def names(self) -> list[str]:
        return list(self.shapes)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The columns of each parameter, by name."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()]).tolist()
        starts = [0, *ends[:-1]]
        return {n: slice(a, b) for n, a, b in zip(self.shapes, starts, ends, strict=True)}

    @property
    def width(self) -> int:
        """P, the numbers of one model: its parameters and its buffers."""
        return sum(math.prod(shape) for shape in self.all_shapes.values())

    @property
    def all_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters and then of the buffers, by name."""
        return self.shapes | self.buffers

    @property
    def buffer_columns(self) -> slice:
        """The columns of all buffers; those of the parameters are before them."""
        return slice(sum(math.prod(shape) for shape in self.shapes.values()), self.width)

    def is_whole(self, shared_mask: Mask) -> bool:
        """Whether a mask (P,) has all parameters."""
        return bool(shared_mask[: self.buffer_columns.start].all())

    @property
    def last(self) -> str:
        """Pattern of the last layer: the parameters that belong to the same part as the last."""
        part, dot, _ = self.names[-1].rpartition(".")
        return f"{part}.*" if dot else self.names[-1]

    def views(self, theta: Tensor) -> dict[str, Tensor]:
        """The parameters of all rows of `theta` (S, P), by name; each has shape (S, *shape)."""
        return {
            name: theta[:, columns].view(-1, *self.shapes[name])
            for name, columns in self.slices.items()
        }

    def buffer_views(self, theta: Tensor) -> dict[str, Tensor]:
        """The buffers of all rows of `theta` (S, P), by name; each has shape (S, *shape)."""
        sizes = [math.prod(shape) for shape in self.buffers.values()]
        parts = theta[:, self.buffer_columns].split(sizes, 1)
        named_parts = zip(self.buffers.items(), parts, strict=True)
        return {name: part.view(-1, *shape) for (name, shape), part in named_parts}

    def match(self, pattern: str) -> list[str]:
        """Names of the parameters that a `pattern` means: one of `GROUPS` or a glob pattern."""
        if pattern not in GROUPS:
            return [name for name in self.names if fnmatchcase(name, pattern)]
        head = {name for entry in self.head for name in self.names if fnmatchcase(name, entry)}
        return [name for name in self.names if (name in head) == (pattern == "head")]

    def mask(self, patterns: list[str]) -> Mask:
        """Which columns (P,) belong to parameters that one of the `patterns` means."""
        mask = np.zeros(self.width, dtype=bool)
        for pattern in patterns:
            for name in self.match(pattern):
                mask[self.slices[name]] = True
        return mask


def head_mask(layout: ParameterLayout, head: Head) -> Mask:
    """Which parameters (P,) belong to the head of a model."""
    return layout.mask(["head" if head == "mlp" else layout.last])
