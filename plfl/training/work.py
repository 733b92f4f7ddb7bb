"""The work of one round for a stack of models, and the interface of the engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from plfl.interfaces.terms import Objective
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.sgd import Sgd
from plfl.tasks.losses import POINT

SQUARED_ERROR = Objective(POINT["mse"])
"""The mean squared error of outputs and targets."""
STANDING_OPTIMISER = Sgd.model_construct(lr=0.0)
"""An optimiser whose steps change nothing, to compute gradients only."""


@dataclass(frozen=True)
class RowTensors:
    """A dataclass whose tensors have one entry per row, except those in `parameter_fields`."""

    parameter_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields with one entry per parameter, the same for all rows."""

    def map(self, change: Callable[..., Tensor], *other_parts: Self) -> Self:
        """A copy in which `change` has made each tensor from those of the same name here and in
        `other_parts`."""
        names = [field.name for field in fields(self) if field.name not in self.parameter_fields]
        values_by_name = {
            name: [getattr(part, name) for part in (self, *other_parts)] for name in names
        }
        return replace(
            self, **{name: _map_values(change, values) for name, values in values_by_name.items()}
        )


def _map_values(change: Callable[..., Tensor], values: Sequence[Any]) -> Any:
    """The `values` of a field, changed as in `RowTensors.map`; if no tensors, the first of them."""
    first = values[0]
    match first:
        case Tensor():
            return change(*values)
        case dict():
            return {name: change(*(value[name] for value in values)) for name in first}
        case RowTensors():
            return first.map(change, *values[1:])
    return first


@dataclass(frozen=True)
class Minibatches(RowTensors):
    """What the K local steps of S rows train on, B windows in each."""

    starts: Tensor
    """Start rows (S, K, B) of the windows."""
    targets: Tensor | None = None
    """(S, K, B), or (S, K, B, ...) as the loss reads them, instead of the windows' own targets."""
    keys: Tensor | None = None
    """(S, K), from which random layers draw in each step, whole numbers of 63 bits; None if the
    model has none, see `Engine.is_random`."""

    def select_steps(self, first: int, count: int) -> Minibatches:
        """The `count` minibatches from `first` on, counted from 0."""
        return self.map(lambda values: values[:, first : first + count])

    def repeat(self, times: int) -> Minibatches:
        """Each minibatch this many times, with other random numbers each time."""
        batches = self.map(lambda values: values.repeat_interleave(times, 1))
        if batches.keys is None:
            return batches
        repeat_number = torch.arange(batches.keys.shape[1], device=batches.keys.device) % times
        return replace(batches, keys=batches.keys ^ repeat_number)


def sums(rows: Tensor) -> Tensor:
    """Sums (S, 1) of rows; the order of the additions does not depend on other rows."""
    while (width := rows.shape[1]) > 1:
        half = width // 2
        folded = rows[:, :half] + rows[:, half : 2 * half]
        rows = torch.cat([folded, rows[:, 2 * half :]], 1) if width % 2 else folded
    return rows


@dataclass(frozen=True)
class Average(RowTensors):
    """An exponential moving average of each row over its steps: ȳ ← d ȳ + (1 − d) y after a step,
    where d is the limit `decay`, or (1 + t)/(10 + t) at step t while that is less, so that the
    first values are soon forgotten.
    """

    rows: Tensor
    """ȳ (S, P), advanced in place."""
    steps: Tensor
    """Steps (S, 1) averaged so far, in double precision."""
    decay: float
    """Limit of d."""

    def advance(self, y: Tensor, k: int | Tensor, active: Tensor | None) -> None:
        """Average in the rows `y` of the mask `active` (S,) after step `k` (from 1) of a round."""
        t = self.steps + k
        weight = 1 - torch.clamp((1 + t) / (10 + t), max=self.decay)
        if active is not None:
            weight = weight * active[:, None]
        self.rows.add_((y - self.rows).mul_(weight.to(y.dtype)))


@dataclass(frozen=True)
class Moments(RowTensors):
    """The state of the optimiser of each row."""

    state: dict[str, Tensor]
    """Entries (S, P), advanced in place. Empty if the optimiser starts afresh and its state is not
    needed afterwards."""
    steps: Tensor
    """Steps that led to the state, broadcastable to (S, P): 0 where it is fresh."""


@dataclass(frozen=True)
class StepChanges(RowTensors):
    """What a method changes in the local steps."""

    parameter_fields = frozenset({"pull", "frozen"})

    pull: Tensor | None = None
    """a (P,) of a term a · (y − start) in every gradient, besides the optimiser's proximal one."""
    constant: Tensor | None = None
    """(S, P), added to every gradient."""
    step_offset: Tensor | None = None
    """(S, P), added to the rows after every step."""
    frozen: Tensor | None = None
    """Mask (P,) of parameters that stay as they are."""
    by_feature: Tensor | None = None
    """(S, K, W, B), the gradient of a further term in the loss by the `features` of the model. The
    losses that an engine returns are without the term."""
    layer: str = ""
    """Which features, see `Engine.hidden_features`."""


@dataclass(frozen=True)
class TrackedRows(RowTensors):
    """What is recorded over the steps, without an effect on them."""

    average: Average | None = None
    """Average of the rows."""
    gradients: Tensor | None = None
    """(S, P), which become the sums of the minibatch gradients, clipped, before any term."""


@dataclass(frozen=True)
class LocalWork(RowTensors):
    """The work of one round for S models that share a ClientOpt. Every local step is: gradient of
    the mean loss + proximal and `pull` terms + `constant`, through the optimiser, then
    `step_offset`; see `StepChanges`."""

    parameter_fields = frozenset({"shared_mask"})

    optimiser: ClientOpt
    rows: Tensor
    """Models (S, P) at the start of the round; trained in place."""
    minibatches: Minibatches
    moments: Moments
    shared_mask: Tensor
    """Mask (P,) of the shared parameters, on which the proximal term acts."""
    objective: Objective = SQUARED_ERROR
    """The loss of outputs and targets, and its factor."""
    clip: float | None = None
    """Largest norm of a minibatch gradient over the parameters that are trained; None: any."""
    steps: Tensor | None = None
    """Steps (S,) that each row takes, at most K; None: K."""
    changes: StepChanges = StepChanges()
    tracked_rows: TrackedRows = TrackedRows()

    @classmethod
    def fresh(
        cls,
        optimiser: ClientOpt,
        rows: Tensor,
        minibatches: Minibatches,
        shared_mask: Tensor,
        moments: dict[str, Tensor] | None = None,
    ) -> LocalWork:
        """Plain steps of a fresh optimiser on `rows`, in place, with new `moments` if None."""
        moments = optimiser.init(rows) if moments is None else moments
        no_steps = torch.zeros(len(rows), 1, dtype=torch.float64, device=rows.device)
        return cls(optimiser, rows, minibatches, Moments(moments, no_steps), shared_mask)

    def with_changes(self, **changes: Any) -> LocalWork:
        """This work with other `StepChanges`, by name."""
        return replace(self, changes=replace(self.changes, **changes))

    def with_state(self) -> LocalWork:
        """This work with a fresh state where it has none."""
        if self.moments.state:
            return self
        moments = replace(self.moments, state=self.optimiser.init(self.rows))
        return replace(self, moments=moments)

    @property
    def trained_tensors(self) -> list[Tensor]:
        """The tensors that an engine advances in place."""
        tracked, tensors = self.tracked_rows, [self.rows, *self.moments.state.values()]
        if tracked.average is not None:
            tensors.append(tracked.average.rows)
        if tracked.gradients is not None:
            tensors.append(tracked.gradients)
        return tensors

    def select(self, index: slice | Tensor) -> LocalWork:
        """The work of some rows: views for a slice, copies for a tensor of indices."""
        steps_before = self.moments.steps.expand(len(self.rows), -1)
        whole_work = replace(self, moments=replace(self.moments, steps=steps_before))
        return whole_work.map(lambda rows: rows[index])

    @classmethod
    def concat(cls, works: Sequence[LocalWork]) -> LocalWork:
        """One work for the rows of all `works`, which are otherwise equal."""
        first, *other_parts = works
        return first.map(lambda *rows: torch.cat(rows), *other_parts) if other_parts else first


class Engine(Protocol):
    """Trains and evaluates rows on one dataset."""

    device: torch.device
    dtype: torch.dtype

    @property
    def is_random(self) -> bool:
        """Whether its model draws random numbers in training, for which it needs
        `Minibatches.keys`."""

    def most_models(self, work: Callable[[], LocalWork]) -> int:
        """Most models to train in one call, given what makes the work of one of them. More would
        take more memory and be no faster."""

    def train(self, work: LocalWork) -> Tensor:
        """Run the K local steps of every row; returns the mean minibatch loss (S,), float64."""

    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        """Outputs (W,) or (W, O), in scaled units, of row s for the windows `starts[s]`."""

    def penultimate(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        """The inputs (W, D) of row s's last layer for its W windows `starts[s]`. Only of models
        that have features (`Model.features`)."""

    def hidden_features(self, rows: Tensor, minibatches: Minibatches, layer: str) -> Tensor:
        """Features (S, K, W, B) of each row for its K minibatches, as training computes them:
        `states`, the W hidden states of the LSTM, or `penultimate`, the inputs of the last layer.
        """
