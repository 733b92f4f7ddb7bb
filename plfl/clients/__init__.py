"""ClientOpt: how a client turns gradients into local steps (ALGORITHMS: one file each).

An optimiser is algebra on rows: `y` and `g` have shape (S, P), one row a model, and every
operation acts on each row by itself. State is re-created at the start of every round unless the
study says otherwise (`federation.opt_state`).
"""

import sys
from functools import partial
from typing import TYPE_CHECKING

from plfl import registry

if TYPE_CHECKING:
    from torch import Tensor


class ClientOpt(registry.Method):
    """A local optimiser; subclasses hold its hyperparameters and its step."""

    lr: float

    @property
    def proximal(self) -> float:
        """μ of the proximal term μ·(y − x) that is added to the shared part of the gradient."""
        return 0.0

    def init(self, y: "Tensor") -> "dict[str, Tensor]":
        """State of a fresh optimiser for rows `y`, each entry shaped like `y`."""
        return {}

    def step(self, y: "Tensor", g: "Tensor", state: "dict[str, Tensor]", k: "int | Tensor") -> None:
        """Take local step `k` (from 1) on `y` in place; `g` may be overwritten."""
        raise NotImplementedError


def bias_correction(beta: float, k: "int | Tensor", y: "Tensor") -> "float | Tensor":
    """1 − βᵏ for rows `y`; a tensor `k` is in double precision, as small 1 − β need it."""
    if isinstance(k, int):
        return 1 - beta**k
    return (1 - beta**k).to(y.dtype)


available = partial(registry.methods, sys.modules[__name__])
