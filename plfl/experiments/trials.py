"""The trials of a training job, and the choice among them on validation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from plfl.experiments.folds import FoldTraining
from plfl.experiments.recorder import Recorder
from plfl.interfaces.method import Method
from plfl.results.best import lowest
from plfl.results.records import MODELS, ModelKind, Models
from plfl.study import Cell
from plfl.study.combinations import Candidate, TunedValues


@dataclass(frozen=True)
class TunedChoice:
    """The choice for one model, made on validation."""

    tuned_values: TunedValues
    """The chosen values of the tuned hyperparameters."""
    rounds: int
    """The chosen number of rounds."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate of cells with the same settings."""

    cells: list[Cell]
    repeats_key: str
    """A key that is the same for all seeds of these cells."""
    candidate: Candidate
    fold_trainings: list[FoldTraining]
    """The trainings of the folds of the cells. Trials with the same rounds share these objects."""
    recorders: list[Recorder]
    """One recorder for each fold."""
    last_round: int
    """The last round."""

    @property
    def method(self) -> Method:
        """The method by which the clients forecast."""
        return self.candidate.method or self.fold_trainings[0].federation.method

    @property
    def recorder(self) -> Recorder:
        """The records of all folds."""
        return Recorder.concatenate(self.recorders)

    def validation(self, t: int, model: ModelKind) -> float:
        """The validation score by which the task selects, after round `t`, as a mean over the
        clients of all folds that have one; ∞ if a prediction of any client is not finite."""
        task = self.fold_trainings[0].federation.client_data.task
        rows = pd.concat([recorder.validation(t, model, task) for recorder in self.recorders])
        is_finite = np.isfinite(rows[task.own_choosing_score]).all()
        return float(rows[task.choosing_score].mean()) if is_finite else np.inf

    def models(self) -> Models:
        """The models of all clients, as they are written to files for `plfl forecast`."""
        models = [fold_training.models(self.method) for fold_training in self.fold_trainings]
        order = [fold_training.fold.client_indices for fold_training in self.fold_trainings]
        if len(models) == 1:
            return models[0]
        place = np.argsort(np.concatenate([numbers for numbers in order if numbers is not None]))
        return {
            model: np.concatenate([fold_models[model] for fold_models in models])[place]
            for model in MODELS
            if all(model in fold_models for fold_models in models)
        }


def choices(trials: list[Trial], rounds: Sequence[int]) -> dict[str, dict[ModelKind, TunedChoice]]:
    """The choice for each `repeats_key` and model, among the candidates and numbers of `rounds`; if
    all diverged, the first."""
    choice_of_key: dict[str, dict[ModelKind, TunedChoice]] = {}
    for repeats_key, trials_by_values in _repeated_trials(trials).items():
        for model in MODELS:
            errors = {
                TunedChoice(values, t): _mean_validation(trials_of_values, t, model)
                for t in rounds
                for values, trials_of_values in trials_by_values.items()
            }
            choice = lowest(errors) or next(iter(errors))
            choice_of_key.setdefault(repeats_key, {})[model] = choice
    return choice_of_key


def best_keys(
    trials: list[Trial], choice_of_key: Mapping[str, Mapping[ModelKind, TunedChoice]]
) -> set[str]:
    """The `repeats_key` of each state and sharing scheme whose local models are best on validation,
    given all trials. A scheme without any finite score has none. `choice_of_key`: see `choices`."""
    errors_of: dict[tuple[str, str], dict[str, float]] = {}
    for repeats_key, trials_by_values in _repeated_trials(trials).items():
        choice = choice_of_key[repeats_key]["local"]
        chosen_trials = trials_by_values[choice.tuned_values]
        cell = chosen_trials[0].cells[0]
        errors = errors_of.setdefault((cell.state, cell.sharing), {})
        errors[repeats_key] = _mean_validation(chosen_trials, choice.rounds, "local")
    return {key for errors in errors_of.values() if (key := lowest(errors)) is not None}


def _repeated_trials(trials: list[Trial]) -> dict[str, dict[TunedValues, list[Trial]]]:
    """The trials by `repeats_key` and candidate, one per seed."""
    trials_by_key: dict[str, dict[TunedValues, list[Trial]]] = {}
    for trial in trials:
        trials_by_values = trials_by_key.setdefault(trial.repeats_key, {})
        trials_by_values.setdefault(trial.candidate.tuned_values, []).append(trial)
    return trials_by_key


def _mean_validation(trials: Sequence[Trial], t: int, model: ModelKind) -> float:
    """Validation score of a candidate after round `t`, mean over clients and seeds."""
    return float(np.mean([trial.validation(t, model) for trial in trials]))
