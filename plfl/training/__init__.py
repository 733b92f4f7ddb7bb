"""How rows are trained: engines that do the same arithmetic at different speeds.

An engine is given the work of one round for a stack of models and trains them in place. Rows never
touch each other, so a result does not depend on the company a row was trained in.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from plfl.clients import ClientOpt
from plfl.data.windows import Dataset
from plfl.forecaster import Forecaster

if TYPE_CHECKING:
    from plfl.study import Compute


@dataclass(frozen=True)
class LocalTask:
    """What one round asks of S models that share a ClientOpt."""

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


class Engine(Protocol):
    """Trains and evaluates rows on one dataset."""

    device: torch.device
    dtype: torch.dtype

    def train(self, task: LocalTask) -> Tensor:
        """Run the K local steps of every row; returns the mean minibatch loss (S,), float64."""

    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        """Forecasts, in scaled units, of row s for the windows `starts[s]`."""


def engine(compute: "Compute", forecaster: Forecaster, dataset: Dataset) -> Engine:
    """The engine that a configuration asks for, on the dataset of one state."""
    from plfl.training.reference import Reference
    from plfl.training.stacked import Stacked

    cuda = torch.cuda.is_available() if compute.device == "auto" else compute.device == "cuda"
    chosen = Reference if compute.engine == "reference" else Stacked
    return chosen(forecaster, dataset, torch.device("cuda" if cuda else "cpu"))
