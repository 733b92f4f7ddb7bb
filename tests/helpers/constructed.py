"""Results of which the truth is known, and the error rate of the verdicts where nothing is true."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import yaml

from plfl.base.array_types import Floats
from plfl.baselines import catalogue
from plfl.results import claims
from plfl.results.records import CELL, MODELS, ModelKind
from plfl.results.scores import AXES, ForecasterScores, split_by_combination
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.study import Study
from plfl.study.combinations import Combination
from tests.helpers.fake_results import Level
from tests.helpers.repository import ROOT

PAPER: list[dict[str, Any]] = [
    claim
    for claim in yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["claims"]
    if claim.get("score") not in ("bytes", "loads")
]
"""The claims of the paper's study that are about errors; the first is that of users."""
CONFIG: dict[str, Any] = {
    "name": "constructed",
    "data": {"source": "sample", "clients": 12},
    "grid": {"server_opt": ["fedavg"], "seeds": [1, 2, 3]},
    "federation": {"rounds": 1},
}


def config(**blocks: Any) -> dict[str, Any]:
    """`CONFIG` with these blocks over it, key by key."""
    return CONFIG | {key: {**CONFIG.get(key, {}), **block} for key, block in blocks.items()}


def study(**blocks: Any) -> Study:
    """The study of `config`."""
    return Study.parse(config(**blocks), "constructed")


def scored(
    study: Study,
    level: Level,
    model: str = "local",
    noise: float = 0.02,
    baseline: Callable[[str, str], float] = lambda name, split: 2.0,
) -> dict[str, list[ForecasterScores]]:
    """The scores of a model in which every cell has the MASE that `level` says, without any files.

    `baseline` is the MASE of each baseline, by its name and split; the rest is as in
    `fake_results.write`.
    """
    rng = np.random.default_rng(7)
    seeds, clients = study.grid.seeds, study.data.most_clients
    scores_by_state = {}
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
        scores_by_state[state] = _scores(
            study, state, mase["test"], mase["validation"].mean(axis=(1, 2))
        )
    return scores_by_state


def variant(
    study: Study, scores_by_model: Mapping[ModelKind, dict[str, list[ForecasterScores]]]
) -> Variant:
    """A study without files that has these scores of each model."""
    made_up_variant = Variant("", {}, Tables(Path("nowhere")))
    vars(made_up_variant.tables)["study"] = study
    vars(made_up_variant)["scores"] = scores_by_model
    return made_up_variant


def judged(study: Study, level: Level, **chance: Any) -> list[dict[str, Any]]:
    """The verdicts on the claims of a study about `scored`, in their order."""
    made_up = {model: scored(study, level, model, **chance) for model in MODELS}
    return claims.judge_claims(study, [variant(study, made_up)])


def _combinations(study: Study) -> list[Combination]:
    return list(dict.fromkeys(cell.combination for cell in study.cells))


def _scores(study: Study, state: str, mase: Floats, validation: Floats) -> list[ForecasterScores]:
    """Scores of all combinations and baselines, with an equal part from each of five weeks.

    Args:
        study: gives combinations, seeds and number of clients.
        state: name of the state.
        mase: test MASE (K, seeds, clients); what is NaN for any seed has diverged.
        validation: validation MASE (K,).
    """
    diverged = np.asarray(np.isnan(mase).any(axis=(1, 2)))
    mase = np.where(diverged[:, None, None], np.nan, mase)
    return split_by_combination(
        [*_combinations(study), *map(Combination.from_baseline, catalogue())],
        mase[..., None].repeat(5, axis=-1) / 5,
        validation,
        state=state,
        origin="",
        clients=tuple(map(str, range(study.data.most_clients))),
        seeds=tuple(study.grid.seeds),
        persistence=np.ones(study.data.most_clients),
    )


def null(
    study: Study, rng: np.random.Generator, noise: float, shock: float, between: float
) -> dict[str, list[ForecasterScores]]:
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
        key[:server] if study.plan.schemes.shares_nothing(key[split]) else key for key in grid
    ]
    code = [trainings.index(training) for training in trainings]
    K, S, C, B = len(grid), len(study.grid.seeds), study.data.most_clients, len(catalogue())
    found = {}
    for state in study.data.states:
        clients = rng.normal(0, between, C)
        logs = clients + rng.normal(0, noise, (K, 1, C))
        logs = logs + rng.normal(0, noise, (K, S, C)) + rng.normal(0, shock, (K, S, 1))
        mean = (between**2 + 2 * noise**2 + shock**2) / 2
        # Baselines know no seeds.
        rival_logs = clients + rng.normal(0, noise, (B, 1, C)).repeat(S, axis=1)
        mean_of_rivals = (between**2 + noise**2) / 2
        mase = np.exp(np.concatenate([(logs - mean)[code], rival_logs - mean_of_rivals]))
        validation = np.concatenate([rng.normal(1, 0.1, K)[code], rng.normal(1, 0.1, B)])
        found[state] = _scores(study, state, mase, validation)
    return found


def wrong_verdicts(
    study: Study, repetitions: int, seed: int = 0, **chance: Any
) -> Iterator[list[dict[str, Any]]]:
    """For each repetition the verdicts that decide something, each of them wrongly."""
    rng = np.random.default_rng(seed)
    for _ in range(repetitions):
        scores_by_model = {model: null(study, rng, **chance) for model in MODELS}
        # Half of the time would go into advice on studies that would decide.
        with mock.patch("plfl.results.claims.advice", return_value=""):
            found = claims.judge_claims(study, [variant(study, scores_by_model)])
        yield [row for row in found if row["verdict"] in ("holds", "does not hold")]
