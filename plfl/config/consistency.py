"""Whether the keys of a study fit each other: runs the checks of `plfl.config.checks`.

A key whose value is invalid by itself has its default while the others are checked. Such a key is
*unsure*: checks that read it are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from plfl.config import checks, privacy
from plfl.config.combinations import Combinations
from plfl.config.model_rules import ModelRules
from plfl.config.search import KINDS, Candidate
from plfl.config.sections import Channel, Compute, Data, Federation, Grid, Scheme, Tuning, Windows
from plfl.config.task_rules import TaskRules
from plfl.layout import ParameterLayout, WindowShape

Unsure = frozenset[str]
"""Keys of at most two parts, such as `data.source`, whose own values are invalid."""


class Checked(Protocol):
    """The parts of a `Study` that these checks read.

    `Study` calls the checks, so this module cannot import it.
    """

    @property
    def data(self) -> Data: ...
    @property
    def windows(self) -> Windows: ...
    @property
    def task(self) -> TaskRules: ...
    @property
    def model(self) -> ModelRules: ...
    @property
    def sharing(self) -> Mapping[str, object]: ...
    @property
    def shared(self) -> Mapping[str, list[str]]: ...
    @property
    def schemes(self) -> Mapping[str, Scheme]: ...
    @property
    def chooses_in_history(self) -> bool: ...
    @property
    def grid(self) -> Grid: ...
    @property
    def federation(self) -> Federation: ...
    @property
    def channel(self) -> Channel: ...
    @property
    def tuning(self) -> Tuning: ...
    @property
    def compute(self) -> Compute: ...
    @property
    def combinations(self) -> Combinations: ...
    @property
    def unshareable(self) -> Mapping[tuple[str, str], str]: ...
    @property
    def untuned(self) -> Mapping[str, tuple[Candidate, bool]]: ...
    @property
    def window_shape(self) -> WindowShape: ...
    @property
    def layout(self) -> ParameterLayout: ...


def problems(study: Checked, unsure: Unsure) -> Iterator[str]:
    """Problems of keys that do not fit each other, without those that are about an `unsure` key."""
    doubts = _Doubts(unsure)
    schemes = study.grid.sharing if doubts.within("sharing") else study.sharing
    yield from checks.of_grid(study.grid, schemes)
    yield from _of_data(study, doubts)
    yield from _of_training(study, doubts)
    yield from checks.of_windows(study.windows)
    yield from checks.of_context(study.windows, study.data)
    yield from checks.of_sharing_names(study.sharing)
    yield from _of_model(study, doubts)
    yield from checks.of_history(
        study.chooses_in_history, study.data, study.task, study.federation, study.tuning
    )
    yield from checks.of_joining(study.schemes, study.data, study.windows, study.federation)
    yield from checks.of_simulation(study.federation.simulation, study.data)
    yield from _of_grid(study, doubts)


@dataclass(frozen=True)
class _Doubts:
    """The keys that are unsure."""

    keys: Unsure

    def of(self, *keys: str) -> bool:
        """Whether any of these keys, or the block of one, is unsure."""
        return any(key in self.keys or key.split(".")[0] in self.keys for key in keys)

    def within(self, block: str) -> bool:
        """Whether anything in a block is unsure."""
        return any(key.split(".")[0] == block for key in self.keys)


def _of_data(study: Checked, doubts: _Doubts) -> Iterator[str]:
    """The data, and the task with them."""
    data = study.data
    yield from checks.of_data(data)
    if doubts.of("data.source", "task.name"):
        return
    if misfits := list(checks.of_task(study.task, data)):
        yield from misfits
    elif not doubts.of("data.clients"):
        yield from study.task.problems(data, study.windows, study.federation, study.tuning)
        yield from checks.of_selection(study.task, data, study.federation)


def _of_training(study: Checked, doubts: _Doubts) -> Iterator[str]:
    """The rounds, and the methods with the task."""
    yield from checks.of_local_work(study.federation)
    yield from checks.of_rates(study.combinations.algorithms, study.federation)
    if not doubts.of("data.clients"):
        yield from privacy.problems(study.federation, study.data, study.combinations.algorithms)
    if not doubts.of("task.name"):
        yield from checks.of_loss(study.federation.loss, study.task)
        yield from checks.of_calibration(study.federation, study.task)
        methods = study.combinations.methods
        yield from checks.of_methods(methods, study.model, study.task, study.federation)
        if not doubts.within("channel"):
            yield from checks.of_channel(study.channel, methods)


def _of_model(study: Checked, doubts: _Doubts) -> Iterator[str]:
    """The model, and the sharing schemes, which name its parameters."""
    if doubts.within("model"):
        return
    yield from checks.of_target(study.windows, study.model)
    yield from checks.of_engine(study.compute, study.model)
    if doubts.of("data.source") or not _has_shape(study):
        return
    broken = study.model.problems(study.window_shape)
    yield from broken
    if not broken:
        yield from checks.of_sharing(study.shared, study.layout)
        if study.federation.privacy.clip is not None:
            yield from privacy.of_schemes(study.grid, study.shared, study.schemes)
        if not doubts.of("grid.refused"):
            yield from checks.of_schemes(study.grid, study.unshareable)


def _of_grid(study: Checked, doubts: _Doubts) -> Iterator[str]:
    """The combinations of the grid, and what is tuned in them."""
    kinds = {kind for kind in KINDS if doubts.of(f"grid.{kind}")}
    if not (kinds or doubts.of("grid.refused")):
        yield from checks.of_combinations(study.grid, study.combinations.refused)
    yield from checks.of_paths(study.tuning, study.grid, kinds)
    yield from checks.of_values(study.tuning, study.combinations.algorithms)
    if _has_shape(study) and not (kinds or doubts.within("tuning")):
        yield from checks.of_budgets(study.tuning, study.untuned)


def _has_shape(study: Checked) -> bool:
    """Whether it is known what the model reads and returns."""
    return not any(checks.of_task(study.task, study.data))
