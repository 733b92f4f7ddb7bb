"""A baseline: a forecaster that a federation has to beat, as one class in one file.

Its author reads this file, and of the data `plfl.data.dataset.Dataset`; docs/baselines.md has an
example. Only `fit` and `FittedBaseline.predict` are required. The hooks stand in the order of use:
facts when a study is read, `fit` and `refit` in the job of the baselines, `predict`, `sent_bytes`
and `save` of what they return, `restore` and `adopt` in `plfl forecast`. What is fitted is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from plfl.base.array_types import Arrays as Arrays
from plfl.base.array_types import Floats as Floats
from plfl.base.array_types import Starts as Starts
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.interfaces.annotations import Dataset, ProgramPart, ProgramParts
from plfl.interfaces.named import Selectable

Crosses = Literal["nothing", "models", "raw data"]
"""What a client sends to others, the least first."""


@dataclass(frozen=True)
class FitSettings:
    """What a study asks of all its baselines."""

    trees: int = 400
    """Most trees of a LightGBM. Their number is chosen on validation."""
    learning_rate: tuple[float, ...] = (0.1,)
    """Learning rates of LightGBM to try."""
    leaves: tuple[int, ...] = (31,)
    """Numbers of leaves of a tree to try, each with each learning rate."""
    max_bin: int = 255
    """Most bins of a feature of LightGBM."""
    levels: tuple[float, ...] = ()
    """The Q levels of the quantiles to forecast; empty: a single forecast."""


class FittedBaseline(ABC):
    """A baseline that is fitted to the clients of a dataset, which are numbered as there."""

    sent_bytes: Mapping[str, Sequence[int]] | None = None
    """Bytes that each client sends, by the baseline whose messages these are, or `raw data`; what
    several need is sent once. None: all raw data if these cross, otherwise nothing."""

    @abstractmethod
    def predict(self, client: int, starts: Starts) -> Floats:
        """Forecasts of windows of a client, in kWh: in the shape of `Dataset.truth`, or quantiles
        (W, H, Q) if it `has_quantiles`; NaN for none. It uses nothing after a window's last row."""

    def save(self, client: int) -> Arrays:
        """What a client needs to forecast later readings; not what its members save."""
        return {}


class Baseline(Selectable):
    """A baseline. Its fields are keys that a study may set where it lists the baseline."""

    about: ClassVar[str]
    """A sentence about what it forecasts."""
    crosses: ClassVar[Crosses] = "nothing"
    """What each client has to send."""
    has_quantiles: ClassVar[bool] = False
    """Whether it forecasts quantiles itself; if not, plfl adds those of its errors in training."""
    forecasts_medians: ClassVar[bool] = False
    """Whether its single forecasts are medians, which do not add up."""
    is_naive: ClassVar[bool] = False
    """Whether it repeats earlier loads."""
    needs_training: ClassVar[bool] = True
    """Whether a meter that did not take part has to train it."""
    needs_received: ClassVar[bool] = False
    """Whether its `needs` must be trained on no reading of the client that they forecast."""
    fits_each_client: ClassVar[bool | None] = None
    """Whether `fit` treats each client alone, given its members; None: if clients send nothing."""
    needs_training_forecasts: ClassVar[bool] = True
    """Whether it may read forecasts of its members besides those for validation and test."""
    fits_regression: ClassVar[bool] = False
    """Whether `fit` solves a regression of each client, which takes time."""
    needs_covariates: ClassVar[bool] = False
    """Whether only studies with `windows.covariates` have it."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of its members: other baselines, whose forecasts it uses."""
        return ()

    def count_trees(self) -> int:
        """Models of trees that `fit` trains per client, each with all settings of a study."""
        return 0

    @property
    def reach(self) -> int:
        """Minutes before its target of the earliest load that it needs besides the look-back."""
        return MINUTES_PER_WEEK

    def count_context(self, interval: int) -> int:
        """Of how many last rows, one every `interval` minutes, it reads those that are known."""
        return 0

    @property
    def is_received(self) -> bool:
        """Whether no reading of the client that it forecasts has trained it."""
        return False

    @property
    def has_seen_the_data(self) -> bool:
        """Whether its pre-training included these series, even the test set."""
        return False

    @abstractmethod
    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        """Train on the training sets of all clients; choose settings on the validation sets.
        `members`: the baselines that it needs, already fitted, by name."""

    def refit(
        self,
        fitted_baseline: Any,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        """Train for the test set, on all history; `fitted_baseline`: what `fit` returned."""
        return self.fit(dataset, settings, members)

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        """Undo `FittedBaseline.save`: forecasts for a client with a dataset of its own, in which it
        is number 0. Only a baseline that defines this can be kept for `plfl forecast`."""
        raise NotImplementedError(f"{self.name} cannot be kept")

    def adopt(
        self, arrays: Arrays, dataset: Dataset, settings: FitSettings
    ) -> FittedBaseline | None:
        """What a meter that took no part gets, given what a client saved; None: `fit` trains it."""
        return None

    def program(self, arrays: Arrays, parts: ProgramParts) -> ProgramPart | None:
        """The forecaster as a part of an ONNX program; None: it cannot be exported."""
        return None
