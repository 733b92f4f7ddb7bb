"""Each attack finds what is there, and nothing where there is nothing."""

import numpy as np
import pytest

from plfl.federated.privacy.attacks import kind, membership, sender


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


def test_a_client_that_took_part_once_is_never_guessed():
    clients, rounds = np.array([0, 1, 0, 2]), np.array([1, 1, 2, 2])
    updates = np.array([[1.0], [9.0], [1.0], [9.0]])
    # In round 1, the means of clients 0 and 2 are known; in round 2, those of 0 and 1.
    assert sender(updates, updates, clients, rounds) == 0.5


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
