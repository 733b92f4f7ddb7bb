"""Train cells side by side on the datasets of their states, and record what happens."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.base.files import digest
from plfl.config.tuning import ROUNDS
from plfl.data.dataset import Dataset
from plfl.data.examples import Examples
from plfl.experiments.folds import Fold, FoldTraining, make_folds
from plfl.experiments.recorder import Recorder
from plfl.experiments.training_setup import TrainingSetup
from plfl.experiments.trials import Trial, TunedChoice, best_keys, choices
from plfl.federated.checkpoint import Checkpoint
from plfl.federated.clock import takes_time
from plfl.federated.federation import Federation
from plfl.federated.round import Round, run_rounds
from plfl.interfaces.method import ClusterState
from plfl.results.records import CELL, MODELS, CellResult, ModelKind, Models
from plfl.study import Cell, Study
from plfl.study.combinations import Candidate

log = logging.getLogger(__name__)


def train(
    study: Study,
    cells: Sequence[Cell],
    dataset: Examples | Mapping[str, Examples],
    progress: Callable[[int], None] = lambda t: None,
    checkpoint: Checkpoint | None = None,
) -> dict[Cell, CellResult]:
    """Train `cells` side by side.

    Cells with the same settings are trained once: if nothing is shared (P3) the ServerOpt has no
    effect, and all its cells report the same training. If hyperparameters are tuned, every
    candidate is trained for every seed among `cells`. One candidate is then chosen for the local
    models and one for the global models: the one with the least validation MASE at the last round,
    as a mean over the seeds.

    Args:
        study: the study.
        cells: some of its cells.
        dataset: the examples of their state, or of several states by name, in one table
            (`plfl.data.examples.on_one_table`).
        progress: called with the number of every finished round.
        checkpoint: the file from which an interrupted training continues, to the same bits.

    Returns:
        Records and forecasts of each cell. The best combination of each state and sharing scheme
        also has its trained models, and with the first seed their totals. The best one has the
        least validation MASE of the local models at the last round, as a mean over its seeds. Cells
        that repeat another cell's training have no models.

    >>> import plfl
    >>> data = {"source": "sample", "states": ["NY"], "clients": 2}
    >>> grid = {"sharing": ["P2"], "client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [1]}
    >>> raw = {"name": "mine", "data": data, "grid": grid, "model": {"name": "linear"}}
    >>> raw["federation"] = {"rounds": 1, "local_steps": 2}
    >>> raw["data"]["features"] = ["load"]
    >>> study = plfl.Study.parse(raw, "my program")
    >>> results = plfl.train(study, study.cells, plfl.load_dataset(study, "NY"))
    >>> [(str(cell), int(result.records["round"].max())) for cell, result in results.items()]
    [('NY-P2-fedopt-adam-fedavg-1', 1)]
    """
    torch.set_num_threads(study.compute.threads)
    state_examples = dataset
    if not isinstance(state_examples, Mapping):
        state_examples = dict.fromkeys([cell.state for cell in cells], state_examples)
    maker = _TrialMaker(
        TrainingSetup.for_study(study, next(iter(state_examples.values()))), state_examples
    )
    cells_by_settings: dict[str, list[Cell]] = {}
    for cell in cells:
        cells_by_settings.setdefault(study.plan.fingerprint(cell), []).append(cell)
    all_trials = [
        trial
        for equal_cells in cells_by_settings.values()
        for trial in maker.make_trials(equal_cells)
    ]
    _Training(maker.setup, all_trials, progress, checkpoint).run()
    last = study.federation.rounds
    choice_of_key = choices(all_trials, study.tuning.rounds or [last])
    best = best_keys(all_trials, choice_of_key)
    final_trials = (
        _retrain_chosen(maker, all_trials, choice_of_key, checkpoint)
        if study.plan.retrains
        else all_trials
    )
    results: dict[Cell, CellResult] = {}
    for equal_cells in cells_by_settings.values():
        trials = [trial for trial in all_trials if trial.cells is equal_cells]
        ends = {
            (trial.candidate.tuned_values, trial.last_round): trial
            for trial in final_trials
            if trial.cells is equal_cells
        }
        chosen_trials = {
            model: ends[choice.tuned_values, choice.rounds]
            for model, choice in choice_of_key[trials[0].repeats_key].items()
        }
        results |= _results(study, trials, chosen_trials, trials[0].repeats_key in best)
    return {cell: _with_totals(maker, cell, result) for cell, result in results.items()}


def _with_totals(maker: "_TrialMaker", cell: Cell, result: CellResult) -> CellResult:
    """The result of a cell, with totals if its models are kept for forecasts."""
    study = maker.study
    is_kept = study.task.forecasts and cell.seed == study.grid.seeds[0]
    if not (is_kept and result.models) or cell.sharing in study.plan.schemes.for_new:
        return result
    evaluator = replace(maker.setup, dataset=maker.state_examples[cell.state]).evaluator
    totals = evaluator.totals(cell.sharing, result.models.get("local"))
    return replace(result, totals=totals)


class _TrialMaker:
    """Makes the trials of cells. Trials with the same rounds share one training."""

    def __init__(self, setup: TrainingSetup, state_examples: Mapping[str, Examples]):
        """`state_examples`: the examples of each state, which the engine of the `setup` reads."""
        self.setup, self.study, self.state_examples = setup, setup.study, state_examples
        self._folds: dict[str, list[Fold]] = {}
        self._trainings_by_key: dict[str, list[FoldTraining]] = {}

    def make_trials(self, equal_cells: list[Cell]) -> list[Trial]:
        """Every candidate of `equal_cells`, which are cells with the same settings."""
        rounds = self.study.federation.rounds
        return [
            self.make_trial(equal_cells, values, rounds)
            for values in self.study.plan.candidates(equal_cells[0])
        ]

    def make_trial(self, equal_cells: list[Cell], candidate: Candidate, last_round: int) -> Trial:
        """A trial of a candidate of the `equal_cells`."""
        cell, study = equal_cells[0], self.study
        trained_candidate = candidate
        # Best models and widths depend on how the method scores; then methods share no rounds.
        if candidate.method and study.federation.keep == "last" and study.task.widening == "none":
            trained_candidate = replace(candidate, method=candidate.method.in_rounds())
        trains_alone = study.plan.trains_alone(cell)
        fold_key = f"{cell.state} {cell.sharing} {trains_alone}"
        if fold_key not in self._folds:
            setup = replace(self.setup, dataset=self.state_examples[cell.state])
            self._folds[fold_key] = list(make_folds(setup, cell))
        key = repr((fold_key, cell.seed, last_round, replace(trained_candidate, tuned_values=())))
        if key not in self._trainings_by_key:
            self._trainings_by_key[key] = [
                FoldTraining(cell, trained_candidate, fold) for fold in self._folds[fold_key]
            ]
        fold_trainings = self._trainings_by_key[key]
        return Trial(
            equal_cells,
            digest(study.plan.settings(cell) | {"cell": cell.state}),
            candidate,
            fold_trainings,
            [
                Recorder.for_clients(fold_training.dataset, study.federation)
                for fold_training in fold_trainings
            ],
            last_round,
        )


def _retrain_chosen(
    maker_of_choice: _TrialMaker,
    trials: list[Trial],
    choice_of_key: Mapping[str, Mapping[ModelKind, TunedChoice]],
    checkpoint: Checkpoint | None,
) -> list[Trial]:
    """The chosen candidates, trained again on the whole history for the chosen number of rounds.
    Their test scores are recorded for the last round. Their validation scores are those of the
    trainings in which they were chosen, round by round."""
    whole_histories = {
        state: examples.refit() if isinstance(examples, Dataset) else examples
        for state, examples in maker_of_choice.state_examples.items()
    }
    maker = _TrialMaker(maker_of_choice.setup, whole_histories)
    final_trials: dict[tuple[Cell, TunedChoice], Trial] = {}
    first_trials: dict[Trial, Trial] = {}
    for trial in trials:
        for choice in choice_of_key[trial.repeats_key].values():
            key = trial.cells[0], choice
            if trial.candidate.tuned_values == choice.tuned_values and key not in final_trials:
                final_trials[key] = maker.make_trial(trial.cells, trial.candidate, choice.rounds)
                first_trials[final_trials[key]] = trial
    _Training(
        maker.setup, list(final_trials.values()), lambda t: None, checkpoint, is_final=True
    ).run()
    for trial in final_trials.values():
        for recorder, choice_recorder in zip(
            trial.recorders, first_trials[trial].recorders, strict=True
        ):
            recorder.copy_validation(
                choice_recorder, trial.last_round, maker_of_choice.study.federation.rounds
            )
    return list(final_trials.values())


class _Training:
    """Trials that train side by side, with their recorders."""

    def __init__(
        self,
        setup: TrainingSetup,
        trials: list[Trial],
        progress: Callable[[int], None],
        checkpoint: Checkpoint | None,
        is_final: bool = False,
    ):
        """Prepare a job. `is_final`: whether it trains the chosen candidates again, each trial to
        its own last round; then it continues from the checkpoint of the choice."""
        self.setup, self.trials, self.running = setup, trials, trials
        self.study, self.settings = setup.study, setup.study.federation
        self.progress, self.checkpoint, self.is_final = progress, checkpoint, is_final
        chooses = self.study.plan.retrains and not is_final
        self.round_choices = self.study.tuning.rounds if chooses else []

    def run(self) -> None:
        """Train from round 1 or the checkpoint."""
        after = 0 if self.is_final else self._resume()
        for end in sorted({trial.last_round for trial in self.trials}):
            self.running = [trial for trial in self.trials if trial.last_round >= end]
            if after < end:
                federations = [
                    fold_training.federation for fold_training in self._running_trainings
                ]
                run_rounds(federations, self.setup.engine, range(after + 1, end + 1), self._report)
                after = end

    @property
    def _running_trainings(self) -> list[FoldTraining]:
        """The folds that train, each once."""
        return list(
            dict.fromkeys(
                fold_training for trial in self.running for fold_training in trial.fold_trainings
            )
        )

    def _checkpoint_content(
        self,
    ) -> tuple[list[Federation], list[list[pd.DataFrame]], list[Recorder]]:
        """The federation, the records and the recorder of each fold of each trial."""
        federations = [
            fold_training.federation
            for trial in self.trials
            for fold_training in trial.fold_trainings
        ]
        recorders = [recorder for trial in self.trials for recorder in trial.recorders]
        return federations, [recorder.tables for recorder in recorders], recorders

    def _resume(self) -> int:
        """Restore the checkpoint; the round after which it was saved, or 0."""
        if self.checkpoint is None:
            return 0
        federations, _, recorders = self._checkpoint_content()
        after, saved_records = self.checkpoint.load(federations)
        for f, recorder, saved_tables in zip(
            federations, recorders, saved_records, strict=after > 0
        ):
            # They were saved as one table, so each has the columns of all others, too.
            foreign = ["cluster"] if clusters_of(f) is None else []
            recorder.tables = [
                table.drop(columns=foreign, errors="ignore") for table in saved_tables
            ]
        return after

    def _report(self, finished_rounds: list[Round]) -> None:
        """Record a finished round, and save it if that is due."""
        rounds = dict(zip(self._running_trainings, finished_rounds, strict=True))
        for trial in self.running:
            for fold_training, recorder in zip(trial.fold_trainings, trial.recorders, strict=True):
                self._record(trial, fold_training, recorder, rounds[fold_training])
        t = finished_rounds[0].t
        self.progress(t)
        checkpoint = self.checkpoint
        if checkpoint and self.is_final and checkpoint.interrupted:
            raise KeyboardInterrupt
        if checkpoint and not self.is_final and t < self.settings.rounds and checkpoint.is_due():
            federations, records, _ = self._checkpoint_content()
            checkpoint.save(t, federations, records)

    def _is_scored(self, trial: Trial, t: int) -> bool:
        """Whether the models of a trial are scored after round `t`."""
        if self.is_final:
            return t == trial.last_round
        if self.round_choices:
            wished = self.settings.evaluate_every and self.settings.evaluates(t)
            return bool(wished) or t in self.round_choices or t == self.settings.rounds
        return self.settings.evaluates(t)

    def _record(
        self, trial: Trial, training: FoldTraining, recorder: Recorder, finished_round: Round
    ) -> None:
        """Record a finished round of a fold of a `trial`."""
        t, traffic, last = finished_round.t, finished_round.traffic, self.settings.rounds
        scored_as, evaluation = last if self.is_final else t, None
        if self._is_scored(trial, t):
            evaluation = training.score_round(trial.method, scored_as == last)
        if not training.has_joining_clients:
            recorder.record_training(
                t,
                finished_round.participants,
                finished_round.training_losses,
                finished_round.local_steps,
                traffic,
                finished_round.times if takes_time(self.settings.simulation) else None,
            )
        else:
            recorder.record_steps_of_others(t, finished_round.local_steps, traffic)
            traffic = training.join_traffic if evaluation is not None else traffic
            if evaluation is not None and scored_as == last:
                recorder.record_joining(last, traffic)
        if evaluation is not None:
            clusters = None if training.has_joining_clients else clusters_of(training.federation)
            recorder.record_scores(scored_as, evaluation, traffic, clusters)
            if scored_as == last:
                recorder.week, recorder.errors = evaluation.week(), evaluation.errors()


def _results(
    study: Study, trials: list[Trial], chosen_trials: Mapping[ModelKind, Trial], keeps_models: bool
) -> dict[Cell, CellResult]:
    """The tables of the cells that the `trials` belong to, given the choice for each model, and
    with `keeps_models` the trained models of the first of these cells."""
    cells, rounds = trials[0].cells, study.tuning.rounds
    described: dict[ModelKind, tuple[Candidate, Recorder]] = {}
    for model, trial in chosen_trials.items():
        candidate = trial.candidate
        if rounds:
            candidate = replace(
                candidate, tuned_values=(*candidate.tuned_values, (ROUNDS, trial.last_round))
            )
        if candidate.tuned_values:
            log.info("%s, %s models: %s", cells[0], model, candidate.text)
        described[model] = candidate, trial.recorder
    steps = sum(trial.recorder.steps for trial in trials)
    trains_alone, trial_count = study.plan.trains_alone(cells[0]), len(trials) * max(1, len(rounds))
    results = {cell: tables(cell, described, trains_alone, trial_count, steps) for cell in cells}
    if keeps_models:
        models_of_trial = {trial: trial.models() for trial in dict.fromkeys(chosen_trials.values())}
        models: Models = {
            model: models_of_trial[chosen_trials[model]][model]
            for model in MODELS
            if model in models_of_trial[chosen_trials[model]]
        }
        results[cells[0]] = replace(results[cells[0]], models=models)
    return results


def tables(
    cell: Cell,
    trained_models: Mapping[ModelKind, tuple[Candidate, Recorder]],
    trains_alone: bool,
    trial_count: int,
    steps: float,
) -> CellResult:
    """The tables of a cell: each model's scores, from the training that was chosen for it, and the
    chosen candidate. `trains_alone`: whether its clients train by themselves, so that there is no
    server rate; `steps`: local steps of all candidates."""
    records = pd.concat(
        [
            recorder.model_scores(model).assign(
                lr=candidate.client_opt.lr,
                server_lr=np.nan if trains_alone else candidate.server_opt.lr,
                hyperparameters=candidate.text,
            )
            for model, (candidate, recorder) in trained_models.items()
        ],
        ignore_index=True,
    ).assign(trials=trial_count, trial_steps=steps)
    week, other_week = (trained_models[model][1].week for model in MODELS)
    if other_week is not week and len(week):
        # The forecast itself and the ends of its intervals, see `LoadTask.columns`.
        own_columns = [name for name in other_week if str(name).startswith("global")]
        week = week.assign(**{str(name): other_week[name] for name in own_columns})
    errors = [
        recorder.errors[recorder.errors["model"] == model]
        for model, (_, recorder) in trained_models.items()
        if len(recorder.errors)
    ]
    by_day = pd.concat(errors, ignore_index=True) if errors else pd.DataFrame()
    return CellResult(
        _label_rows(cell, records), _label_rows(cell, week), _label_rows(cell, by_day)
    )


def clusters_of(f: Federation) -> NDArray[np.int64] | None:
    """Cluster of every client (N,), −1 for a client without one; None if the method has none."""
    return f.state.cluster.cpu().numpy() if isinstance(f.state, ClusterState) else None


def _label_rows(cell: Cell, table: pd.DataFrame) -> pd.DataFrame:
    labels = {name: getattr(cell, name) for name in CELL}
    return pd.concat([pd.DataFrame(labels, index=table.index), table], axis=1)
