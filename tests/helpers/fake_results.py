"""Writes a results folder of synthetic numbers in the form that `plfl.results` writes real ones."""

import json
import shutil
import tempfile
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.baselines import catalogue
from plfl.config.study import Cell, Study
from plfl.federated.availability import takes_time
from plfl.results.records import MODELS
from tests.helpers.constructed import store

PAPER: dict[str, Any] = {"name": "paper"}
"""The paper's grid: 3 states, 3 splits, 4 ClientOpts, 5 ServerOpts, 12 clients."""

TINY: dict[str, Any] = {
    "name": "tiny",
    "data": {"source": "sample", "states": ["CA"], "clients": 2},
    "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"]},
    "federation": {"rounds": 2, "evaluate_every": 1},
}
"""The smallest study there is: one state, one optimiser each, two rounds."""

SMALL: dict[str, Any] = {
    "name": "small",
    "data": {"source": "sample", "clients": 3},
    "grid": {"client_opt": ["adam", "prox"], "server_opt": ["fedavg", "fedavgadaptive"]},
    "federation": {"rounds": 4, "evaluate_every": 2},
}
"""The paper's states and splits with few optimisers and clients."""

LONG: dict[str, Any] = {
    "name": "long-names",
    "data": {
        "source": "meters",
        "states": ["Nordrhein_Westfalen_Mittelspannung", "NA"],
        "clients": 1,
    },
    "sharing": {
        "encoder_and_the_first_dense_layer": ["lstm.weight_*", "lstm.bias_*", "mlp.0.*"],
        "everything_is_shared_in_this_one": ["*"],
        "none": [],
    },
    "grid": {
        "sharing": [
            "encoder_and_the_first_dense_layer",
            "everything_is_shared_in_this_one",
            "none",
        ]
    },
    "federation": {"rounds": 3, "evaluate_every": 1},
}
"""Names that are long, or that a careless reader of tables takes for something else."""

METERS: dict[str, Any] = {
    "name": "own-meters",
    "data": {
        "source": "meters",
        "states": ["Nord", "Sued", "Ost"],
        "clients": 3,
        "meters": {"interval": 60},
    },
    "sharing": {"head": ["lstm.*", "mlp.0.*"], "alone": []},
    "grid": {
        "client_opt": ["sgd", "adam"],
        "server_opt": ["fedavgm", "fedyogi"],
        "sharing": ["head", "alone"],
        "seeds": [1, 2],
    },
    "federation": {"rounds": 7, "evaluate_every": 3},
}
"""Own meters: three named regions, own splits, two seeds, hourly readings."""

AUTHORS: dict[str, Any] = {
    "name": "authors",
    "data": {"source": "sample", "states": ["CA"], "clients": 2},
    "grid": {
        "method": ["authors_code"],
        "client_opt": ["prox"],
        "server_opt": ["fedavg", "fedadam"],
    },
    "federation": {"rounds": 2, "evaluate_every": 1},
}
"""The program of the paper's authors, whose P3 has a server too."""

METHODS: dict[str, Any] = {
    "name": "methods",
    "data": {"source": "sample", "states": ["CA", "IL"], "clients": 3},
    "grid": {
        "method": [
            "fedopt",
            "fedprox",
            "scaffold",
            "feddyn",
            "moon",
            "ifca",
            "fedac",
            "fedeff",
        ],
        "client_opt": ["sgd"],
        "server_opt": ["fedavg"],
        "sharing": ["P1", "P2"],
    },
    "federation": {
        "rounds": 4,
        "evaluate_every": 2,
        "simulation": {"step_seconds": 0.2, "up_mbit": 1.0},
    },
}
"""Several methods with one pair of optimisers, on a simulated clock."""

BASELINES = {
    "persistence": 1.0,
    "naive_day": 1.35,
    "naive_week": 1.22,
    "naive_mean": 1.12,
    "naive_weeks": 1.15,
    "linear": 0.95,
    "ridge": 0.86,
    "ridge_lags": 0.75,
    "lightgbm": 0.6,
    "lightgbm_lags": 0.56,
    "lightgbm_pooled": 0.58,
}
"""Test MASE of each baseline, mean over clients."""

SCALE = {"CA": 1.15, "IL": 0.92, "NY": 0.8}
OPTIMISER = {"adam": 1.0, "adamams": 1.02, "prox": 2.6, "proxadam": 1.06, "sgd": 1.5}
METHOD = {"scaffold": 0.8, "ifca": 0.72, "moon": 0.95, "fedeff": 1.3}
COPIES = {"scaffold": 2, "ifca": 3, "fedac": 2}
"""How many times the shared part a method sends in each direction."""
CLUSTERS = {"ifca": [1, 0, 1], "fedac": [-1, 4, 2]}
"""Cluster of each client of METHODS."""


_kept = tempfile.TemporaryDirectory(prefix="plfl-fake-results-")
_made: dict[str, Path] = {}
"""What this process has made up, by configuration and diverged cells."""


def write(folder: Path, config: dict[str, Any], diverged: tuple[str, ...] = ()) -> Study:
    """Fill `folder`; cells whose name is in `diverged` end in NaN after half of their rounds."""
    study, key = Study.parse(config, "fake"), json.dumps([config, diverged], default=str)
    if key not in _made:
        _make_up(study, made := Path(_kept.name) / str(len(_made)), diverged)
        _made[key] = made
    shutil.copytree(_made[key], folder, dirs_exist_ok=True)
    return study


def _make_up(study: Study, folder: Path, diverged: tuple[str, ...]) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    curves: dict[Cell, np.ndarray] = {}
    parts = []
    for cell in study.cells:
        # Where nothing is shared, one training stands for all methods and servers.
        first = {"method": study.grid.method[0], "server_opt": study.grid.server_opt[0]}
        own = replace(cell, **first) if study.is_alone(cell) else cell
        if own not in curves:
            curves[own] = _curve(study, own, str(own) in diverged, rng)
        parts.append(_records(study, cell, curves[own]))
    records = pd.concat(parts, ignore_index=True)
    clients = _clients(study, rng)
    about = {
        "git": "0123abc",
        "sources": {state: _receipt(study, state) for state in study.data.states[:1]},
        "cells": {str(cell): f"{i:016x}" for i, cell in enumerate(study.cells)},
    }
    store(folder, study, records, _baselines(study, clients), clients, **about)
    forecasts = _forecasts(study, clients)
    forecasts.to_parquet(folder / "forecasts.parquet")
    _baseline_forecasts(forecasts).to_parquet(folder / "baseline_forecasts.parquet")


GIVEN = {
    "lr": 0.002,
    "server_lr": 0.3,
    "hyperparameters": "",
    "trials": 1,
    "trial_steps": 100.0,
}
"""What every cell says it was given; other rates than those configured."""


def _columns(study: Study, cell: Cell) -> dict[str, Any]:
    alone = {"server_lr": float("nan")} if study.is_alone(cell) else {}
    return asdict(cell) | GIVEN | alone


def _names(study: Study, state: str) -> list[str]:
    return [f"{state.lower()}{100 + 37 * i}" for i in range(study.data.clients)]


def _receipt(study: Study, state: str) -> dict[str, Any]:
    first, *_ = _names(study, state)
    return {
        "source": study.data.source,
        "files": {f"data/{study.data.source}/{first}.parquet": "0f" * 32},
        "clients": {first: {"building type": "office"}},
    }


def _evaluated(study: Study) -> list[int]:
    federation = study.federation
    return [t for t in range(1, federation.rounds + 1) if federation.evaluates(t)]


def _curve(study: Study, cell: Cell, diverged: bool, rng: np.random.Generator) -> np.ndarray:
    """MASE of shape (evaluated rounds, clients, models): local and global."""
    rounds = np.array(_evaluated(study), dtype=float)
    grid = study.grid
    level = SCALE.get(cell.state, 1.0) * OPTIMISER.get(cell.client_opt, 1.1)
    level *= METHOD.get(cell.method, 1.0)
    level *= 1 - 0.04 * (grid.sharing.index(cell.sharing) == 1)
    level *= 1 + 0.015 * grid.server_opt.index(cell.server_opt)
    fall = 1 + 1.4 * np.exp(-rounds / 6)
    spread = np.linspace(0.8, 1.25, study.data.clients)
    local = level * fall[:, None] * spread * rng.normal(1, 0.02, (len(rounds), len(spread)))
    worse = 1.0 if study.is_alone(cell) else 1.08
    both = np.stack([local, worse * local], axis=-1)
    if diverged:
        both[len(rounds) // 2 :] = np.nan
    return both


def _bytes(study: Study, cell: Cell) -> int:
    if study.is_alone(cell):
        return 0
    shared = 60276 if study.sharing[cell.sharing] == ["*"] else 3500
    return 4 * shared * COPIES.get(cell.method, 1)


def _seconds(study: Study, cell: Cell) -> dict[str, float]:
    """Simulated seconds of a round, in a study that simulates time."""
    if not takes_time(study.federation.simulation):
        return {}
    seconds = 25 + 8e-6 * _bytes(study, cell)
    return {"seconds": 0.8 * seconds, "round_seconds": seconds}


def _clusters(cell: Cell, rounds: int) -> dict[str, Any]:
    found = CLUSTERS.get(cell.method)
    return {} if found is None else {"cluster": np.tile(np.array(found, float), rounds)}


def _records(study: Study, cell: Cell, curve: np.ndarray) -> pd.DataFrame:
    names, place = _names(study, cell.state), ["round", "client"]
    train = pd.DataFrame(product(range(1, study.federation.rounds + 1), names), columns=place)
    steps = float(study.federation.local_steps)
    train = train.assign(split="train", loss=1 / train["round"], steps=steps, epochs=0.05)
    parts = [train.assign(model=model, **_seconds(study, cell)) for model in MODELS]
    scored = pd.DataFrame(product(_evaluated(study), names), columns=place)
    scored = scored.assign(**_clusters(cell, len(curve)))
    for split, factor in (("validation", 0.97), ("test", 1.0)):
        for k, model in enumerate(MODELS):
            mase = factor * curve[:, :, k].ravel()
            scores = {"mae": 2 * mase, "rmse": 3 * mase, "mase": mase}
            parts.append(scored.assign(split=split, model=model, **scores))
    count = _bytes(study, cell)
    exchanged = {"bytes_down": count, "bytes_up": count, "extras_down": 0, "extras_up": 0}
    return pd.concat(parts, ignore_index=True).assign(**_columns(study, cell), **exchanged)


def _clients(study: Study, rng: np.random.Generator) -> pd.DataFrame:
    count, tables = study.data.clients, []
    for state in study.data.states:
        mean = rng.lognormal(2.6, 1.1, count)
        table = pd.DataFrame({"state": state, "client": _names(study, state), "mean": mean})
        tables.append(table.assign(order=range(count), std=mean * rng.uniform(0.25, 0.9, count)))
    clients = pd.concat(tables, ignore_index=True)
    error = 0.1 * clients["mean"]
    return clients.assign(
        rows=35040,
        interval=study.data.meters.interval if study.data.source == "meters" else 15,
        persistence_mae_validation=error,
        persistence_mae_test=error,
    )


def _forecasts(study: Study, clients: pd.DataFrame) -> pd.DataFrame:
    interval = int(clients["interval"].iloc[0])
    count = 7 * 24 * 60 // interval
    stamps = pd.date_range("2018-11-25 04:00", periods=count, freq=f"{interval}min")
    hour = stamps.hour + stamps.minute / 60
    shape = 0.35 + np.exp(-(((hour - 13) / 4.5) ** 2)) * np.where(stamps.day_of_week < 5, 1, 0.45)
    rng = np.random.default_rng(2)
    weeks: dict[str, list[pd.DataFrame]] = {state: [] for state in study.data.states}
    for state, client, mean in clients[["state", "client", "mean"]].itertuples(index=False):
        truth = pd.Series(mean * shape * rng.normal(1, 0.05, count))
        smooth = truth.rolling(5, min_periods=1).mean()
        columns = {
            "client": client,
            "stamp": stamps,
            "truth": truth,
            "persistence": truth.shift(4).bfill(),
            "local": smooth,
            "global": 1.04 * smooth,
        }
        weeks[state].append(pd.DataFrame(columns))
    of_state = {state: pd.concat(parts) for state, parts in weeks.items()}
    # The figures show forecasts of P2 alone where a study has it.
    shown = [cell for cell in study.cells if cell.sharing == "P2" or "P2" not in study.grid.sharing]
    return pd.concat(
        [of_state[c.state].assign(**_columns(study, c)) for c in shown], ignore_index=True
    )


def _baselines(study: Study, clients: pd.DataFrame) -> pd.DataFrame:
    """Scores around `BASELINES`; the four weeks of `naive_weeks` do not fit before validation."""
    rng = np.random.default_rng(3)
    rows = []
    for state, name, split in product(study.data.states, BASELINES, ("validation", "test")):
        here = clients[clients["state"] == state]
        spread = rng.normal(1, 0.05, len(here)) if name != "persistence" else np.ones(len(here))
        mase = BASELINES[name] * SCALE.get(state, 1.0) ** (name != "persistence") * spread
        if (name, split) == ("naive_weeks", "validation"):
            mase[:] = np.nan
        mae = mase * here[f"persistence_mae_{split}"].to_numpy()
        sent = 4 * 0.9 * here["rows"].to_numpy() * (catalogue()[name].crosses == "raw data")
        keys = {"state": state, "baseline": name, "split": split, "client": here["client"]}
        scores = {"mae": mae, "rmse": 1.5 * mae, "mase": mase, "bytes": sent.astype(int)}
        rows.append(pd.DataFrame(keys | scores))
    return pd.concat(rows, ignore_index=True)


def _baseline_forecasts(forecasts: pd.DataFrame) -> pd.DataFrame:
    """The truth of every client, off by a factor of its own for each baseline."""
    weeks = forecasts.drop_duplicates(["state", "client", "stamp"])
    parts = [
        weeks[["state", "client", "stamp"]].assign(
            baseline=name,
            forecast=np.float32(weeks["persistence"] if name == "persistence" else off),
        )
        for name, level in BASELINES.items()
        for off in [weeks["truth"] * (1 + 0.1 * level)]
    ]
    table = pd.concat(parts, ignore_index=True)
    return table[["state", "baseline", "client", "stamp", "forecast"]]


def render(name: str, folder: Path, out: Path) -> list[Path]:
    """The files of a figure of a results folder, drawn into folder `out`."""
    from plfl.report.figures import draw
    from plfl.report.figures.style import save
    from plfl.results.tables import Tables

    drawn = draw(name, Tables(folder))
    return [path for stem, figure in drawn.items() for path in save(figure, out / stem)]


def without_baselines(folder: Path) -> None:
    """As a deployed study leaves its results: its data stay with the clients."""
    study = folder / "study.json"
    study.write_text(json.dumps(json.loads(study.read_text()) | {"engine": "flower"}))
    for name in ("baselines", "baseline_forecasts"):
        (folder / f"{name}.parquet").unlink(missing_ok=True)
