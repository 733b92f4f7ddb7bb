"""Personalised methods on random quadratics: plfl's round agrees with the NumPy reference.

Curvatures, minima, sharing, weights, rates, steps and participants are drawn anew for each seed; no
number here was used to write a method.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from plfl.federated.federation import Federation
from plfl.methods import Method
from plfl.methods.ditto import Ditto
from plfl.methods.fedopt import FedOpt
from plfl.methods.fine_tuning import FineTuning
from plfl.methods.knn_per import KnnPer, best_share, neighbours_mean
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl_reproductions.apfl import APFL
from plfl_reproductions.fedala import FedALA
from plfl_reproductions.fedamp import FedAMP
from plfl_reproductions.fedbabu import FedBABU
from plfl_reproductions.fedfomo import FedFomo
from plfl_reproductions.fedrep import FedRep
from plfl_reproductions.per_fedavg import PerFedAvg
from plfl_reproductions.pfedme import PFedMe
from tests.helpers import personalised as reference
from tests.helpers.personalised import Array, Problem, Seen
from tests.helpers.problems import Quadratic, in_turns, trajectory

WIDTH = 4
HEAD = np.arange(WIDTH) == WIDTH - 1
"""The last parameter is the head."""


def drawn(seed: int, optimiser: str) -> Problem:
    """A random problem with a shared parameter, a personal one, and participants for each round."""
    rng = np.random.default_rng(seed)
    clients = int(rng.integers(3, 6))
    shared = rng.permutation([True, True, False, bool(rng.integers(2))])
    if not (shared & ~HEAD).any():
        shared = ~shared
    rounds = [rng.random(clients) < 0.6 for _ in range(5)]
    present = [np.flatnonzero(r) if r.any() else np.arange(clients) for r in rounds]
    steps = {"sgd": reference.Sgd(rng.uniform(0.02, 0.12)), "adam": reference.Adam(0.05, 0.8, 0.95)}
    return Problem(
        a=rng.uniform(0.3, 3, clients).tolist(),
        c=rng.normal(size=clients).tolist(),
        mix=(rng.uniform(0.3, 0.9, WIDTH) * rng.choice([-1, 1], WIDTH)).tolist(),
        start=tuple(rng.normal(0, 2, WIDTH).tolist()),
        shared=tuple(shared.tolist()),
        present=tuple(tuple(p.tolist()) for p in present),
        weights=tuple(rng.integers(1, 6, clients).astype(float).tolist()),
        steps=int(rng.integers(1, 5)),
        optimiser=steps[optimiser],
        server_lr=rng.uniform(0.5, 1.5),
    )


def run(problem: Problem, method: Method, made: Callable[[Federation], None] | None = None) -> Any:
    """What plfl's round makes of the problem: a snapshot before round 1 and after every round."""
    step = problem.optimiser
    if isinstance(step, reference.Sgd):
        client_opt: Any = Sgd(lr=step.lr)
    else:
        client_opt = Adam(lr=step.lr, beta1=step.beta1, beta2=step.beta2, eps=step.eps)
    return trajectory(
        client_opt,
        FedAvg(lr=problem.server_lr),
        in_turns(method, *map(list, problem.present)),
        problem=Quadratic(list(problem.a), list(problem.c), list(problem.mix)),
        shared=tuple(problem.shared),
        start=tuple(problem.x0.tolist()),
        rounds=len(problem.present),
        steps=problem.steps,
        weights=None if problem.weights is None else tuple(problem.weights),
        made=made or (lambda f: None),
    )


def same(found: Any, expected: Array) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)


def adapted(problem: Problem, expected: list[Seen], by: Callable[[Array], Array]) -> list[Array]:
    """The models of every round, adapted."""
    return [by(reference.global_models(problem, seen)) for seen in expected]


def local(expected: list[Seen]) -> list[Array]:
    """The personalised models of every round."""
    return [seen.local for seen in expected]


Case = Callable[[Problem], tuple[Method, list[Seen], list[Array]]]


def plain(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    expected = reference.fedavg(problem)
    return FedOpt(), expected, local(expected)


def fine_tuning(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    expected = reference.fedavg(problem)

    def tune(models: Array) -> Array:
        return reference.fine_tuned(problem, models, 3, HEAD, 2)

    return FineTuning(epochs=3, head_epochs=2), expected, adapted(problem, expected, tune)


def ditto(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    expected = reference.ditto(problem, 0.7, 3)
    return Ditto(lam=0.7, personal_steps=3), expected, local(expected)


def fedrep(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    expected = reference.fedrep(problem, 3, 2)
    return FedRep(head_steps=3, body_steps=2), expected, local(expected)


def fedbabu(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    problem = replace(problem, shared=tuple((problem.mask & ~HEAD).tolist()))
    expected = reference.fedbabu(problem, HEAD)

    def tune(models: Array) -> Array:
        return reference.fine_tuned(problem, models, 2)

    return FedBABU(epochs=2), expected, adapted(problem, expected, tune)


def per_fedavg(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    expected = reference.per_fedavg(problem, 0.07)
    models = adapted(problem, expected, lambda m: reference.adapted(problem, m, 0.07, 2))
    return PerFedAvg(alpha=0.07, adapt_steps=2), expected, models


def per_fedavg_hf(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    # The difference of gradients of a quadratic is exact for any δ, and a large one rounds less.
    expected = reference.per_fedavg(problem, 0.07, 0.5)
    models = adapted(problem, expected, lambda m: reference.adapted(problem, m, 0.07))
    return PerFedAvg(alpha=0.07, order="hf", delta=0.5), expected, models


def apfl(adapt: Any) -> Case:
    def case(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
        learned = None if adapt == "never" else adapt
        expected = reference.apfl(problem, 0.4, learned, 0.3)
        return APFL(alpha=0.4, adapt_alpha=adapt, alpha_lr=0.3), expected, local(expected)

    return case


def pfedme(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    expected = reference.pfedme(problem, 1.3, 3, 0.2)
    method = PFedMe(lam=1.3, eta=0.2, inner_steps=problem.steps, minibatches=3)
    return method, expected, local(expected)


def fedala(problem: Problem) -> tuple[Method, list[Seen], list[Array]]:
    expected = reference.fedala(problem, 0.6, 3)
    return FedALA(subset="shared", eta_w=0.6, first=3), expected, local(expected)


CASES: dict[str, Case] = {
    "fedavg": plain,
    "fine_tuning": fine_tuning,
    "ditto": ditto,
    "fedrep": fedrep,
    "fedbabu": fedbabu,
    "per_fedavg": per_fedavg,
    "per_fedavg_hf": per_fedavg_hf,
    "apfl": apfl("never"),
    "apfl_round": apfl("round"),
    "apfl_step": apfl("step"),
    "pfedme": pfedme,
    "fedala": fedala,
}
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("name", CASES)
def test_every_round_is_that_of_the_reference(name: str, optimiser: str, seed: int) -> None:
    problem = drawn(seed, optimiser)
    method, expected, personal = CASES[name](problem)
    mask = problem.mask & ~HEAD if name == "fedbabu" else problem.mask
    for found, wanted, models in zip(run(problem, method), expected, personal, strict=True):
        same(found.x, wanted.x[mask])
        same(found.local, wanted.rows)
        same(found.scored, models)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("attention", ["distance", "cosine"])
def test_fedamp_from_different_models(attention: Any, optimiser: str, seed: int) -> None:
    problem = replace(drawn(seed, optimiser), server_lr=1)
    clients = len(problem.a)
    rows = np.random.default_rng(100 + seed).normal(size=(clients, WIDTH))
    problem = replace(problem, start=rows.tolist())

    def apart(f: Federation) -> None:
        f.local = torch.tensor(rows)
        f.state.w = f.local[:, f.columns].clone()

    method = FedAMP(attention=attention, sigma=5, alpha=0.9, lam=0.4, self_weight=0.3)
    own = 0.3 if attention == "cosine" else None
    expected = reference.fedamp(problem, 5, 0.9, 0.4, own)
    for found, wanted in zip(run(problem, method, apart), expected, strict=True):
        same(found.local, wanted.local)
        same(found.scored, wanted.local)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_fedfomo_with_the_models_of_all_others(optimiser: str, seed: int) -> None:
    problem = replace(drawn(seed, optimiser), server_lr=1)
    expected = reference.fedfomo(problem)
    for found, wanted in zip(run(problem, FedFomo(probe=None)), expected, strict=True):
        same(found.local, wanted.local)
        same(found.scored, wanted.local)


@pytest.mark.parametrize("seed", SEEDS)
def test_fedala_of_the_last_layer(seed: int) -> None:
    problem = replace(drawn(seed, "sgd"), shared=(False, True, True, True))
    expected = reference.fedala(problem, 0.6, 2, HEAD)
    method = FedALA(subset="last", eta_w=0.6, first=2)
    for found, wanted in zip(run(problem, method), expected, strict=True):
        same(found.x, wanted.x[problem.mask])
        same(found.local, wanted.local)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kernel", ["scaled", "plain"])
def test_the_forecasts_and_shares_of_knn_per(kernel: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, scale = int(rng.integers(1, 9)), rng.uniform(0.2, 3)
    store, queries = rng.normal(size=(30, 5)), rng.normal(size=(20, 5))
    targets, y = rng.normal(size=30), rng.normal(size=20)
    method = KnnPer(k=k, kernel=kernel, scale=scale)
    found = neighbours_mean(store, targets, queries, k, method._exponents)
    squared = kernel == "scaled"
    expected = [reference.neighbours(store, targets, q, k, scale, squared) for q in queries]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    outputs = y + rng.normal(size=20)
    share = best_share(found, outputs, y)
    errors = [np.abs(s * found + (1 - s) * outputs - y).mean() for s in np.linspace(0, 1, 101)]
    assert errors[round(100 * share)] == pytest.approx(min(errors), abs=1e-12)


def test_the_drawn_problems_differ_where_it_matters() -> None:
    problems = [drawn(seed, "sgd") for seed in SEEDS]
    assert len({p.shared for p in problems}) > 1
    assert len({p.steps for p in problems}) > 1
    assert all(any(len(r) < len(p.a) for r in p.present) for p in problems)
