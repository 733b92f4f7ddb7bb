"""Results of which the truth is known, and the error rate of the verdicts where nothing is true.

    python -m tests.helpers.constructed 1000

prints the table of error rates in docs/claims.md.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE, catalogue
from plfl.config.study import FORMAT, Study
from plfl.results import claims
from plfl.results.records import CELL, MODELS, write_table
from plfl.results.scores import AXES, Scores
from plfl.results.statistics import Array
from plfl.results.summary import summarise, summarise_baselines, with_baselines
from plfl.results.tables import Tables
from plfl.results.verdict import Verdict, settle

Level = Callable[[dict[str, Any], str, str, int], float]
"""True MASE of a cell (its axes by name), given also split, model and round; NaN: it diverged."""
CONFIG: dict[str, Any] = {
    "name": "constructed",
    "data": {"source": "sample", "clients": 12},
    "grid": {"server_opt": ["fedavg"], "seeds": [1, 2, 3]},
    "federation": {"rounds": 1},
}
BYTES = {"P1": 4 * 60276, "P2": 4 * 3500, "P3": 0}


def study(**config: Any) -> Study:
    """The study of `CONFIG` with these blocks over it, key by key."""
    blocks = {key: {**CONFIG.get(key, {}), **block} for key, block in config.items()}
    return Study.parse({**CONFIG, **blocks}, "constructed")


def write(
    folder: Path,
    level: Level,
    noise: float = 0.02,
    spread: float = 1.5,
    sent: dict[str, int] = BYTES,
    baseline: Callable[[str], float] = lambda name: 2.0,
    constant: str = "",
    **config: Any,
) -> Tables:
    """A results folder in which every cell has the MASE that `level` says.

    Args:
        folder: where to write.
        level: true MASE of every cell.
        noise: standard deviation of log MASE, of each client and seed on its own.
        spread: standard deviation of the logarithm of the clients' loads.
        sent: bytes of a client in a round in one direction, by split.
        baseline: MASE of each baseline, the same for every client, by its name.
        constant: a client without persistence error, so without MASE.
        config: blocks over `CONFIG`.
    """
    of = study(**config)
    rng = np.random.default_rng(7)
    rounds = range(1, of.federation.rounds + 1)
    names = [f"client{i}" for i in range(of.data.clients)]
    scored = list(product(("validation", "test"), MODELS, rounds))
    kinds = [("train", model, t) for model in MODELS for t in rounds] + scored
    cells = pd.DataFrame([asdict(cell) for cell in of.cells])
    frame = pd.DataFrame(kinds, columns=["split", "model", "round"])
    records = cells.merge(frame, how="cross").merge(pd.DataFrame({"client": names}), how="cross")
    levels = [
        [np.nan] * len(MODELS) * len(rounds) + [level(axes, *kind) for kind in scored]
        for axes in map(asdict, of.cells)
    ]
    mase = np.multiply.outer(np.array(levels), np.linspace(0.98, 1.02, len(names)))
    mase = (mase * np.exp(rng.normal(0, noise, mase.shape))).ravel()
    count = records["sharing"].map(sent)
    exchanged: dict[str, Any] = {
        "bytes_down": count,
        "bytes_up": count,
        "extras_down": 0,
        "extras_up": 0,
    }
    given = {"lr": 0.01, "server_lr": 1.0, "hyperparameters": "", "trials": 1, "trial_steps": 1.0}
    work = {"steps": 1.0, "epochs": 0.1}
    records = records.assign(loss=1.0, **given, **work, **exchanged, mae=mase, rmse=mase, mase=mase)
    records.loc[records["client"] == constant, "mase"] = np.nan
    baselines = _baselines(of, names, baseline)
    baselines.loc[baselines["client"] == constant, "mase"] = np.nan
    store(folder, of, records, baselines, _clients(of, names, spread))
    return Tables(folder)


def store(
    folder: Path,
    study: Study,
    records: pd.DataFrame,
    baselines: pd.DataFrame,
    clients: pd.DataFrame,
    **about: Any,
) -> None:
    """Write these tables of a study, those that follow from them, and what is said `about` it."""
    tables = {"records": records, "baselines": baselines, "clients": clients}
    for name, table in tables.items():
        write_table(table, folder / f"{name}.parquet")
    write_errors(folder, records, baselines, study.federation.rounds)
    summary = summarise(records, study.data.source)
    summary = with_baselines(summary, summarise_baselines(baselines, study.data.source))
    summary.to_csv(folder / "summary.csv", index=False)
    about = {"format": FORMAT, "version": "0.1.0", "study": study.model_dump(mode="json")} | about
    (folder / "study.json").write_text(json.dumps(about))


def _by_day(
    scores: pd.DataFrame, rng: np.random.Generator, days: int = 28, noise: float = 0.05
) -> pd.DataFrame:
    """Errors by day whose sums give the `mase` of each row; one without a MASE has no scale.

    Args:
        scores: labels of a row, its `client`, and `mase`.
        rng: source of chance.
        days: days of the test set.
        noise: standard deviation of what a day adds to the MASE, over its mean.
    """
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
    )


def write_errors(folder: Path, records: pd.DataFrame, baselines: pd.DataFrame, last: int) -> None:
    """Write `errors.parquet` for the test scores of round `last` and of baselines."""
    rng = np.random.default_rng(11)
    rows = records[(records["split"] == "test") & (records["round"] == last)]
    cells = rows[[*CELL, "model", "client", "mase"]].reset_index(drop=True)
    test = baselines[baselines["split"] == "test"].rename(columns={"baseline": "method"})
    labels = {"sharing": BASELINE, "client_opt": "none", "server_opt": "none", "model": BASELINE}
    others = test[["state", "method", "client", "mase"]].assign(**labels).reset_index(drop=True)
    tables = [_by_day(cells, rng), _by_day(others, rng)]
    write_table(pd.concat(tables, ignore_index=True), folder / "errors.parquet")


def _baselines(study: Study, names: list[str], level: Callable[[str], float]) -> pd.DataFrame:
    keys = product(study.data.states, catalogue(), ("validation", "test"), names)
    table = pd.DataFrame(keys, columns=["state", "baseline", "split", "client"])
    mase = table["baseline"].map(level)
    sent = table["baseline"].map(lambda name: 126_144 * (catalogue()[name].crosses == "raw data"))
    return table.assign(mae=mase, rmse=mase, mase=mase, bytes=sent)


def _clients(study: Study, names: list[str], spread: float) -> pd.DataFrame:
    # Equal steps in log load, of just this standard deviation.
    steps = np.linspace(-1, 1, len(names))
    load = np.exp(spread * steps / max(steps.std(ddof=1), 1e-9))
    columns: dict[str, Any] = {
        "mean": load,
        "std": load,
        "order": range(len(names)),
        "client": names,
    }
    columns |= {"interval": 15, "persistence_mae_test": 1.0}
    return pd.concat(
        [pd.DataFrame({"state": s, **columns}) for s in study.data.states], ignore_index=True
    )


def scored(
    study: Study,
    level: Level,
    model: str = "local",
    noise: float = 0.02,
    baseline: Callable[[str, str], float] = lambda name, split: 2.0,
) -> dict[str, Scores]:
    """The scores of a model in which every cell has the MASE that `level` says, without any files.

    `baseline` is the MASE of each baseline, by its name and split; see `write` for the rest.
    """
    rng = np.random.default_rng(7)
    seeds, clients = study.grid.seeds, study.data.clients
    found = {}
    for state in study.data.states:
        combinations = _combinations(study)
        mase = {}
        for split in ("validation", "test"):
            cells = [
                [level(dict(zip(CELL, (state, *key, s), strict=True)), split, model, 1)]
                for key in combinations
                for s in seeds
            ]
            rivals = [[baseline(name, split)] * len(seeds) for name in catalogue()]
            table = np.concatenate([np.reshape(cells, (-1, len(seeds))), rivals])
            mase[split] = table[..., None] * np.linspace(0.98, 1.02, clients)
            mase[split] *= np.exp(rng.normal(0, noise, mase[split].shape))
        found[state] = _scores(study, state, mase["test"], mase["validation"].mean(axis=(1, 2)))
    return found


def judged(
    names: Iterable[str], level: Level, study: Study, **chance: Any
) -> dict[tuple[str, str | None], Verdict]:
    """The verdicts on some claims about `scored`, by claim and model."""
    found = [
        verdict
        for model in MODELS
        for verdict in claims.judged(names, model, study, scored(study, level, model, **chance))
    ]
    return {(v.claim, v.model): v for v in settle(found)}


def _combinations(study: Study) -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(tuple(getattr(c, axis) for axis in AXES) for c in study.cells))


def _scores(study: Study, state: str, mase: Array, validation: Array) -> Scores:
    """Scores of all combinations and baselines, with an equal part from each of five weeks.

    Args:
        study: gives combinations, seeds and number of clients.
        state: name of the state.
        mase: test MASE (K, seeds, clients); what is NaN for any seed has diverged.
        validation: validation MASE (K,).
    """
    diverged = np.isnan(mase).any(axis=(1, 2))
    mase = np.where(diverged[:, None, None], np.nan, mase)
    return Scores(
        state=state,
        combinations=(
            *_combinations(study),
            *((BASELINE, name, "none", "none") for name in catalogue()),
        ),
        seeds=tuple(study.grid.seeds),
        clients=tuple(map(str, range(study.data.clients))),
        weekly=mase[..., None].repeat(5, axis=-1) / 5,
        validation=validation,
        diverged=diverged,
        persistence=np.ones(study.data.clients),
    )


def null(
    study: Study, rng: np.random.Generator, noise: float, shock: float, between: float
) -> dict[str, Scores]:
    """Scores in which no cell is better than another, nor than a baseline, but by chance.

    Args:
        study: gives states, combinations, seeds and number of clients.
        rng: source of chance.
        noise: standard deviation of log MASE of each cell and client, and again of each seed.
        shock: the same of each cell and seed, for all clients of a state at once.
        between: the same between clients, for all cells alike.
    """
    grid = _combinations(study)
    # Without a server, all ServerOpts are one training.
    split, server = AXES.index("sharing"), AXES.index("server_opt")
    trainings = [
        key[:server] if study.combinations.shares_nothing(key[split]) else key for key in grid
    ]
    code = [trainings.index(training) for training in trainings]
    K, S, C, B = len(grid), len(study.grid.seeds), study.data.clients, len(catalogue())
    found = {}
    for state in study.data.states:
        clients = rng.normal(0, between, C)
        logs = clients + rng.normal(0, noise, (K, 1, C))
        logs = logs + rng.normal(0, noise, (K, S, C)) + rng.normal(0, shock, (K, S, 1))
        mean = (between**2 + 2 * noise**2 + shock**2) / 2
        # Baselines know no seeds.
        of_rivals = clients + rng.normal(0, noise, (B, 1, C)).repeat(S, axis=1)
        mean_of_rivals = (between**2 + noise**2) / 2
        mase = np.exp(np.concatenate([(logs - mean)[code], of_rivals - mean_of_rivals]))
        validation = np.concatenate([rng.normal(1, 0.1, K)[code], rng.normal(1, 0.1, B)])
        found[state] = _scores(study, state, mase, validation)
    return found


def wrong_verdicts(
    study: Study, repetitions: int, seed: int = 0, **chance: Any
) -> Iterator[list[Verdict]]:
    """For each repetition the verdicts that decide something, each of them wrongly."""
    rng = np.random.default_rng(seed)
    for _ in range(repetitions):
        found = [
            verdict
            for model in MODELS
            for verdict in claims.judged(
                claims.ABOUT_SCORES, model, study, null(study, rng, **chance)
            )
        ]
        # Half of the time would go into advice on studies that would decide.
        with mock.patch("plfl.results.verdict.advice", return_value=""):
            settled = settle(found)
        yield [v for v in settled if v.answer in ("holds", "does not hold")]


SETTINGS: list[tuple[int, int, dict[str, Any]]] = [
    (3, 12, {"noise": 0.1, "shock": 0, "between": 0.3}),
    (3, 12, {"noise": 0.1, "shock": 0.1, "between": 0.3}),
    (3, 12, {"noise": 0.05, "shock": 0.3, "between": 0.3}),
    (3, 12, {"noise": 0.5, "shock": 0, "between": 0.8}),
    (2, 12, {"noise": 0.1, "shock": 0.1, "between": 0.3}),
    (10, 12, {"noise": 0.1, "shock": 0.1, "between": 0.3}),
    (10, 36, {"noise": 0.1, "shock": 0.1, "between": 0.3}),
]
"""Seeds, clients and chance for which the error rate is measured."""


def main(repetitions: int) -> None:
    """Print the measured error rates as a table in Markdown."""
    print("| seeds | clients | noise | shock | between | any wrong | worst claim |")
    print("|---|---|---|---|---|---|---|")
    for seeds, clients, chance in SETTINGS:
        config = {"data": {"source": "sample", "clients": clients}}
        study = Study.parse({**config, "grid": {"seeds": list(range(seeds))}}, "null")
        found = list(wrong_verdicts(study, repetitions, **chance))
        wrong = pd.Series([f"({v.claim}) {v.model}" for some in found for v in some], dtype=str)
        worst = f"{wrong.value_counts().max() / repetitions:.1%}" if len(wrong) else "0 %"
        values = [str(seeds), str(clients), *(f"{value:g}" for value in chance.values())]
        values += [f"{np.mean([bool(some) for some in found]):.1%}", worst]
        print("| " + " | ".join(values) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
