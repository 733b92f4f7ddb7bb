"""The trials of a training job, and the choice among them on validation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from plfl.experiments.parts import CellPart
from plfl.experiments.recorder import Recorder
from plfl.methods import Method
from plfl.results.records import MODELS, Model, Models
from plfl.study import Cell
from plfl.study.combinations import Candidate, Values


@dataclass(frozen=True)
class TunedChoice:
    """The choice for one model, made on validation."""

    tuned: Values
    """The chosen values of the tuned hyperparameters."""
    rounds: int
    """The chosen number of rounds."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate of cells with the same settings."""

    cells: list[Cell]
    group: str
    """A key that is the same for all seeds of these cells."""
    candidate: Candidate
    parts: list[CellPart]
    """The parts of the cells. Trials whose rounds are the same share these objects."""
    recorders: list[Recorder]
    """One recorder for each part."""
    until: int
    """The last round."""

    @property
    def method(self) -> Method:
        """The method by which the clients forecast."""
        return cast(Method, self.candidate.method or self.parts[0].federation.method)

    @property
    def recorder(self) -> Recorder:
        """The records of all parts."""
        return Recorder.joined(self.recorders)

    def validation(self, t: int, model: Model) -> float:
        """Mean validation score over all clients after round `t`, see `Recorder.validation`."""
        task = self.parts[0].federation.client_data.task
        scores = [recorder.validation(t, model, task) for recorder in self.recorders]
        if len(scores) == 1:
            return scores[0]
        return float(np.average(scores, weights=[len(r.clients) for r in self.recorders]))

    def models(self) -> Models:
        """The models of all clients, as they are written to files for `plfl forecast`."""
        models = [part.models(self.method) for part in self.parts]
        order = [part.plan.numbers for part in self.parts]
        if len(models) == 1:
            return models[0]
        place = np.argsort(np.concatenate([some for some in order if some is not None]))
        return {
            model: np.concatenate([of[model] for of in models])[place]
            for model in MODELS
            if all(model in of for of in models)
        }


def choices(trials: list[Trial], rounds: Sequence[int]) -> dict[str, dict[Model, TunedChoice]]:
    """The choice of each group for each model, among its candidates and numbers of `rounds`."""
    chosen: dict[str, dict[Model, TunedChoice]] = {}
    for group, tried in _groups(trials).items():
        every = [TunedChoice(values, t) for t in rounds for values in tried]
        for model in MODELS:
            scores = [score for t in rounds for score in _validation(tried, t, model)]
            chosen.setdefault(group, {})[model] = every[least(scores)]
    return chosen


def best_groups(trials: list[Trial], kept: Mapping[str, Mapping[Model, TunedChoice]]) -> set[str]:
    """The group of each state and sharing scheme whose local models are best on validation, given
    all trials. A scheme without any finite score has none. `kept`: see `choices`."""
    least: dict[tuple[str, str], tuple[float, str]] = {}
    for group, tried in _groups(trials).items():
        chosen = kept[group]["local"]
        values = chosen.tuned
        (error,) = _validation({values: tried[values]}, chosen.rounds, "local")
        cell = tried[values][0].cells[0]
        of = cell.state, cell.sharing
        if np.isfinite(error) and error < least.get(of, (np.inf, ""))[0]:
            least[of] = error, group
    return {group for _, group in least.values()}


def _groups(trials: list[Trial]) -> dict[str, dict[Values, list[Trial]]]:
    """The trials of each group by their candidate, one trial per seed."""
    groups: dict[str, dict[Values, list[Trial]]] = {}
    for trial in trials:
        groups.setdefault(trial.group, {}).setdefault(trial.candidate.tuned, []).append(trial)
    return groups


def _validation(tried: Mapping[Values, list[Trial]], t: int, model: Model) -> list[float]:
    """Validation score after round `t` by candidate, mean over clients and seeds."""
    return [
        float(np.mean([trial.validation(t, model) for trial in same])) for same in tried.values()
    ]


def least(scores: Iterable[float]) -> int:
    """The candidate with the least score; the first one if no score is finite."""
    values = np.array(list(scores))
    return int(np.where(np.isnan(values), np.inf, values).argmin())
