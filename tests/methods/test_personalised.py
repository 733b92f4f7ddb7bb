"""Methods with personal models: identities, what they keep and refuse, and their numbers.

These are compared with an independent reference on random quadratics: curvatures, minima, sharing,
weights, rates, steps and participants are drawn anew for each seed; no number here was used to
write a method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plfl.base.errors import ConfigError
from plfl.data.windows import build
from plfl.experiments.train import train
from plfl.federated.federation import Federation
from plfl.interfaces.method import Method
from plfl.methods import knn_per
from plfl.methods.ditto import Ditto
from plfl.methods.fedopt import FedOpt
from plfl.methods.fine_tuning import FineTuning
from plfl.methods.knn_per import SHARE_STEPS, KnnPer, neighbours_mean
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl.tasks.metrics import best_share
from plfl_reproductions.methods.apfl import APFL
from plfl_reproductions.methods.fedala import FedALA
from plfl_reproductions.methods.fedamp import FedAMP
from plfl_reproductions.methods.fedbabu import FedBABU
from plfl_reproductions.methods.fedfomo import FedFomo, rank_clients
from plfl_reproductions.methods.fedrep import FedRep
from plfl_reproductions.methods.per_fedavg import PerFedAvg
from plfl_reproductions.methods.pfedme import PFedMe
from tests.helpers import personalised as reference
from tests.helpers import tiny
from tests.helpers.personalised import Array, Problem, Seen
from tests.helpers.problems import AVG, SGD, Quadratic, in_turns, trajectory
from tests.helpers.refusals import naming

Q2M = Quadratic([1, 4], [0, 1], [1, 0.5])
"""Clients with a body s and a head p, of which they minimise a/2 (s + p/2 − c)²."""
BODY: dict[str, Any] = {"problem": Q2M, "start": (2.0, 2.0), "shared": (True, False)}


def after(method: Method, client_opt: Any = SGD, **options: Any) -> Any:
    """What three rounds lead to."""
    return trajectory(client_opt, AVG, method, **options)[-1]


def test_fine_tuning_of_fedbabu():
    heads = after(FedBABU(epochs=2, tune="head"), **BODY)
    assert (heads.scored[:, 1] != heads.global_models[:, 1]).all()
    assert torch.equal(heads.scored[:, 0], heads.global_models[:, 0])
    assert torch.equal(after(FedBABU(epochs=0), **BODY).scored, heads.global_models)


def test_the_loss_of_a_round_is_the_mean_over_all_minibatches():
    """With a rate of 0, so to say: those of three and two steps are those of five."""
    losses = {}
    for method, options in (("fedopt", {}), ("fedrep", {"head_steps": 3, "body_steps": 2})):
        still, federation = {"adam": {"lr": 1e-12}}, {"local_steps": 5, "rounds": 2}
        study = tiny.study_of_method(
            method, client_opt=still, method=options, federation=federation
        )
        (result,) = train(study, study.cells, tiny.dataset()).values()
        losses[method] = result.records.query("split == 'train'")["loss"].to_numpy()
    np.testing.assert_allclose(losses["fedrep"], losses["fedopt"], rtol=1e-5)


PAIRS = Quadratic([1, 1, 1, 1], [-3, -2.5, 2, 3], [1])
"""Two pairs of clients that want opposite things."""


def test_fedamp_with_too_small_a_sigma_is_refused():
    with pytest.raises(ConfigError, match="sigma to at least 1"):
        after(FedAMP(attention="distance", sigma=0.9))


def test_fedfomo_keeps_to_the_model_before_if_no_other_is_better():
    f = trajectory(SGD, AVG, FedFomo(), rounds=1)[0].f
    f.state.before[:] = torch.tensor([[0.0], [1.0]])
    assert torch.equal(f.global_models, f.state.before)
    f.state.own[0] = torch.inf
    assert torch.equal(f.global_models, f.state.before)


def test_fedfomos_server_learns_whose_models_help_and_explores():
    few = FedFomo(models=2, epsilon=0)
    *_, last = trajectory(SGD, AVG, few, problem=PAIRS, rounds=8)
    assert last.report.traffic["bytes_down"].tolist() == [16] * 4
    affinity = last.f.state.affinity
    assert (affinity.diagonal() == 0).all()
    assert affinity.fill_diagonal_(-torch.inf).argmax(1).tolist() == [1, 0, 3, 2]
    ids, values = np.arange(5), np.array([0.0, 3, 1, 3, 2])
    drawn = {tuple(rank_clients(ids, values, 3, 0, np.random.default_rng(s))) for s in range(20)}
    assert drawn == {(1, 3, 4), (3, 1, 4)}
    explored = [
        tuple(rank_clients(ids, values, 3, 1, np.random.default_rng(s))) for s in range(200)
    ]
    assert {i for some in explored for i in some} == set(range(5))
    assert all(len(set(some)) == 3 for some in explored)
    with pytest.raises(ConfigError, match="no others' models to send"):
        trajectory(SGD, AVG, FedFomo(), problem=Quadratic([1], [0], [1]))


@pytest.mark.parametrize("method", ["fine_tuning", "fedbabu", "fedadc_plus"])
def test_fewer_steps_for_one_method_are_fewer_steps(method):
    """A method's own `steps` do what `federation.local_steps` does."""
    tables = []
    for whole, own in ((3, None), (4, 3)):
        federation = {"local_steps": whole}
        study = tiny.study_of_method(method, federation=federation, method={"steps": own})
        (result,) = train(study, study.cells, tiny.dataset()).values()
        tables.append(result.records)
    pd.testing.assert_frame_equal(*tables)


STORE = np.array([[0.0, 0], [1, 0], [0, 2], [3, 3]])
FOLLOWED = np.array([1.0, 2, 4, 8])


def test_all_horizons_have_the_same_neighbours_and_weights():
    query = np.array([[0.25, 0.5]])
    both = np.stack([FOLLOWED, 10 * FOLLOWED + 1], 1)
    (found,) = neighbours_mean(STORE, both, query, 3, KnnPer().exponents)
    assert found.tolist() == pytest.approx([1.8769070891, 19.769070891], rel=1e-9)
    study = tiny.study_of_method("knn_per", windows={"horizons": 3})
    for result in train(study, study.cells, build(tiny.tables(), study.windows)).values():
        assert np.isfinite(result.records.query("split == 'test'")["mae"]).all()


def test_validation_windows_are_no_neighbours_when_the_share_of_the_memory_is_chosen(monkeypatch):
    """They are in the store of a model that is trained again on the whole history."""
    nearest = []

    def spy(store, targets, queries, *rest):
        nearest.append(np.linalg.norm(store[:, None] - queries, axis=2).min())
        return neighbours_mean(store, targets, queries, *rest)

    monkeypatch.setattr(knn_per, "neighbours_mean", spy)
    study = tiny.study_of_method("knn_per", windows={"history": 1})
    train(study, study.cells, build(tiny.tables(), study.windows))
    assert min(nearest[::2]) > 0


def test_memory_far_away_still_has_weights_and_is_mixed_into_local_alone():
    far = neighbours_mean(STORE, FOLLOWED, np.array([[1e4, 0.0]]), 2, KnnPer().exponents)
    assert np.isfinite(far).all()
    tables = {}
    for name in ("fedopt", "knn_per"):
        study = tiny.study_of_method(name, grid={"sharing": ["P2", "P3"]})
        for cell, result in train(study, study.cells, tiny.dataset()).items():
            tables[name, cell.sharing] = result.records.query("split == 'validation'")
            found = {*(result.models or {})}
            assert found == ({"global"} if name == "knn_per" else set(result.models or {}))
    for scheme in ("P2", "P3"):
        plain, mixed = (tables[name, scheme] for name in ("fedopt", "knn_per"))
        (a, b) = (t.query("model == 'global'")["mae"].tolist() for t in (plain, mixed))
        assert a == b
        local = mixed.query("model == 'local'")["mae"].to_numpy()
        assert (local <= np.array(b) * (1 + 1e-6)).all()
        assert (local < np.array(b)).any()


@pytest.mark.parametrize(
    ("method", "blocks", "expected"),
    [
        ("ditto", {"grid": {"client_opt": ["proxadam"]}}, "pulls the personal models towards x"),
        ("ditto", {"federation": {"opt_state": "keep"}}, "federation.opt_state"),
        ("fedrep", {"federation": {"ema": 0.9}}, "federation.ema"),
        ("fedrep", {"grid": {"sharing": ["P1", "P3"]}}, "fedrep does not work with"),
        ("fedbabu", {"sharing": {"LG": ["head"]}, "grid": {"sharing": ["LG"]}}, "only parameters"),
        ("per_fedavg", {"grid": {"client_opt": ["prox"]}}, "proximal term refers"),
        ("fedala", {"method": {"subset": "mlp"}}, "have to be shared"),
        ("knn_per", {"federation": {"keep": "best"}}, "federation.keep"),
        ("knn_per", {"model": {"name": "gru"}}, "hidden features"),
        ("fedamp", {"grid": {"server_opt": ["fedadam"]}}, "use fedavg with lr 1"),
    ],
)
def test_refusals(method, blocks, expected):
    grid = {"refused": "error"} | blocks.get("grid", {})
    with naming(ConfigError, expected):
        tiny.study_of_method(method, **(blocks | {"grid": grid}))


def test_schemes_that_do_not_work_are_skipped_unless_all_are():
    both = tiny.study_of_method("fedrep", grid={"sharing": ["P1", "P2"]})
    assert {cell.sharing for cell in both.cells} == {"P2"}
    with pytest.raises(ConfigError, match="fedrep does not work with any of the sharing schemes"):
        tiny.study_of_method("fedrep", grid={"sharing": ["P1"]})


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


def rounds_of(
    problem: Problem, method: Method, made: Callable[[Federation], None] | None = None
) -> Any:
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
    **{
        f"apfl_{adapt}": lambda p, adapt=adapt: (
            APFL(alpha=0.4, adapt_alpha=adapt, alpha_lr=0.3),
            reference.apfl(p, 0.4, adapt, 0.3),
            None,
        )
        for adapt in ("never", "round", "step")
    },
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
    "fedala_last": lambda p: (
        FedALA(subset="last", eta_w=0.6, first=2),
        reference.fedala(p, 0.6, 2, HEAD),
        None,
    ),
    "fedfomo": lambda p: (FedFomo(probe=None), reference.fedfomo(p), None),
}
CHANGES = {"fedala_last": {"shared": (False, True, True, True)}, "fedfomo": {"server_lr": 1}}
"""What of the problem is not drawn."""
SEEDS = range(2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("name", CASES)
def test_every_round_is_that_of_the_reference(name: str, optimiser: str, seed: int) -> None:
    problem = replace(drawn(seed, optimiser), **CHANGES.get(name, {}))
    owned = without_head(problem) if name == "fedbabu" else problem
    method, expected, adapted = CASES[name](owned)
    for found, wanted in zip(rounds_of(problem, method), expected, strict=True):
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
    for found, wanted in zip(rounds_of(problem, method, apart), expected, strict=True):
        same(found.local, wanted.local)
        same(found.scored, wanted.local)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kernel", ["scaled", "plain"])
def test_the_forecasts_and_shares_of_knn_per(kernel: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, scale = int(rng.integers(1, 9)), rng.uniform(0.2, 3)
    store, queries = rng.normal(size=(30, 5)), rng.normal(size=(20, 5))
    targets, y = rng.normal(size=30), rng.normal(size=20)
    method = KnnPer(k=k, kernel=kernel, scale=scale)
    found = neighbours_mean(store, targets, queries, k, method.exponents)
    squared = kernel == "scaled"
    expected = [reference.neighbours(store, targets, q, k, scale, squared) for q in queries]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    outputs = y + rng.normal(size=20)
    share = best_share(found, outputs, y, SHARE_STEPS)
    errors = [np.abs(s * found + (1 - s) * outputs - y).mean() for s in np.linspace(0, 1, 101)]
    assert errors[round(100 * share)] == pytest.approx(min(errors), abs=1e-12)
