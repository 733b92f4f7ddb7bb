"""How rows are trained: engines that do the same arithmetic at different speeds.

An engine is given the work of one round for a stack of models and trains them in place. Rows never
touch each other, so a result does not depend on the company a row was trained in.
"""

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

from plfl.clients import ClientOpt
from plfl.data.windows import Dataset
from plfl.errors import ConfigError
from plfl.forecaster import Forecaster

if TYPE_CHECKING:
    from plfl.study import Compute

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Contrast:
    """MOON's term in the loss: features near those at the start, far from those of another model.

    See `losses.contrastive`; the mean over the minibatch times `weight` goes to the loss.
    """

    weight: float
    """Factor of the term."""
    temperature: float
    """T, by which the cosines are divided."""
    features: Literal["states", "penultimate"]
    """Field of `passes.Trace` whose cosines are taken."""


@dataclass(frozen=True)
class Recursion:
    """STORM's steps (arXiv 1905.10018), which shared parameters take in the optimiser's place.

    Each minibatch gives gradients g of the loss at y and g⁻ at y⁻, the point before:

        m ← g + (1 − a) (m − g⁻);  v ← β v + (1 − β) g²;  y⁻ ← y;  y ← y − s m

    but a row's last step leaves y alone: it belongs to whoever gets m. So does the one that has led
    to the start, and a round begins with y⁻ = start + s m. `pull` and `constant` do not act here.
    """

    momentum: Tensor
    """m (S, P), advanced in place where shared."""
    square: Tensor
    """v (S, P), advanced in place where shared."""
    scale: Tensor
    """s (S, P)."""
    a: float
    """Share of the new gradient in m; 1: plain gradients."""
    beta: float
    """Decay β of v."""

    def map(self, change: Callable[..., Tensor], *others: "Recursion") -> "Recursion":
        """One whose tensors are what `change` makes of each and of its namesakes in `others`."""
        tensors = ((r.momentum, r.square, r.scale) for r in (self, *others))
        m, v, s = itertools.starmap(change, zip(*tensors, strict=True))
        return replace(self, momentum=m, square=v, scale=s)


@dataclass(frozen=True)
class LocalTask:
    """What one round asks of S models that share a ClientOpt.

    Every local step is: gradient of the mean squared error (and of `contrast`) + proximal and
    `pull` terms + `constant`, through the optimiser or a `recursion`, then `displacement`.
    """

    optimiser: ClientOpt
    rows: Tensor
    """Models (S, P) at the start of the round; trained in place."""
    batches: Tensor
    """Start rows (S, K, B) of the windows of each local step."""
    shared: Tensor
    """Mask (P,) of the shared parameters, on which the proximal term acts."""
    state: dict[str, Tensor]
    """State of the optimiser, each entry (S, P); advanced in place."""
    steps_taken: Tensor
    """Steps that `state` has behind it, broadcastable to (S, P): 0 where it is fresh."""
    pull: Tensor | None = None
    """a (P,) of a term a · (y − start) in every gradient, beside the optimiser's proximal one."""
    constant: Tensor | None = None
    """(S, P), added to every gradient."""
    displacement: Tensor | None = None
    """(S, P), added to the rows after every step."""
    targets: Tensor | None = None
    """(S, K, B) to train on, in scaled units, instead of the windows' own targets."""
    loss_scale: float = 1.0
    """Factor of the loss, and so of the gradient."""
    steps: Tensor | None = None
    """Steps (S,) that each row takes, at most K; None: K."""
    gradients: Tensor | None = None
    """(S, P) to which the minibatch gradients are added, before any term."""
    contrast: Contrast | None = None
    """Term in the loss between the models at their start and `previous`."""
    previous: Tensor | None = None
    """Models (S, P) from whose features `contrast` pushes away."""
    frozen: Tensor | None = None
    """Mask (P,) of parameters that stay as they are."""
    recursion: Recursion | None = None
    """How the shared parameters step, instead of by the optimiser."""


class Engine(Protocol):
    """Trains and evaluates rows on one dataset."""

    device: torch.device
    dtype: torch.dtype
    block: int
    """Most models that it likes to be given at once; more would only take more memory."""

    def train(self, task: LocalTask) -> Tensor:
        """Run the K local steps of every row; returns the mean minibatch loss (S,), float64."""

    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        """Forecasts, in scaled units, of row s for the windows `starts[s]`."""


def choose(compute: "Compute") -> tuple[str, str]:
    """Names of the engine and the device that a configuration means on this machine.

    Raises:
        ConfigError: there is no such device, or the engine cannot run here.
    """
    from plfl.training.fused import unavailable_reason

    has_gpu = torch.cuda.is_available()
    if compute.device == "cuda" and not has_gpu:
        raise ConfigError("compute.device", ["'cuda' was asked for, but torch finds no GPU here"])
    device = "cuda" if has_gpu and compute.device != "cpu" else "cpu"
    if compute.engine not in ("auto", "fused"):
        return compute.engine, device
    reason = "it works on the CPU only" if device == "cuda" else unavailable_reason()
    if reason is None:
        return "fused", device
    if compute.engine == "fused":
        raise ConfigError("compute.engine", [f"'fused' cannot run here: {reason}"])
    log.info("the stacked engine trains, not the fused one: %s", reason)
    return "stacked", device


def engine(compute: "Compute", forecaster: Forecaster, dataset: Dataset) -> Engine:
    """The engine that a configuration asks for, on the dataset of one state."""
    from plfl.training.fused import Fused
    from plfl.training.reference import Reference
    from plfl.training.stacked import Stacked

    name, device = choose(compute)
    engines: dict[str, type[Fused] | type[Stacked] | type[Reference]]
    engines = {"fused": Fused, "stacked": Stacked, "reference": Reference}
    return engines[name](forecaster, dataset, torch.device(device))
