"""Whether the keys of a study fit each other: all of `plfl.config.checks`, where they can judge.

A key whose value is invalid by itself has its default while the others are checked. This default is
not what the study means: the key is *unsure*, and no problem of it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plfl.config import checks
from plfl.config.search import KINDS, Candidate

if TYPE_CHECKING:  # a study checks itself
    from plfl.config.study import Study

Unsure = frozenset[str]
"""Keys of two parts at most, such as `data.source`, whose values are not those that a study
means."""


def problems(study: Study, unsure: Unsure) -> Iterator[str]:
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
    yield from checks.of_simulation(study.federation.simulation, study.data.clients)
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


def _of_data(study: Study, doubts: _Doubts) -> Iterator[str]:
    """The data, and the task with them."""
    data = study.data
    yield from checks.of_data(data)
    if not doubts.of("data.source", "task.name"):
        yield from checks.of_task(study.task.name, data)
    if data.is_images:
        yield from checks.of_images(data, study.windows, study.federation, study.tuning)
    if not doubts.of("data.source", "data.clients"):
        yield from checks.of_selection(data, study.federation)


def _of_training(study: Study, doubts: _Doubts) -> Iterator[str]:
    """The rounds, and the methods with the task."""
    yield from checks.of_local_work(study.federation)
    if not doubts.of("task.name"):
        yield from checks.of_loss(study.federation.loss, study.task)
        yield from checks.of_calibration(study.federation, study.task)
        methods = study.combinations.methods
        yield from checks.of_methods(methods, study.model, study.task, study.federation)


def _of_model(study: Study, doubts: _Doubts) -> Iterator[str]:
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
        yield from checks.of_sharing(study.sharing, study.layout)
        if not doubts.of("grid.refused"):
            yield from checks.of_schemes(study.grid, study.unshareable)


def _of_grid(study: Study, doubts: _Doubts) -> Iterator[str]:
    """The combinations of the grid, and what is tuned in them."""
    kinds = {kind for kind in KINDS if doubts.of(f"grid.{kind}")}
    if not (kinds or doubts.of("grid.refused")):
        yield from checks.of_combinations(study.grid, study.combinations.refused)
    yield from checks.of_paths(study.tuning, study.grid, kinds)
    yield from checks.of_values(study.tuning, study.combinations.algorithms)
    if _has_shape(study) and not (kinds or doubts.within("tuning")):
        yield from checks.of_budgets(study.tuning, _untuned_cells(study))


def _has_shape(study: Study) -> bool:
    """Whether it is known what the model returns.

    The number of classes follows from the images, that of other outputs from a task that fits.
    """
    return study.data.is_images or not any(checks.of_task(study.task.name, study.data))


def _untuned_cells(study: Study) -> dict[str, tuple[Candidate, bool]]:
    """The first cell of each combination: its algorithms, and whether clients train alone."""
    combinations = study.combinations
    first = {cell.combination: cell for cell in reversed(study.cells)}
    return {
        str(cell): (combinations.untuned(*names), study.is_alone(cell))
        for names, cell in first.items()
        if combinations.is_known(*names)
    }
