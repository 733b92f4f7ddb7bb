"""Canaries betray what is wrong, attacks what is there, and nothing else."""

import math

import numpy as np
import pytest

from benchmarks.privacy.attacks import kind, membership, sender
from benchmarks.privacy.canaries import Audited, Canaries, audit, lower_bound, verdict
from plfl.base.errors import PlflError
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.participation import RULES, Selection
from plfl.federated.privacy.accounting import epsilon_of
from plfl.optimizers.client.sgd import Sgd
from tests.helpers import tiny
from tests.helpers.problems import AVG, Quadratic, trajectory
from tests.helpers.refusals import naming

DELTA = 1e-5


@pytest.mark.parametrize(
    ("canaries", "delta", "ceiling"), [(12, 1e-3, 1.218), (100, 1e-5, 3.490), (1000, 1e-5, 5.782)]
)
def test_the_most_that_an_audit_can_show(canaries, delta, ceiling):
    assert lower_bound(canaries, canaries, canaries, delta) == pytest.approx(ceiling, abs=6e-4)
    assert lower_bound(canaries // 2, canaries, canaries, delta) == 0


def test_canaries_are_orthonormal_and_drawn_like_clients():
    def of(share, rule, count=8):
        return Canaries(count, 50, Selection(3, ["a"], share, RULES[rule], rounds=10))

    canaries = of(1.0, "uniform")
    each = [canaries.scores(canaries.sent(t)[0]) for t in (1, 2)]
    assert each[0] == pytest.approx(canaries.is_in.astype(float), abs=1e-12)
    assert each[1] == pytest.approx(each[0], abs=1e-12)
    drawn = of(0.3, "allocation")
    total = sum(drawn.scores(drawn.sent(t)[0]) for t in range(1, 11))
    assert total == pytest.approx(3.0 * drawn.is_in, abs=1e-12)
    with pytest.raises(PlflError, match="poisson or allocation"):
        of(0.3, "uniform")
    with naming(PlflError, "50"):
        of(1.0, "uniform", 51)


WIDTH = 20_000


def audited(broken=lambda privacy: None, seed=0):
    """The verdict on four rounds with z = 2, that is μ = 1, through the real round."""

    def prepare(f):
        f.privacy = Audited(f, WIDTH)
        broken(f.privacy)

    found = trajectory(
        Sgd(lr=1e-3),
        AVG,
        problem=Quadratic([1, 4], [0, 1], [1] * WIDTH),
        shared=(True,) * WIDTH,
        start=(0.0,) * WIDTH,
        rounds=4,
        steps=1,
        seed=seed,
        made=prepare,
        privacy={"clip": 0.5, "noise": 2.0, "delta": DELTA},
    )
    canaries = found[0].f.privacy.canaries
    scores = canaries.scores((found[-1].x - found[0].x).numpy())
    return verdict(scores, canaries.is_in, epsilon_of(1.0, DELTA), DELTA)


def test_a_correct_implementation_is_not_accused():
    found = [audited(seed=seed) for seed in range(3)]
    assert all(one.holds for one in found)
    assert np.mean([one.estimate for one in found]) == pytest.approx(4.377, abs=0.15)
    assert min(one.bound for one in found) > 2


def test_canaries_count_in_a_bound_that_adapts():
    """Each that takes part has a norm of C, which is within the bound."""
    study = tiny.study(
        grid={"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": ["P1"]},
        federation={"privacy": {"clip": 0.1, "quantile": 0.5}},
    )
    (cell,) = study.cells
    setup = TrainingSetup.for_study(study, tiny.dataset())
    federation = setup.make_federation(
        cell, study.plan.combinations.untuned_candidate(cell.combination)
    )
    privacy = Audited(federation, 40)
    privacy.mean(1, federation.x0.new_zeros(0, len(federation.x0)))
    assert privacy.excess_within(federation.x0.new_zeros(0)) == privacy.canaries.is_in.sum() / 2


def halved(privacy):
    privacy.scale /= 2


def unbounded(privacy):
    # As if canaries were not clipped.
    sent = privacy.canaries.sent
    privacy.canaries.sent = lambda t: (2 * sent(t)[0], sent(t)[1])


@pytest.mark.parametrize("broken", [halved, unbounded])
def test_a_wrong_implementation_is_caught(broken):
    found = [audited(broken, seed) for seed in range(3)]
    assert not any(one.holds for one in found)
    assert all(one.bound > one.epsilon for one in found)


def test_a_cell_of_a_study_can_be_audited():
    block = {"clip": 0.1, "noise": 1.0, "delta": 1e-3}
    study = tiny.study(
        grid={"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": ["P1", "P3"]},
        federation={"privacy": block, "rounds": 2},
    )
    shared, alone = study.cells
    found = audit(study, shared, tiny.dataset(), 40)
    assert found.holds
    assert found.epsilon == pytest.approx(epsilon_of(math.sqrt(2), DELTA))
    with pytest.raises(PlflError, match="no ε to audit"):
        audit(study, alone, tiny.dataset(), 40)


@pytest.fixture
def random():
    return np.random.default_rng(3)


def test_the_windows_of_a_sum_of_gradients_are_found(random):
    gradients, is_in = random.normal(size=(20, 50)), np.arange(20) < 10
    update = -0.1 * gradients[is_in].sum(0)
    assert membership(update, gradients, is_in) == 1
    assert membership(-update, gradients, is_in) == 0
    others = [membership(random.normal(size=50), gradients, is_in) for _ in range(200)]
    assert np.mean(others) == pytest.approx(0.5, abs=0.05)


def test_a_sender_is_found_by_other_rounds_alone(random):
    rounds, clients = (rows.ravel() for rows in np.indices((6, 5)))
    own = 2 * random.normal(size=(5, 40))[clients]
    updates = own + random.normal(size=own.shape)
    assert sender(updates, updates, clients, rounds) > 0.9
    # What tells clients apart in one round only is of no use.
    updates = random.normal(size=own.shape)
    assert sender(updates, updates, clients, rounds) < 0.5
    hidden = own + 1000 * random.normal(size=own.shape)
    assert sender(own, hidden, clients, rounds) < 0.5


def test_a_kind_is_learned_from_other_clients(random):
    clients, kinds = (
        rows.ravel() for rows in np.indices((6, 10)) % np.array([6, 2])[:, None, None]
    )
    common = np.outer(2 * kinds - 1, random.normal(size=30))
    updates = common + random.normal(size=common.shape)
    assert kind(updates, updates, kinds, clients) > 0.9
    # What each kind looks like differs from client to client.
    own = (2 * kinds - 1)[:, None] * 3 * random.normal(size=(6, 200))[clients]
    assert kind(own, own, kinds, clients) == pytest.approx(0.5, abs=0.35)
