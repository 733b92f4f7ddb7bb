"""Train a stack of cells on the dataset of their state and record what happens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.config.search import Candidate, Values
from plfl.config.study import Cell, Study
from plfl.data.examples import Examples
from plfl.experiments.recorder import Recorder
from plfl.experiments.trainer import Trainer
from plfl.experiments.trials import Trial, best_groups, chosen_values, halved
from plfl.federated.availability import takes_time
from plfl.federated.channel import total
from plfl.federated.checkpoint import Checkpoint
from plfl.federated.federation import Federation
from plfl.federated.round import Round, run
from plfl.files import digest
from plfl.methods.clusters import ClusterState
from plfl.results.records import CELL, MODELS, CellResult, Model, Models

log = logging.getLogger(__name__)


def train(
    study: Study,
    cells: Sequence[Cell],
    dataset: Examples,
    progress: Callable[[int], None] = lambda t: None,
    checkpoint: Checkpoint | None = None,
) -> dict[Cell, CellResult]:
    """Train `cells`, all of one state, side by side.

    Cells with the same settings are trained once: if nothing is shared (P3) the ServerOpt has no
    effect, and all its cells report the same training. If hyperparameters are tuned, every
    candidate is trained for every seed among `cells`; each scored model, local and global, reports
    the candidate of least validation MASE at the last round, mean over the seeds.

    Args:
        study: the study.
        cells: some of its cells.
        dataset: the examples of their state.
        progress: called with the number of every finished round.
        checkpoint: where an interrupted training goes on; it gives the same bits.

    Returns:
        Records and forecasts of each cell. Of each sharing scheme, the combination with the least
        validation MASE of the local models at the last round, mean over its seeds, has its models,
        too; cells that repeat the same training have none.
    """
    torch.set_num_threads(study.compute.threads)
    trainer = Trainer.of(study, dataset)
    twins: dict[str, list[Cell]] = {}
    for cell in cells:
        twins.setdefault(digest(study.settings(cell)), []).append(cell)
    job = _Job(trainer, _trials(trainer, list(twins.values())), progress, checkpoint)
    finished, last = job.run(), study.federation.rounds
    kept = chosen_values(finished, last)
    best = best_groups(finished, kept, last)
    results: dict[Cell, CellResult] = {}
    for same in twins.values():
        own = [trial for trial in job.trials if trial.cells is same]
        results |= _results(study, own, kept[own[0].group], own[0].group in best)
    return results


def _trials(trainer: Trainer, twins: list[list[Cell]]) -> list[Trial]:
    """Every candidate of the `twins`, which are cells with the same settings."""
    study = trainer.study
    client_data = {seed: trainer.client_data(seed) for seed in study.grid.seeds}
    return [
        Trial(
            same,
            digest(study.settings(same[0]) | {"cell": None}),
            candidate,
            trainer.federation(same[0], candidate, client_data[same[0].seed]),
            Recorder.of(client_data[same[0].seed].dataset, study.federation),
        )
        for same in twins
        for candidate in study.candidates(same[0])
    ]


class _Job:
    """Trials that train side by side, and what records them."""

    def __init__(
        self,
        trainer: Trainer,
        trials: list[Trial],
        progress: Callable[[int], None],
        checkpoint: Checkpoint | None,
    ):
        self.trainer, self.trials, self.running = trainer, trials, trials
        self.settings = trainer.study.federation
        self.progress, self.checkpoint = progress, checkpoint
        self.evaluator = trainer.examiner

    def run(self) -> list[Trial]:
        """Train from round 1 or from the checkpoint on; the trials that reach the last round."""
        after = self._resume()
        for end in self.trainer.study.rungs:
            if after < end:
                federations = [trial.federation for trial in self.running]
                rounds = range(after + 1, end + 1)
                run(federations, self.trainer.engine, rounds, self._report)
                after = end
            if end < self.settings.rounds:
                self.running = halved(self.running, end)
        return self.running

    def _resume(self) -> int:
        """Take up the checkpoint; the round that it was saved after, or 0."""
        if self.checkpoint is None:
            return 0
        after, saved = self.checkpoint.load([trial.federation for trial in self.trials])
        for trial, parts in zip(self.trials, saved, strict=after > 0):
            # They were saved as one table, in which each has the columns of all others.
            foreign = ["cluster"] if clusters_of(trial.federation) is None else []
            trial.recorder.parts = [part.drop(columns=foreign, errors="ignore") for part in parts]
        return after

    def _report(self, finished: list[Round]) -> None:
        """Record a finished round, and save it if that is due."""
        for trial, own in zip(self.running, finished, strict=True):
            self._record(trial, own)
        t = finished[0].t
        self.progress(t)
        checkpoint = self.checkpoint
        if checkpoint and t < self.settings.rounds and checkpoint.is_due():
            checkpoint.save(
                t,
                [trial.federation for trial in self.trials],
                [trial.recorder.parts for trial in self.trials],
            )

    def _record(self, trial: Trial, finished: Round) -> None:
        """Record a finished round of `trial`."""
        f, t, traffic = trial.federation, finished.t, finished.traffic
        examined = None
        if self.settings.evaluates(t) or t in self.trainer.study.rungs:
            received = f.global_models if f.has_global else None
            examined = self.evaluator.examine(f, received, t == self.settings.rounds)
            traffic = total(traffic, f.channel.close_round())  # shared margins of intervals
        times = finished.times if takes_time(self.settings.simulation) else None
        trial.recorder.train(t, finished.present, finished.losses, finished.steps, traffic, times)
        if examined is not None:
            trial.recorder.evaluate(t, examined, traffic, clusters_of(f))
            if t == self.settings.rounds:
                trial.recorder.week = examined.week()


def _results(
    study: Study, own: list[Trial], chosen: Mapping[Model, Values], keeps: bool
) -> dict[Cell, CellResult]:
    """The tables of the cells that the trials `own` belong to, given the values chosen for them.

    If it `keeps` them, the first of these cells has the models, too.
    """
    cells = own[0].cells
    of_models = {
        model: next(trial for trial in own if trial.candidate.tuned == values)
        for model, values in chosen.items()
    }
    if len(own) > 1:
        for model, trial in of_models.items():
            log.info("%s, %s models: %s", cells[0], model, trial.candidate.text)
    trained = {model: (trial.candidate, trial.recorder) for model, trial in of_models.items()}
    steps = sum(trial.recorder.steps for trial in own)
    alone = study.is_alone(cells[0])
    results = {cell: tables(cell, trained, alone, len(own), steps) for cell in cells}
    if keeps:
        federations = {model: trial.federation for model, trial in of_models.items()}
        results[cells[0]] = replace(results[cells[0]], models=_models(federations))
    return results


def _models(federations: Mapping[Model, Federation]) -> Models:
    """The models that were scored in the last round, as their users get them."""
    own, received = (federations[model] for model in MODELS)
    rows = {}
    if not own.method.mixes:  # what such clients forecast with is no model
        rows["local"] = own.best.rows if own.best else own.own_models()
    if received.has_global:
        rows["global"] = received.global_models
    return {
        model: rows[model].cpu().numpy().astype(np.float32, order="C")
        for model in MODELS
        if model in rows
    }


def tables(
    cell: Cell,
    trained: Mapping[Model, tuple[Candidate, Recorder]],
    alone: bool,
    trials: int,
    steps: float,
) -> CellResult:
    """The tables of a cell: each model's scores from the training that was chosen for it.

    Args:
        cell: the cell.
        trained: for each model, the candidate that was chosen and what was recorded of it.
        alone: whether its clients train by themselves.
        trials: number of candidates that were tried.
        steps: local steps of all of them.
    """
    records = pd.concat(
        [
            recorder.of_model(model).assign(**_described(candidate, alone))
            for model, (candidate, recorder) in trained.items()
        ],
        ignore_index=True,
    ).assign(trials=trials, trial_steps=steps)
    week, other = (trained[model][1].week for model in MODELS)
    if other is not week and len(week):
        week = week.assign(**{"global": other["global"]})
    return CellResult(_labelled(cell, records), _labelled(cell, week))


def _described(candidate: Candidate, alone: bool) -> dict[str, Any]:
    """The columns of records that say what a training was given; no server rate without one."""
    return {
        "lr": candidate.client_opt.lr,
        "server_lr": float("nan") if alone else candidate.server_opt.lr,
        "hyperparameters": candidate.text,
    }


def clusters_of(f: Federation) -> NDArray[np.int64] | None:
    """Cluster of every client (N,), −1 for a client without one; None if the method has none."""
    return f.state.cluster.cpu().numpy() if isinstance(f.state, ClusterState) else None


def _labelled(cell: Cell, table: pd.DataFrame) -> pd.DataFrame:
    labels = {name: getattr(cell, name) for name in CELL}
    return pd.concat([pd.DataFrame(labels, index=table.index), table], axis=1)
