"""ClientOpt: how a client turns gradients into local steps, one file per optimiser.

Optimisers work on rows: `y` and `g` have shape (S, P), one row per model, and every operation
acts on each row separately. The state is reset at the start of every round unless
`federation.opt_state` or the method says otherwise.
"""

from abc import abstractmethod
from functools import partial
from typing import Self

from pydantic import Field

from plfl.base import Tensor
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm


class ClientOpt(Algorithm):
    """A local optimiser. Subclasses define its hyperparameters and its step."""

    lr: float
    weight_decay: float = Field(0.0, ge=0)
    """λ of the weight decay: λ·y is added to the gradient before the step, so it passes through the
    moments (as in PyTorch's SGD)."""

    @property
    def coupled_decay(self) -> float:
        """λ of the term λ·y of the gradient; 0 if `step` itself decays the parameters."""
        return self.weight_decay

    def decay_weights(self, y: Tensor, g: Tensor) -> Tensor:
        """The gradient `g` of the rows `y` with the weight decay, in place. Callers of `step` call
        this first: `step` does not add the decay."""
        return g.add_(y, alpha=self.coupled_decay) if self.coupled_decay else g

    @property
    def adds_up(self) -> bool:
        """Whether its steps from a row are −lr times the sum of their gradients, without others."""
        return False

    def scale_rate(self, multiple: float) -> Self:
        """The same optimiser with a multiple of its learning rate."""
        return self.model_copy(update={"lr": self.lr * multiple}) if multiple != 1 else self

    @property
    def proximal(self) -> float:
        """μ of the proximal term μ·(y − x), which is added to the gradient of shared parameters."""
        return 0.0

    def init(self, y: Tensor) -> dict[str, Tensor]:
        """The initial state for rows `y`; every entry has the shape of `y`."""
        return {}

    @abstractmethod
    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        """Take local step `k` (from 1) on `y` in place. `g` may be overwritten."""


def bias_correction(beta: float, k: int | Tensor, y: Tensor) -> float | Tensor:
    """1 − βᵏ for rows `y`. A tensor `k` is in double precision, needed if 1 − β is small."""
    if isinstance(k, int):
        return 1 - beta**k
    return (1 - beta**k).to(y.dtype)


available = partial(registry.available, __name__, ClientOpt)
