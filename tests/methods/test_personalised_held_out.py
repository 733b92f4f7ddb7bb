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


def without_head(problem: Problem) -> Problem:
    return replace(problem, shared=tuple((problem.mask & ~HEAD).tolist()))


Case = tuple[Method, list[Seen], Callable[[Array], Array] | None]
"""A method, its rounds, and what becomes of the global models; None: the rounds say it."""
CASES: dict[str, Callable[[Problem], Case]] = {
    "fedavg": lambda p: (FedOpt(), reference.fedavg(p), None),
    "fine_tuning": lambda p: (
        FineTuning(epochs=3, head_epochs=2),
        reference.fedavg(p),
        lambda models: reference.fine_tuned(p, models, 3, HEAD, 2),
    ),
    "ditto": lambda p: (Ditto(lam=0.7, personal_steps=3), reference.ditto(p, 0.7, 3), None),
    "fedrep": lambda p: (FedRep(head_steps=3, body_steps=2), reference.fedrep(p, 3, 2), None),
    "fedbabu": lambda p: (
        FedBABU(epochs=2),
        reference.fedbabu(p, HEAD),
        lambda models: reference.fine_tuned(p, models, 2),
    ),
    "per_fedavg": lambda p: (
        PerFedAvg(alpha=0.07, adapt_steps=2),
        reference.per_fedavg(p, 0.07),
        lambda models: reference.adapted(p, models, 0.07, 2),
    ),
    # The difference of gradients of a quadratic is exact for any δ, and a large one rounds less.
    "per_fedavg_hf": lambda p: (
        PerFedAvg(alpha=0.07, order="hf", delta=0.5),
        reference.per_fedavg(p, 0.07, 0.5),
        lambda models: reference.adapted(p, models, 0.07),
    ),
    "apfl": lambda p: (
        APFL(alpha=0.4, adapt_alpha="never", alpha_lr=0.3),
        reference.apfl(p, 0.4),
        None,
    ),
    "apfl_round": lambda p: (
        APFL(alpha=0.4, adapt_alpha="round", alpha_lr=0.3),
        reference.apfl(p, 0.4, "round", 0.3),
        None,
    ),
    "apfl_step": lambda p: (
        APFL(alpha=0.4, adapt_alpha="step", alpha_lr=0.3),
        reference.apfl(p, 0.4, "step", 0.3),
        None,
    ),
    "pfedme": lambda p: (
        PFedMe(lam=1.3, eta=0.2, inner_steps=p.steps, minibatches=3),
        reference.pfedme(p, 1.3, 3, 0.2),
        None,
    ),
    "fedala": lambda p: (
        FedALA(subset="shared", eta_w=0.6, first=3),
        reference.fedala(p, 0.6, 3),
        None,
    ),
}
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("name", CASES)
def test_every_round_is_that_of_the_reference(name: str, optimiser: str, seed: int) -> None:
    problem = drawn(seed, optimiser)
    owned = without_head(problem) if name == "fedbabu" else problem
    method, expected, adapted = CASES[name](owned)
    for found, wanted in zip(run(problem, method), expected, strict=True):
        same(found.x, wanted.x[owned.mask])
        same(found.local, wanted.rows)
        models = adapted(reference.global_models(owned, wanted)) if adapted else wanted.local
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
