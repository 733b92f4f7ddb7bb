"""Tasks: what is predicted, one file per task.

A task says how many numbers a model returns for a window, which loss the local steps minimise, what
the terms of methods mean for this loss, and how predictions are scored. The targets themselves are
in the dataset. Nothing else in the code knows what a model's outputs mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.config.rules import TaskRules

if TYPE_CHECKING:  # reading a configuration imports this package and should not wait for torch
    import pandas as pd
    from torch import Tensor

    from plfl.data.dataset import Dataset, Split
    from plfl.data.examples import Examples
    from plfl.study import Study
    from plfl.tasks.losses import Loss

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Distillation:
    """FedGKD's term: besides its targets, a model learns the outputs of a teacher."""

    weight: float
    """λ, the weight of the teacher's term; that of the targets is 1."""
    temperature: float = 1.0
    """T, by which logits are divided; a forecast has none."""


@dataclass(frozen=True, eq=False)
class CorrectedDistillation:
    """FedADC+'s term: a teacher corrects the targets where a client has few of the kind that the
    teacher predicts."""

    weight: float
    """λ."""
    edges: Tensor
    """Inner edges (bins − 1,) of the bins of a target, ascending; empty where targets are classes,
    which need no bins."""
    ratios: Tensor
    """ρ (N, bins): how often a client's targets fall into a bin, relative to its fullest bin."""
    temperature: float = 1.0
    """τ, by which logits are divided; a forecast has none."""


@dataclass(frozen=True)
class NotTrueDistillation:
    """FedNTD's term: the teacher's outputs for the classes other than the true one are learned."""

    label: float
    """Weight of the cross entropy with the targets."""
    weight: float
    """Weight of the teacher's term."""
    temperature: float
    """T, by which logits are divided."""


@dataclass(frozen=True, eq=False)
class Restriction:
    """FedRS's restricted softmax, which needs no teacher: the logits of classes that a client does
    not have count less."""

    alpha: float
    """α, by which these logits are multiplied."""
    present: Tensor
    """Mask (N, classes) of the classes that each client has."""


Term: TypeAlias = Distillation | CorrectedDistillation | NotTrueDistillation | Restriction
"""A change of the loss by a method, mostly with a teacher; only the task knows its meaning."""


class Objective(NamedTuple):
    """What the local steps minimise."""

    loss: Loss
    scale: float = 1.0
    """A factor of the loss."""


class Task(TaskRules):
    """A task: subclasses define its keys and functions.

    Outputs of a model have shape (..., B) for B windows if `outputs` is 1, else (..., B, O). Each
    task says which trailing dimensions its targets have.
    """

    selection: ClassVar[str]
    """The score, smaller is better, whose mean on validation chooses hyperparameters and cells."""
    own_selection: ClassVar[str]
    """The score, smaller is better, by which a client chooses among its own models. It is finite if
    and only if all predictions are."""

    def objective(self, loss: str, term: Term | None = None) -> Objective:
        """The loss of local steps, made from `federation.loss`, for the targets that `taught`
        returns for the same `term`."""
        raise NotImplementedError

    def taught(
        self, term: Term, outputs: Tensor | None, targets: Tensor, clients: Tensor
    ) -> Tensor:
        """Targets (n, K, B, ...) that replace the `targets` of n clients, as a method's `term`
        says. `outputs`: those of the teachers (n, K, B, ...); None if the method has none."""
        raise NotImplementedError

    def agreed_bins(self, targets: Sequence[Tensor], bins: int) -> tuple[Tensor, Tensor]:
        """`CorrectedDistillation.edges` and `ratios` of clients, given their training targets."""
        raise NotImplementedError

    def histograms(self, targets: Sequence[Floats], bins: int) -> Floats:
        """Shares (N, bins) of the kinds of targets that each client has, as FedSC compares them."""
        raise NotImplementedError

    def predictions(
        self, dataset: Dataset, client: int, starts: NDArray[np.int64], outputs: Floats
    ) -> Floats:
        """The predictions for W windows of a client that are scored, given a model's outputs."""
        raise NotImplementedError

    @property
    def fewest_windows(self) -> int:
        """Validation windows that a client needs for conformal widths."""
        return 1

    def uncalibrated(self, dataset: Dataset) -> Iterator[str]:
        """Clients with too few validation windows for conformal widths, one line each."""
        return iter(())

    def check_calibration(self, dataset: Dataset) -> None:
        """Refuse a dataset where a client has too few validation windows for conformal widths."""
        if problems := list(self.uncalibrated(dataset)):
            raise DataError("\n".join(problems))

    def widths_shape(self, horizons: int) -> tuple[int, ...]:
        """The shape of the widths of a client whose windows have this number of `horizons`."""
        raise NotImplementedError

    def conformal_widths(self, dataset: Dataset, client: int, predictions: Floats) -> Floats:
        """Conformal widths (...) of a client, given the predictions for its validation windows, in
        units of the model's outputs."""
        raise NotImplementedError

    def widened(
        self,
        dataset: Dataset,
        client: int,
        starts: NDArray[np.int64],
        predictions: Floats,
        widths: Floats,
    ) -> Floats:
        """Predictions for windows, in order of time, of a client whose intervals have the `widths`
        (...). Adaptive ones follow the loads from the test set on."""
        raise NotImplementedError

    def exported(self, loads: Tensor, widths: Tensor | None) -> Tensor:
        """The results of `predictions` and `widened` for a model's outputs (B,) or (B, O) in
        kWh per interval, with `widths` in kWh, computed by operations that PyTorch can trace."""
        raise NotImplementedError

    def scores(
        self, dataset: Dataset, client: int, split: Split, predictions: Floats
    ) -> dict[str, float]:
        """Scores of the predictions for all windows in one split of a client."""
        raise NotImplementedError

    def errors(self, dataset: Dataset, client: int, predictions: Floats) -> dict[str, Any]:
        """Errors of the predictions for all test windows of a client, day by day, as columns of a
        table; see `plfl.tasks.metrics.of_days`."""
        raise NotImplementedError

    def evaluator(self, dataset: Examples, engine: Any) -> Any:
        """The examiner of models on `common_windows`: `plfl.experiments.evaluation.Examiner`."""
        raise NotImplementedError

    def week(self, dataset: Dataset, client: int) -> NDArray[np.int64]:
        """Start rows of windows of a client's test set whose predictions are kept for figures."""
        raise NotImplementedError

    def shown(
        self,
        dataset: Dataset,
        client: int,
        starts: NDArray[np.int64],
        predictions: Mapping[str, Floats],
    ) -> pd.DataFrame:
        """Predictions for windows of a client, by model, beside the truth."""
        raise NotImplementedError

    def columns(self, name: str, predictions: Floats) -> dict[str, Floats]:
        """Predictions as columns of a table, which begin with a `name`."""
        raise NotImplementedError


def task_of(study: Study) -> Task:
    """The task of a study; the configuration itself knows only the rules of tasks."""
    assert isinstance(study.task, Task)
    return study.task
