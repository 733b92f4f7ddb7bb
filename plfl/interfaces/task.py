"""A task: what is predicted, as one class in one file.

Its author reads this file and `plfl.data.examples.Examples`; a task of loads derives from
`plfl.tasks.loads.LoadTask`. Only a task knows what the outputs of a model mean. Its hooks stand in
the order of their use: facts and checks when a study is read, the loss in the rounds, predictions
and their scores, tables for figures. Those that raise NotImplementedError are needed by some
methods or studies alone. Import torch from `plfl.base.lazy`, so that a study is read quickly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from plfl.base import DataFrame, Tensor
from plfl.base.array_types import Floats as Floats
from plfl.base.array_types import Starts as Starts
from plfl.base.errors import Problem
from plfl.interfaces.annotations import Data, Dataset, Examples, FederationSettings, Split, Windows
from plfl.interfaces.named import Selectable
from plfl.interfaces.terms import Objective, Term
from plfl.layout import WindowShape

Widening = Literal["none", "personal", "adaptive"]
"""The conformal width of intervals: none, one of each client, or one that follows its loads."""


class Task(Selectable):
    """A task: subclasses define its keys and override its hooks. Outputs of a model have shape
    (..., B) for B windows if `outputs` is 1, else (..., B, O)."""

    examples: ClassVar[str] = "loads"
    """The kind of examples (`Source.examples`) that it needs; it has its scores and reports."""
    own_loss: ClassVar[str | None] = None
    """Its own loss in words, which replaces `federation.loss`; None: it trains with that."""
    forecasts: ClassVar[bool] = True
    """Whether it forecasts loads, so that the best models are kept for `plfl forecast`."""
    has_common_windows: ClassVar[bool] = False
    """Whether all models are scored on the same windows: slow, so local ones at the end only."""
    has_labels: ClassVar[bool] = False
    """Whether its targets are class labels, which `federation.selection: data_aware` needs."""
    choosing_score: ClassVar[str]
    """The score, smaller is better, whose mean on validation chooses hyperparameters and cells."""
    own_choosing_score: ClassVar[str]
    """The score, smaller is better, by which a client chooses among its own models; finite if and
    only if all predictions are."""

    def outputs(self, horizons: int) -> int:
        """O, the number of numbers that a model returns for a window with `horizons` targets."""
        raise NotImplementedError

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """The levels of the quantiles that it predicts; empty: a single prediction."""
        return ()

    def window_shape(self, data: Data, windows: Windows) -> WindowShape:
        """The shape of what a model reads and returns, given a source with the task's examples."""
        sizes = len(data.inputs), windows.look_back, windows.covariates_width
        return WindowShape(*sizes, self.outputs(windows.horizons))

    def problems(
        self, data: Data, windows: Windows, federation: FederationSettings
    ) -> Iterator[Problem]:
        """Why it cannot be trained with these settings."""
        return iter(())

    def split_settings(self, data: Data) -> dict[str, Any]:
        """The settings that decide how examples are divided among clients after they are read."""
        return {}

    @abstractmethod
    def reasons_against_teacher(self, loss: str) -> Iterator[str]:
        """Why a teacher cannot be mixed into the targets with `federation.loss`."""

    @abstractmethod
    def objective(self, loss: str, term: Term | None = None) -> Objective:
        """The loss of local steps, from `federation.loss`, for the targets of `mix_teacher`."""

    def mix_teacher(
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

    def predictions(self, dataset: Dataset, client: int, starts: Starts, outputs: Floats) -> Floats:
        """The predictions for W windows of a client that are scored, given a model's outputs."""
        raise NotImplementedError

    @property
    def widening(self) -> Widening:
        """How the intervals of a trained model are widened."""
        return "none"

    def find_uncalibrated(self, dataset: Dataset) -> Iterator[Problem]:
        """Clients with too few validation windows for conformal widths."""
        return iter(())

    def conformal_widths(self, dataset: Dataset, client: int, predictions: Floats) -> Floats:
        """Conformal widths (...) of a client in units of the outputs, given the predictions for its
        validation windows."""
        raise NotImplementedError

    def widen(
        self, dataset: Dataset, client: int, starts: Starts, predictions: Floats, widths: Floats
    ) -> Floats:
        """Predictions for windows, in order of time, with intervals of these widths (...)."""
        raise NotImplementedError

    def export(self, loads: Tensor, widths: Tensor | None) -> Tensor:
        """The results of `predictions` and `widen` for outputs (B,) or (B, O) and widths in kWh,
        computed by operations that PyTorch can trace."""
        raise NotImplementedError

    def scores(
        self, dataset: Dataset, client: int, split: Split, predictions: Floats
    ) -> dict[str, float]:
        """Scores of the predictions for all windows in one split of a client."""
        raise NotImplementedError

    def errors(self, dataset: Dataset, client: int, predictions: Floats) -> dict[str, Any]:
        """Errors of the predictions for all test windows of a client, day by day, as columns."""
        raise NotImplementedError

    def evaluator(self, dataset: Examples, engine: Any) -> Any:
        """Scores models on `has_common_windows`: a `plfl.experiments.evaluation.Evaluator`."""
        raise NotImplementedError

    def week_table(
        self, dataset: Dataset, client: int, starts: Starts, predictions: Mapping[str, Floats]
    ) -> DataFrame:
        """Predictions for windows of a client, by model, beside the truth, for figures."""
        raise NotImplementedError
