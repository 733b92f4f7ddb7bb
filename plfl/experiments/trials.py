"""The trials of a training job, and the choice among them on validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from plfl.config.search import Candidate, Values
from plfl.config.study import Cell
from plfl.experiments import tuning
from plfl.experiments.recorder import Recorder
from plfl.federated.federation import Federation
from plfl.results.records import MODELS, Model


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate of the cells that differ in nothing that matters."""

    cells: list[Cell]
    group: str
    """The same for all seeds of these cells."""
    candidate: Candidate
    federation: Federation
    recorder: Recorder

    def validation(self, t: int, model: Model) -> float:
        """See `Recorder.validation`."""
        return self.recorder.validation(t, model, self.federation.client_data.task)


def halved(trials: list[Trial], t: int) -> list[Trial]:
    """The better half of each group's candidates after round `t`, group by group."""
    kept: list[Trial] = []
    for tried in _groups(trials).values():
        better = tuning.better_half([_validation(tried, t, model) for model in MODELS])
        going_on = [list(tried)[i] for i in better]
        every = [trial for same in tried.values() for trial in same]
        kept += [trial for trial in every if trial.candidate.tuned in going_on]
    return kept


def chosen_values(trials: list[Trial], t: int) -> dict[str, dict[Model, Values]]:
    """What each group keeps for each model after round `t`, of what it has tried."""
    return {
        group: {model: list(tried)[tuning.least(_validation(tried, t, model))] for model in MODELS}
        for group, tried in _groups(trials).items()
    }


def best_groups(
    trials: list[Trial], kept: Mapping[str, Mapping[Model, Values]], t: int
) -> set[str]:
    """The group of each sharing scheme whose local models are best on validation after round `t`.

    Schemes in which nothing scored a finite error have none.

    Args:
        trials: those that were trained to the end.
        kept: see `chosen_values`.
        t: the round.
    """
    least: dict[str, tuple[float, str]] = {}
    for group, tried in _groups(trials).items():
        values = kept[group]["local"]
        (error,) = _validation({values: tried[values]}, t, "local")
        sharing = tried[values][0].cells[0].sharing
        if np.isfinite(error) and error < least.get(sharing, (np.inf, ""))[0]:
            least[sharing] = error, group
    return {group for _, group in least.values()}


def _groups(trials: list[Trial]) -> dict[str, dict[Values, list[Trial]]]:
    """The trials of each group by what was tried, one trial per seed."""
    found: dict[str, dict[Values, list[Trial]]] = {}
    for trial in trials:
        found.setdefault(trial.group, {}).setdefault(trial.candidate.tuned, []).append(trial)
    return found


def _validation(tried: Mapping[Values, list[Trial]], t: int, model: Model) -> list[float]:
    """Validation score after round `t` by what was tried, mean over clients and seeds."""
    return [
        float(np.mean([trial.validation(t, model) for trial in same])) for same in tried.values()
    ]
