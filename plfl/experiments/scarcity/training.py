"""Training of the scarcity study, and the scores of what was trained."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.base.errors import ConfigError, DataError
from plfl.base.rounding import drawn_of
from plfl.config.search import Candidate
from plfl.config.sections import Calibration, Tuning
from plfl.config.study import Cell, Study
from plfl.data.dataset import WEEK, Dataset
from plfl.data.meters.exports import Progress
from plfl.experiments.scarcity import baselines
from plfl.experiments.train import train
from plfl.experiments.trainer import Trainer
from plfl.federated.calibration import calibrate
from plfl.federated.round import run
from plfl.layout import head_mask
from plfl.methods.fedopt import FedOpt
from plfl.results.scarcity import CALIBRATED, CENTRALISED, in_weeks
from plfl.training import batches, schedule
from plfl.training.task import Average, LocalTask, Minibatches, Moments, Tracked

Load = Callable[[Study, str], Dataset]
WEEKS = (1, 2, 4, 8, 16, 40)
"""Histories of the study; 40 weeks are nearly all of the training set of a year."""


def measure(
    study: Study, load: Load, progress: Progress = lambda what, done, total: None
) -> pd.DataFrame:
    """Train the study's sharing schemes and one central model, at every history with enough data.

    Args:
        study: names one method, ClientOpt and ServerOpt; its schemes and seeds are compared.
        load: makes the dataset of a state as a study's `data` and `windows` require it.
        progress: called with what is trained, the rounds done and the rounds in all.

    Returns:
        Test MASE at the last round, one row per state, history, forecaster, model, seed and client:
        `state`, `weeks`, `forecaster` (a scheme, `centralised` or `calibrated`), `model` (`local`,
        `global`), `seed`, `client`, `mase`. Of `calibrated` the global model is the one that the
        client received, the local one that with a head of its own. Baselines have the `model`
        "baseline" and no `seed`; those of `baselines.naive` do not depend on the history either
        and have no `weeks`.

    Raises:
        ConfigError: the grid has more than one method, ClientOpt or ServerOpt, or there are late
            clients and scaling is pooled.
        DataError: the training set is shorter than the shortest history, no client can have a
            MASE, or see `load`.
    """
    study = _checked(study)
    rounds = study.federation.rounds
    states, seeds = study.data.states, study.grid.seeds
    full = {state: load(study, state) for state in states}
    histories = {state: _histories(state, dataset) for state, dataset in full.items()}
    groups = {state: _late(study, dataset) for state, dataset in full.items()}
    of_others = len(seeds) * sum(map(len, groups.values()))
    total = rounds * ((1 + len(seeds)) * sum(map(len, histories.values())) + of_others)
    done = 0
    tables = [_naive(state, dataset) for state, dataset in full.items()]
    for state in states:
        datasets = {}
        cells = [cell for cell in study.cells if cell.state == state]
        for weeks in histories[state]:
            what = f"{state}, {in_weeks([weeks])}"
            windows = study.windows.model_copy(update={"history": weeks})
            of_history = study.model_copy(update={"windows": windows})
            dataset = datasets[weeks] = load(of_history, state).refit()
            trainings = [
                partial(_federated, of_history, cells, dataset),
                *(partial(_centralised, of_history, cells[0], s, dataset) for s in seeds),
            ]
            for training in trainings:
                found = training(partial(_tell, progress, what, done, total))
                tables.append(found.assign(state=state, weeks=weeks))
                done += rounds
            tables.append(baselines.trained(dataset).assign(state=state, weeks=weeks))
        for late, seed in itertools.product(groups[state], seeds):
            cell = replace(cells[0], seed=seed)
            others = np.delete(np.arange(len(full[state].clients)), late)
            tell = partial(_tell, progress, f"{state}, late clients", done, total)
            model = _last_global(_among(study, others), cell, _part(full[state], others), tell)
            joined = {weeks: _part(dataset, late) for weeks, dataset in datasets.items()}
            tables.append(_calibrated(study, cell, model, joined).assign(state=state))
            done += rounds
    columns = ["state", "weeks", "forecaster", "model", "seed", "client", "mase"]
    return pd.concat(tables, ignore_index=True)[columns]


def _tell(progress: Progress, what: str, before: int, total: int, t: int) -> None:
    progress(what, before + t, total)


def _checked(study: Study) -> Study:
    grid = study.grid
    axes = {"method": grid.method, "client_opt": grid.client_opt, "server_opt": grid.server_opt}
    if problems := [
        f"grid.{axis}: {values} are {len(values)}, but the scarcity study takes a single one"
        for axis, values in axes.items()
        if len(values) > 1
    ]:
        raise ConfigError(study.name, problems)
    if study.federation.local_steps is None:
        problem = (
            "federation.local_epochs: would give histories of different lengths different steps; "
            "set federation.local_steps instead"
        )
        raise ConfigError(study.name, [problem])
    if study.scarcity.late and study.windows.scaling == "pooled":
        problem = (
            "windows.scaling: 'pooled' would tell a federation of the limits of clients that join "
            "after it; set per_client, or scarcity.late to 0"
        )
        raise ConfigError(study.name, [problem])
    last_only = study.federation.model_copy(update={"evaluate_every": study.federation.rounds})
    return study.model_copy(update={"federation": last_only, "tuning": Tuning()})


def _histories(state: str, dataset: Dataset) -> list[int]:
    """The `WEEKS` that every client has."""
    rows = int((dataset.bounds[:, 1] - dataset.bounds[:, 0]).min())
    available = rows * dataset.interval / WEEK
    if found := [weeks for weeks in WEEKS if weeks <= available]:
        return found
    raise DataError(
        f"{state}: the training set has {available:.1f} weeks, less than the shortest history of "
        f"the scarcity study ({WEEKS[0]}); give longer series or a larger fraction in windows.split"
    )


def _naive(state: str, dataset: Dataset) -> pd.DataFrame:
    table = baselines.naive(dataset)
    if table["mase"].isna().all():
        raise DataError(
            f"{state}: the load of no client ever changes in its test set, so there is no MASE; "
            "give longer series or a larger fraction of test in windows.split"
        )
    return table.assign(state=state, weeks=np.nan)


def _federated(
    study: Study, cells: list[Cell], dataset: Dataset, tell: Callable[[int], None]
) -> pd.DataFrame:
    results = train(study, cells, dataset, tell)
    records = pd.concat([result.records for result in results.values()], ignore_index=True)
    test = records[(records["split"] == "test") & (records["round"] == study.federation.rounds)]
    return test.rename(columns={"sharing": "forecaster"})[
        ["forecaster", "model", "seed", "client", "mase"]
    ]


def _centralised(
    study: Study, cell: Cell, seed: int, dataset: Dataset, tell: Callable[[int], None]
) -> pd.DataFrame:
    """One model on the windows of all clients, which sees as many of them as all clients together.

    Its optimiser is never reset, as is usual in centralised training.
    """
    trainer = Trainer.of(study, dataset)
    engine = trainer.engine
    settings, optimiser = study.federation, study.client_optimiser(cell)
    assert settings.local_steps is not None
    clients = len(dataset.clients)
    pooled = np.concatenate([dataset.starts(i, "train") for i in range(clients)])
    row = trainer.network.initial(seed).to(engine.device, engine.dtype)[None].clone()
    state = optimiser.init(row)
    steps = clients * settings.local_steps
    paced, averaged = settings.model_copy(update={"local_steps": steps}), row.clone()
    for t in range(1, settings.rounds + 1):
        drawn = pooled[
            batches.draw(seed, "/centralised", t, len(pooled), steps, settings.batch_size)
        ]
        behind = torch.full((1, 1), (t - 1) * steps, dtype=torch.float64, device=engine.device)
        average = None if settings.ema is None else Average(averaged, behind, settings.ema)
        engine.train(
            LocalTask(
                optimiser=optimiser,
                rows=row,
                minibatches=Minibatches(torch.from_numpy(drawn)[None].to(engine.device)),
                moments=Moments(state, behind),
                # Nothing is shared, so that no proximal term acts.
                shared=torch.zeros(row.shape[1], dtype=torch.bool, device=engine.device),
                objective=trainer.task.objective(settings.loss),
                clip=settings.clip,
                rates=schedule.factors(paced, t, 0, steps),
                tracked=Tracked(average),
            )
        )
        tell(t)
    row = row if settings.ema is None else averaged
    table = _test_scores(trainer, row.expand(clients, -1).contiguous())
    return table.assign(forecaster=CENTRALISED, model="global", seed=seed)


def _late(study: Study, dataset: Dataset) -> list[NDArray[np.int64]]:
    """Groups of clients that join late by turns: each client is in one of them.

    Raises:
        DataError: there is only one client.
    """
    clients, share = len(dataset.clients), study.scarcity.late
    if not share:
        return []
    if clients < 2:
        raise DataError(
            "scarcity.late: a client joins the federation of others, but there is only one; set it "
            "to 0, or raise data.clients"
        )
    turns = -(-clients // drawn_of(clients, share))
    return [np.arange(first, clients, turns) for first in range(turns)]


def _part(dataset: Dataset, clients: NDArray[np.int64]) -> Dataset:
    """Some clients of a dataset, which are scaled by themselves; the rows of others stay unused."""
    fields = ("clients", "bounds", "load_offset", "load_scale")
    return replace(dataset, **{name: getattr(dataset, name)[clients] for name in fields})


def _among(study: Study, clients: NDArray[np.int64]) -> Study:
    """The study of some of its clients by themselves."""
    simulation = study.federation.simulation.of(clients.tolist())
    federation = study.federation.model_copy(update={"simulation": simulation})
    return study.model_copy(update={"federation": federation})


def _last_global(
    study: Study, cell: Cell, members: Dataset, tell: Callable[[int], None]
) -> torch.Tensor:
    """Parameters (P,) that the server has after the last round of a federation that shares all.

    It is the plain round of the study's ClientOpt and ServerOpt on all the members' history; of a
    server that has a model for each member it is their mean.
    """
    everything = study.model_copy(update={"sharing": {cell.sharing: ["*"]}})
    trainer = Trainer.of(everything, members)
    options = study.client_optimiser(cell), study.server_optimiser(cell)
    one = trainer.federation(cell, Candidate(*options, FedOpt()))
    rounds = range(1, study.federation.rounds + 1)
    run([one], trainer.engine, rounds, lambda finished: tell(finished[0].t))
    return one.global_models.mean(dim=0)


def _calibrated(
    study: Study, cell: Cell, model: torch.Tensor, histories: Mapping[int, Dataset]
) -> pd.DataFrame:
    """Scores of clients that got `model`, before and after they trained its head, by history."""
    tables, settings = [], study.federation
    assert settings.local_steps is not None
    for weeks, dataset in histories.items():
        trainer = Trainer.of(study, dataset)
        engine = trainer.engine
        given = model.expand(len(dataset.clients), -1).contiguous()
        head = torch.from_numpy(head_mask(trainer.network.layout, study.scarcity.head))
        trained = calibrate(
            given,
            trainer.client_data(cell.seed),
            head.to(engine.device),
            study.client_optimiser(cell),
            Calibration(epochs=study.scarcity.epochs),
            most_steps=settings.rounds * settings.local_steps,
        )
        tables += [
            _test_scores(trainer, rows).assign(model=kind, weeks=weeks)
            for kind, rows in (("local", trained), ("global", given))
        ]
    return pd.concat(tables, ignore_index=True).assign(forecaster=CALIBRATED, seed=cell.seed)


def _test_scores(trainer: Trainer, rows: torch.Tensor) -> pd.DataFrame:
    """Test MASE of each client with its model of `rows` (N, P)."""
    engine, dataset, task = trainer.engine, trainer.series, trainer.task
    starts = [dataset.starts(i, "test") for i in range(len(dataset.clients))]
    found = engine.predict(rows, [torch.from_numpy(s).to(engine.device) for s in starts])
    mase = []
    for i, outputs in enumerate(found):
        loads = task.predictions(dataset, i, starts[i], outputs.double().cpu().numpy())
        mase.append(task.scores(dataset, i, "test", loads)["mase"])
    return pd.DataFrame({"client": dataset.clients.tolist(), "mase": mase})
