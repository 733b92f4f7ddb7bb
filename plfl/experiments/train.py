"""Train a stack of cells on the dataset of their state and record what happens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.config.search import Candidate, Values
from plfl.config.study import Cell, Study
from plfl.data.examples import Examples
from plfl.data.images.dataset import ImageDataset
from plfl.experiments import tuning
from plfl.experiments.image_evaluation import ImageEvaluator
from plfl.experiments.recorder import Recorder
from plfl.experiments.trainer import Trainer
from plfl.federated.availability import takes_time
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
        dataset: the windows or images of their state.
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
    client_data = {seed: trainer.client_data(seed) for seed in study.grid.seeds}
    trials = running = [
        _Trial(
            same,
            digest(study.settings(same[0]) | {"cell": None}),
            candidate,
            trainer.federation(same[0], candidate, client_data[same[0].seed]),
            Recorder.of(client_data[same[0].seed].dataset, study.federation),
        )
        for same in twins.values()
        for candidate in study.candidates(same[0])
    ]
    evaluator = (
        ImageEvaluator(dataset, trainer.engine)
        if isinstance(dataset, ImageDataset)
        else trainer.evaluator
    )

    def report(finished: Round) -> None:
        t = finished.t
        evaluate = study.federation.evaluates(t) or t in study.rungs
        for i, (f, recorder) in enumerate((trial.federation, trial.recorder) for trial in running):
            times = finished.times[i] if takes_time(study.federation.simulation) else None
            page = finished.bytes[i]
            if evaluate:
                received = f.global_models if f.has_global else None
                examined = evaluator.examine(f, received, t == study.federation.rounds)
                further = f.channel.close_round()  # shared margins of intervals
                page = {kind: counts + further[kind] for kind, counts in page.items()}
            present, losses, steps = finished.present[i], finished.losses[i], finished.steps[i]
            recorder.train(t, present, losses, steps, page, times)
            if evaluate:
                recorder.evaluate(t, examined, page, clusters_of(f))
        progress(t)
        if checkpoint and t < study.federation.rounds and checkpoint.is_due():
            checkpoint.save(
                t,
                [trial.federation for trial in trials],
                [trial.recorder.parts for trial in trials],
            )

    after = 0
    if checkpoint:
        after, saved = checkpoint.load([trial.federation for trial in trials])
        for trial, parts in zip(trials, saved, strict=after > 0):
            # They were saved as one table, in which each has the columns of all others.
            foreign = ["cluster"] if clusters_of(trial.federation) is None else []
            trial.recorder.parts = [part.drop(columns=foreign, errors="ignore") for part in parts]
    for end in study.rungs:
        if after < end:
            alive = [trial.federation for trial in running]
            run(alive, trainer.engine, study.federation, range(after + 1, end + 1), report)
            after = end
        if end < study.federation.rounds:
            running = _halved(running, end)
    chosen = {
        group: _chosen(tried, study.federation.rounds) for group, tried in _groups(running).items()
    }
    best = _best(running, chosen, study.federation.rounds)
    results: dict[Cell, CellResult] = {}
    for same in twins.values():
        own = [trial for trial in trials if trial.cells is same]
        results |= _results(study, own, chosen[own[0].group], own[0].group in best)
    return results


@dataclass(frozen=True, eq=False)
class _Trial:
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


def _groups(trials: list[_Trial]) -> dict[str, dict[Values, list[_Trial]]]:
    """The trials of each group by what was tried, one trial per seed."""
    found: dict[str, dict[Values, list[_Trial]]] = {}
    for trial in trials:
        found.setdefault(trial.group, {}).setdefault(trial.candidate.tuned, []).append(trial)
    return found


def _validation(tried: dict[Values, list[_Trial]], t: int, model: Model) -> list[float]:
    """Validation score after round `t` by what was tried, mean over clients and seeds."""
    return [
        float(np.mean([trial.validation(t, model) for trial in same])) for same in tried.values()
    ]


def _halved(trials: list[_Trial], t: int) -> list[_Trial]:
    """The better half of each group's candidates after round `t`, group by group."""
    kept: list[_Trial] = []
    for tried in _groups(trials).values():
        better = tuning.better_half([_validation(tried, t, model) for model in MODELS])
        going_on = [list(tried)[i] for i in better]
        every = [trial for same in tried.values() for trial in same]
        kept += [trial for trial in every if trial.candidate.tuned in going_on]
    return kept


def _chosen(tried: dict[Values, list[_Trial]], t: int) -> dict[Model, Values]:
    """What is kept for each model of what a group has tried."""
    return {model: list(tried)[tuning.least(_validation(tried, t, model))] for model in MODELS}


def _best(trials: list[_Trial], chosen: Mapping[str, Mapping[Model, Values]], t: int) -> set[str]:
    """The group of each sharing scheme whose local models are best on validation after round `t`.

    Schemes in which nothing scored a finite error have none.
    """
    least: dict[str, tuple[float, str]] = {}
    for group, tried in _groups(trials).items():
        same = tried[chosen[group]["local"]]
        (error,) = _validation({chosen[group]["local"]: same}, t, "local")
        sharing = same[0].cells[0].sharing
        if np.isfinite(error) and error < least.get(sharing, (np.inf, ""))[0]:
            least[sharing] = error, group
    return {group for _, group in least.values()}


def _results(
    study: Study, own: list[_Trial], chosen: Mapping[Model, Values], keeps: bool
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
        rows["local"] = own.best["rows"] if own.keeps_best else own.own_models()
    if received.has_global:
        rows["global"] = received.global_models
    return {
        model: rows[model].cpu().numpy().astype(np.float32) for model in MODELS if model in rows
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
