"""Writes a results folder of synthetic numbers in the form that `plfl.results` writes real ones."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.array_types import Floats
from plfl.baselines import find
from plfl.config.baselines import BASELINE
from plfl.federated.clock import takes_time
from plfl.results.collect import summarise, summarise_baselines, with_baselines
from plfl.results.records import CELL, MODELS, write_table
from plfl.results.tables import Tables
from plfl.study import FORMAT, Cell, Study

Level = Callable[[dict[str, Any], str, str, int], float]
"""True MASE of a cell (its axes by name), given also split, model and round; NaN: it diverged."""

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

METHODS: dict[str, Any] = {
    "name": "methods",
    "data": {"source": "sample", "states": ["CA", "IL"], "clients": 3},
    "grid": {
        "method": ["fedopt", "fedprox", "scaffold", "feddyn", "moon", "ifca", "fedac", "fedeff"],
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

DRAWING = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="100pt" height="50pt" viewBox="0 0 100 50">
 <defs>
  <style type="text/css">*{fill: red}</style>
 </defs>
 <clipPath id="clip"><path id="letter" d="M0 0"/></clipPath>
 <g clip-path="url(#clip)"><use xlink:href="#letter"/></g>
</svg>
"""
"""A drawing as Matplotlib writes them: with a style, and an id that is referred to."""

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
"""MASE of each baseline, mean over clients."""

FACTORS = {
    **{"CA": 1.15, "IL": 0.92, "NY": 0.8},
    **{"adamams": 1.02, "prox": 2.6, "proxadam": 1.06, "sgd": 1.5},
    **{"scaffold": 0.8, "ifca": 0.72, "moon": 0.95, "fedeff": 1.3},
    **{"P2": 0.96, "alone": 0.96, "fedadam": 1.015, "fedavgadaptive": 1.015, "fedyogi": 1.015},
}
"""What each part of a cell's name does to `plausible` scores."""
ALONE = ("P3", "alone", "none")
"""Schemes of these studies that share nothing."""
COPIES = {"scaffold": 2, "ifca": 3, "fedac": 2}
"""How many times the shared part a method sends in each direction."""
GIVEN = {"lr": 0.002, "server_lr": 0.3, "hyperparameters": "", "trials": 1, "trial_steps": 100.0}
"""What every cell says it was given; other rates than those configured."""


def plausible(cell: dict[str, Any], split: str, model: str, t: int) -> float:
    """Scores that fall from round to round; all are worse than the best baselines."""
    level = math.prod(FACTORS.get(value, 1.0) for value in cell.values())
    level *= 1 + 1.4 * math.exp(-t / 6)
    level *= 0.97 if split == "validation" else 1
    return level * (1.08 if model == "global" and cell["sharing"] not in ALONE else 1)


def write(
    folder: Path,
    config: dict[str, Any],
    level: Level = plausible,
    *,
    diverged: tuple[str, ...] = (),
    noise: float = 0.02,
    spread: float = 1.5,
    sent: dict[str, int] | None = None,
    baseline: Callable[[str], float] = BASELINES.__getitem__,
    constant: int | None = None,
    flat: int | None = None,
) -> Tables:
    """Fill `folder` with results in which every cell has the MASE that `level` says.

    Args:
        folder: where to write.
        config: the study's.
        level: true MASE of every cell.
        diverged: names of cells that end in NaN after half of their rounds.
        noise: standard deviation of log MASE, of each client, round and training on its own.
        spread: standard deviation of the logarithm of the clients' loads.
        sent: bytes of a client in a round in one direction, by scheme; otherwise as they would be.
        baseline: MASE of each baseline, by its name.
        constant: which client of each state has no persistence error, so no MASE.
        flat: which client of each state has a load that hardly changes: persistence is off by 0.2 %
            of it, and all MASE but that of persistence are a thousand times as high.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = _files(
        json.dumps(config),
        level,
        tuple(BASELINES),
        baseline,
        diverged,
        tuple((sent or {}).items()),
        noise,
        spread,
        constant,
        flat,
    )
    for name, content in files:
        (folder / name).write_bytes(content)
    return Tables(folder)


@lru_cache(maxsize=12)
def _files(
    config: str,
    level: Level,
    baseline_names: tuple[str, ...],
    baseline: Callable[[str], float],
    diverged: tuple[str, ...],
    sent: tuple[tuple[str, int], ...],
    noise: float,
    spread: float,
    constant: int | None,
    flat: int | None,
) -> list[tuple[str, bytes]]:
    """The files of `write`, which several tests have in common."""
    study = Study.parse(json.loads(config), "fake")
    clients = _clients(study, spread)
    records = _records(study, clients, _curves(study, level, noise, diverged), dict(sent))
    baselines = _baselines(study, clients, baseline_names, baseline)
    forecasts = _forecasts(study, clients)
    if constant is not None:
        names = clients["client"][clients["order"] == constant]
        for table in (records, baselines):
            table.loc[table["client"].isin(names), "mase"] = np.nan
    if flat is not None:
        is_flat = clients["order"] == flat
        names = clients["client"][is_flat]
        clients.loc[is_flat, "persistence_mae_test"] = 0.002 * clients["mean"]
        baselines.loc[
            baselines["client"].isin(names) & (baselines["baseline"] != "persistence"), "mase"
        ] *= 1000
        records.loc[records["client"].isin(names), "mase"] *= 1000
    tables = {
        "records": records,
        "baselines": baselines,
        "errors": _errors(records, baselines, study.federation.rounds),
        "clients": clients,
        "forecasts": forecasts,
        "baseline_forecasts": _baseline_forecasts(forecasts, baseline_names),
    }
    summary = summarise(records, study.data.source)
    summary = with_baselines(summary, summarise_baselines(baselines, study.data.source))
    about = {
        "format": FORMAT,
        "version": "0.1.0",
        "study": study.model_dump(mode="json"),
        "git": "0123abc",
        "sources": {state: _receipt(study, state) for state in study.data.states[:1]},
        "cells": {str(cell): f"{i:016x}" for i, cell in enumerate(study.cells)},
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        for name, table in tables.items():
            write_table(table, folder / f"{name}.parquet")
        summary.to_csv(folder / "summary.csv", index=False)
        (folder / "study.json").write_text(json.dumps(about))
        return [(path.name, path.read_bytes()) for path in folder.iterdir()]


def _kinds(study: Study) -> list[tuple[str, str, int]]:
    """Split, model and round of the rows of a cell and client."""
    rounds = range(1, study.federation.rounds + 1)
    every = product(("train", "validation", "test"), MODELS, rounds)
    return [kind for kind in every if kind[0] == "train" or study.federation.evaluates(kind[2])]


def _curves(study: Study, level: Level, noise: float, diverged: tuple[str, ...]) -> Floats:
    """MASE of shape (cells, kinds of rows, clients); NaN in training."""
    rng = np.random.default_rng(7)
    last, count = study.federation.rounds, study.data.most_clients
    drawn: dict[Cell, Floats] = {}
    curves = []
    for cell in study.cells:
        # Where nothing is shared, one training stands for all methods and servers.
        method, server = study.grid.method[0], study.grid.server_opt[0]
        alone = replace(cell, method=method, server_opt=server)
        own = alone if study.plan.trains_alone(cell) else cell
        if own not in drawn:
            factors = np.exp(rng.normal(0, noise, (last + 1, count)))
            factors *= np.linspace(0.98, 1.02, count)
            levels = [
                np.nan
                if split == "train" or (str(own) in diverged and 2 * t > last)
                else level(asdict(own), split, model, t)
                for split, model, t in _kinds(study)
            ]
            drawn[own] = np.array(levels)[:, None] * factors[[t for *_, t in _kinds(study)]]
        curves.append(drawn[own])
    return np.stack(curves)


def _columns(study: Study, cell: Cell) -> dict[str, Any]:
    return asdict(cell) | GIVEN | ({"server_lr": np.nan} if study.plan.trains_alone(cell) else {})


def _bytes(study: Study, cell: Cell) -> int:
    if study.plan.trains_alone(cell):
        return 0
    shared = 60276 if study.sharing[cell.sharing] == ["*"] else 3500
    return 4 * shared * COPIES.get(cell.method, 1)


def _records(
    study: Study, clients: pd.DataFrame, curves: Floats, sent: dict[str, int]
) -> pd.DataFrame:
    cells = pd.DataFrame([_columns(study, cell) for cell in study.cells])
    count = [sent.get(cell.sharing, _bytes(study, cell)) for cell in study.cells]
    cells = cells.assign(bytes_down=count, bytes_up=count, extras_down=0, extras_up=0)
    kinds = pd.DataFrame(_kinds(study), columns=["split", "model", "round"])
    names = clients[["state", "client", "persistence_mae_test"]]
    records = cells.merge(kinds, how="cross").merge(names, on="state")
    mase, persistence = curves.ravel(), records.pop("persistence_mae_test")
    train, nan = records["split"] == "train", float("nan")
    steps = float(study.federation.local_steps or 0)
    work: dict[str, Any] = {"loss": 1 / records["round"], "steps": steps, "epochs": 0.05}
    if takes_time(study.federation.simulation):
        seconds = 25 + 8e-6 * records["bytes_up"]
        work |= {"seconds": 0.8 * seconds, "round_seconds": seconds}
    training_columns = {name: np.where(train, value, nan) for name, value in work.items()}
    scores = {"mae": mase * persistence, "rmse": 1.5 * mase * persistence, "mase": mase}
    scores["wape"] = 0.1 * mase
    return records.assign(**training_columns, **scores)


def _names(study: Study, state: str) -> list[str]:
    return [f"{state.lower()}{100 + 37 * i}" for i in range(study.data.most_clients)]


def _receipt(study: Study, state: str) -> dict[str, Any]:
    first, *_ = _names(study, state)
    return {
        "source": study.data.source,
        "files": {f"data/{study.data.source}/{first}.parquet": "0f" * 32},
    }


def _clients(study: Study, spread: float) -> pd.DataFrame:
    # Equal steps in log load, of just this standard deviation.
    count = study.data.most_clients
    steps = np.arange(count) - (count - 1) / 2
    load = 10 * np.exp(spread * steps / (steps.std(ddof=1) if count > 1 else 1))
    columns_by_name = {
        "order": range(count),
        "mean": load,
        "std": 0.5 * load,
        "rows": 35040,
        "interval": study.data.meters.interval if study.data.source == "meters" else 15,
        "persistence_mae_validation": 0.1 * load,
        "persistence_mae_test": 0.1 * load,
    }
    parts = [
        pd.DataFrame({"state": state, "client": _names(study, state), **columns_by_name})
        for state in study.data.states
    ]
    return pd.concat(parts, ignore_index=True)


def _baselines(
    study: Study,
    clients: pd.DataFrame,
    baseline_names: tuple[str, ...],
    baseline: Callable[[str], float],
) -> pd.DataFrame:
    """The four weeks of `naive_weeks` do not fit before validation."""
    names = dict.fromkeys([*baseline_names, *(own.name for own in study.baselines.further)])
    keys = pd.DataFrame(product(names, ("validation", "test")), columns=["baseline", "split"])
    table = keys.merge(clients, how="cross")
    lacking = (table["baseline"] == "naive_weeks") & (table["split"] == "validation")
    mase = table["baseline"].map(baseline).mask(lacking)
    mae = mase * table["persistence_mae_test"]
    sent = table["baseline"].map(lambda name: find(name).crosses != "nothing")
    scores = {"mae": mae, "rmse": 1.5 * mae, "mase": mase, "wape": 0.1 * mase}
    table = table.assign(**scores, bytes=(4 * 0.9 * table["rows"] * sent).astype(int))
    return table[["state", "baseline", "split", "client", *scores, "bytes"]]


def _errors(records: pd.DataFrame, baselines: pd.DataFrame, last: int) -> pd.DataFrame:
    """Those by day of the test scores of the last round and of baselines."""
    rng = np.random.default_rng(11)
    rows = records[(records["split"] == "test") & (records["round"] == last)]
    test = baselines[baselines["split"] == "test"].rename(columns={"baseline": "method"})
    labels = {"sharing": BASELINE, "client_opt": "none", "server_opt": "none", "model": BASELINE}
    kept = [*CELL, "model", "client", "mase"]
    tables = [_by_day(part.reindex(columns=kept), rng) for part in (rows, test.assign(**labels))]
    return pd.concat(tables, ignore_index=True)


def _by_day(
    scores: pd.DataFrame, rng: np.random.Generator, days: int = 28, noise: float = 0.05
) -> pd.DataFrame:
    """Errors by day whose sums give the `mase` of each row; one without a MASE has no scale."""
    mase = scores["mase"].to_numpy(float)
    # One training under several names has the same errors.
    different, which = np.unique(mase, return_inverse=True)
    parts = rng.normal(1, noise, (len(different), days))[which]
    parts /= parts.mean(axis=1, keepdims=True)
    table = scores.loc[scores.index.repeat(days)].reset_index(drop=True)
    scale = np.where(np.isnan(mase), 0, 1)
    return table.drop(columns="mase").assign(
        day=np.tile(pd.date_range("2018-12-01", periods=days), len(scores)),
        error=np.float32((np.nan_to_num(mase)[:, None] * parts).ravel()),
        forecasts=np.int32(1),
        scale=np.float32(scale.repeat(days)),
        peak_error=np.float32(0.1 * mase.repeat(days)),
        peak_hours=np.float32(np.tile([1, 2], len(scores) * days // 2)),
    )


def _forecasts(study: Study, clients: pd.DataFrame) -> pd.DataFrame:
    interval = int(clients["interval"].iloc[0])
    count = 7 * 24 * 60 // interval
    stamps = pd.date_range("2018-11-25 04:00", periods=count, freq=f"{interval}min")
    hour = stamps.hour + stamps.minute / 60
    shape = 0.35 + np.exp(-(((hour - 13) / 4.5) ** 2)) * np.where(stamps.day_of_week < 5, 1, 0.45)
    rng = np.random.default_rng(2)
    weeks = []
    for state, client, mean in clients[["state", "client", "mean"]].itertuples(index=False):
        truth = pd.Series(mean * shape * rng.normal(1, 0.05, count))
        smooth = truth.rolling(5, min_periods=1).mean()
        columns = {
            "state": state,
            "client": client,
            "stamp": stamps,
            "truth": truth,
            "persistence": truth.shift(4).bfill(),
            "local": smooth,
            "global": 1.04 * smooth,
        }
        weeks.append(pd.DataFrame(columns))
    # The figures show forecasts of P2 alone where a study has it.
    shown = [cell for cell in study.cells if cell.sharing == "P2" or "P2" not in study.grid.sharing]
    cells = pd.DataFrame([_columns(study, cell) for cell in shown])
    return cells.merge(pd.concat(weeks), on="state")


def _baseline_forecasts(forecasts: pd.DataFrame, baseline_names: tuple[str, ...]) -> pd.DataFrame:
    """The truth of every client, off by a factor of its own for each baseline."""
    levels = [(name, BASELINES[name]) for name in baseline_names]
    baselines = pd.DataFrame(levels, columns=["baseline", "level"])
    weeks = forecasts.drop_duplicates(["state", "client", "stamp"])
    table = baselines.merge(weeks, how="cross")
    off = table["truth"] * (1 + 0.1 * table["level"])
    forecast = off.mask(table["baseline"] == "persistence", table["persistence"])
    table["forecast"] = forecast.astype(np.float32)
    return table[["state", "baseline", "client", "stamp", "forecast"]]


def render(name: str, folder: Path, out: Path) -> list[Path]:
    """The files of a figure of a results folder, drawn into folder `out`."""
    from plfl.report.figures import draw
    from plfl.report.figures.style import save

    drawn = draw(name, Tables(folder))
    return [path for stem, figure in drawn.items() for path in save(figure, out / stem)]


def pictures(folder: Path) -> None:
    """Empty drawings in place of all figures; drawing them takes long."""
    from plfl.report.figures import available

    folder.mkdir(parents=True, exist_ok=True)
    for stem in (stem for stems in available().values() for stem in stems):
        (folder / f"{stem}.svg").write_text(DRAWING)


def without_baselines(folder: Path) -> None:
    """As a deployed study leaves its results: its data stay with the clients."""
    study = folder / "study.json"
    study.write_text(json.dumps(json.loads(study.read_text()) | {"engine": "flower"}))
    for name in ("baselines", "baseline_forecasts"):
        (folder / f"{name}.parquet").unlink(missing_ok=True)


def scores_of(tables: Tables, cell: Cell) -> pd.Series:
    """Test MASE of every client's local model in a cell at the last round."""
    last = {"split": "test", "model": "local", "round": tables.study.federation.rounds}
    return tables.records(["client", "mase"], **last, **asdict(cell)).set_index("client")["mase"]
