"""Training of the scarcity study, and the scores of what was trained."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl import federation
from plfl.audit import Load, Progress
from plfl.calibration import calibrate, head_mask
from plfl.data.windows import WEEK, Dataset
from plfl.errors import ConfigError, DataError
from plfl.experiment import federation_of, train
from plfl.fleet import Fleet
from plfl.forecaster import Forecaster
from plfl.methods.fedopt import FedOpt
from plfl.results import scores
from plfl.results.collect import SEASONS, describe_clients
from plfl.scarcity.comparison import CALIBRATED, CENTRALISED, PERSISTENCE, in_weeks
from plfl.study import Candidate, Cell, Study, Tuning
from plfl.training import Engine, LocalTask, batches, engine

WEEKS = (1, 2, 4, 8, 16, 40)
"""Histories of the study; 40 weeks are nearly all of the training part of a year."""


def measure(
    study: Study, load: Load, progress: Progress = lambda what, done, total: None
) -> pd.DataFrame:
    """Train the study's splits, and one model for all clients, at every history there is data for.

    Args:
        study: names one method, ClientOpt and ServerOpt; its splits and seeds are compared.
        load: makes the dataset of a state as a study's `data` and `windows` want it.
        progress: is told what is trained, how many rounds are done, and how many there are.

    Returns:
        Test MASE at the last round, one row a state, history, forecaster, model, seed and client:
        `state`, `weeks`, `forecaster` (a split, `centralised` or `calibrated`), `model` (`local`,
        `global`), `seed`, `client`, `mase`. Of `calibrated` the global model is the one that the
        client received, the local one that with a head of its own. The baselines `persistence`,
        `naive_day` and `naive_week` depend on neither history nor seed: there `weeks` and `seed`
        are empty and `model` is "baseline".

    Raises:
        ConfigError: the grid has more than one method, ClientOpt or ServerOpt, or there are late
            clients and scaling is pooled.
        DataError: the training part is shorter than the shortest history, no client can have a
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
    tables = [_baselines(state, dataset) for state, dataset in full.items()]
    for state in states:
        datasets = {}
        cells = [cell for cell in study.cells if cell.state == state]
        for weeks in histories[state]:
            what = f"{state}, {in_weeks([weeks])}"
            windows = study.windows.model_copy(update={"history": weeks})
            of_history = study.model_copy(update={"windows": windows})
            dataset = datasets[weeks] = load(of_history, state)
            trainings = [
                partial(_federated, of_history, cells, dataset),
                *(partial(_centralised, of_history, cells[0], s, dataset) for s in seeds),
            ]
            for training in trainings:
                found = training(partial(_tell, progress, what, done, total))
                tables.append(found.assign(state=state, weeks=weeks))
                done += rounds
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
        f"{state}: the training part has {available:.1f} weeks, less than the shortest history of "
        f"the scarcity study ({WEEKS[0]}); give longer series or a larger share in windows.split"
    )


def _baselines(state: str, dataset: Dataset) -> pd.DataFrame:
    clients = describe_clients(state, dataset)
    has_mase = clients["persistence_mae_test"] > 0
    if not has_mase.any():
        raise DataError(
            f"{state}: the load of no client ever changes in its test part, so there is no MASE; "
            "give longer series or a larger share of test in windows.split"
        )
    columns = {PERSISTENCE: has_mase.astype(float).where(has_mase)}
    columns |= {naive: clients[f"{naive}_mase_test"] for naive in SEASONS}
    table = pd.DataFrame(columns).assign(client=clients["client"], state=state)
    table = table.melt(["state", "client"], var_name="forecaster", value_name="mase")
    return table.assign(model="baseline", weeks=np.nan, seed=np.nan)


def _federated(
    study: Study, cells: list[Cell], dataset: Dataset, tell: Callable[[int], None]
) -> pd.DataFrame:
    results = train(study, cells, dataset, tell)
    records = pd.concat([result.records for result in results.values()], ignore_index=True)
    test = records[(records["split"] == "test") & (records["round"] == study.federation.rounds)]
    return test.rename(columns={"personalization": "forecaster"})[
        ["forecaster", "model", "seed", "client", "mase"]
    ]


def _centralised(
    study: Study, cell: Cell, seed: int, dataset: Dataset, tell: Callable[[int], None]
) -> pd.DataFrame:
    """One model on the windows of all clients, which sees as many of them as all clients together.

    Its optimiser is never reset, as is usual where nobody has to send anything.
    """
    forecaster = Forecaster.of(study.model, len(dataset.columns), dataset.look_back)
    machine = engine(study.compute, forecaster, dataset)
    settings, optimiser = study.federation, study.client_optimiser(cell)
    clients = len(dataset.clients)
    pooled = np.concatenate([dataset.starts(i, "train") for i in range(clients)])
    row = forecaster.initial(seed).to(machine.device, machine.dtype)[None].clone()
    state = optimiser.init(row)
    steps = clients * settings.local_steps
    for t in range(1, settings.rounds + 1):
        drawn = pooled[
            batches.draw(seed, "/centralised", t, len(pooled), steps, settings.batch_size)
        ]
        behind = torch.full((1, 1), (t - 1) * steps, dtype=torch.float64, device=machine.device)
        machine.train(
            LocalTask(
                optimiser=optimiser,
                rows=row,
                batches=torch.from_numpy(drawn)[None].to(machine.device),
                # Nothing is shared, so that no proximal term acts.
                shared=torch.zeros(row.shape[1], dtype=torch.bool, device=machine.device),
                state=state,
                steps_taken=behind,
            )
        )
        tell(t)
    table = _test_scores(machine, dataset, row.expand(clients, -1).contiguous())
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
    turns = -(-clients // max(1, round(share * clients)))
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
    forecaster = Forecaster.of(study.model, len(members.columns), members.look_back)
    machine = engine(study.compute, forecaster, members)
    fleet = Fleet(members, machine, study.federation, cell.seed)
    everything = study.model_copy(update={"personalization": {cell.personalization: ["*"]}})
    options = study.client_optimiser(cell), study.server_optimiser(cell)
    one = federation_of(everything, cell, Candidate(*options, FedOpt()), forecaster, fleet)
    rounds = range(1, study.federation.rounds + 1)
    federation.run([one], machine, study.federation, rounds, lambda finished: tell(finished.t))
    return one.global_models.mean(dim=0)


def _calibrated(
    study: Study, cell: Cell, model: torch.Tensor, histories: Mapping[int, Dataset]
) -> pd.DataFrame:
    """Scores of clients that got `model`, before and after they trained its head, by history."""
    tables = []
    for weeks, dataset in histories.items():
        forecaster = Forecaster.of(study.model, len(dataset.columns), dataset.look_back)
        machine = engine(study.compute, forecaster, dataset)
        fleet = Fleet(dataset, machine, study.federation, cell.seed)
        given = model.expand(len(dataset.clients), -1).contiguous()
        head = torch.from_numpy(head_mask(forecaster, study.scarcity.head)).to(machine.device)
        trained = calibrate(
            given,
            fleet,
            head,
            study.client_optimiser(cell),
            epochs=study.scarcity.epochs,
            most_steps=study.federation.rounds * study.federation.local_steps,
        )
        tables += [
            _test_scores(machine, dataset, rows).assign(model=kind, weeks=weeks)
            for kind, rows in (("local", trained), ("global", given))
        ]
    return pd.concat(tables, ignore_index=True).assign(forecaster=CALIBRATED, seed=cell.seed)


def _test_scores(machine: Engine, dataset: Dataset, rows: torch.Tensor) -> pd.DataFrame:
    """Test MASE of each client with its model of `rows` (N, P)."""
    starts = [dataset.starts(i, "test") for i in range(len(dataset.clients))]
    forecasts = machine.predict(rows, [torch.from_numpy(s).to(machine.device) for s in starts])
    mase = [
        scores.mase(
            dataset.load[dataset.target_rows(starts[i])],
            dataset.load_offset[i] + dataset.load_scale[i] * forecast.double().cpu().numpy(),
            dataset.load[dataset.persistence_rows(starts[i])],
        )
        for i, forecast in enumerate(forecasts)
    ]
    return pd.DataFrame({"client": dataset.clients.tolist(), "mase": mase})
