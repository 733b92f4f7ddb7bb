"""Rules of selection: which clients the server asks to take part in a round."""

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import ConfigError
from plfl.config.federation import FederationSettings
from plfl.federated.participation import RULES, Selection
from plfl_images.data.splits import sort_and_partition
from tests.helpers.refusals import naming

NAMES = [f"{i:02}" for i in range(100)]


def held(seed: int, s: int = 2, clients: int = 100) -> NDArray[np.bool_]:
    """The labels of clients with `s` shards of ten classes."""
    labels = np.arange(1200) % 10
    parts = sort_and_partition(labels, clients, s, np.random.default_rng(seed))
    return np.array([np.bincount(labels[own], minlength=10) > 0 for own in parts])


def chosen(rule: str, t: int, share: float, labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    return Selection(0, NAMES[: len(labels)], share, RULES[rule], labels).draw(t)


def test_the_order_of_the_clients_does_not_matter() -> None:
    for rule in ("uniform", "poisson", "allocation"):
        drawn = [
            {names[i] for i in Selection(0, names, 0.3, RULES[rule], rounds=5).draw(2)}
            for names in (NAMES, NAMES[::-1])
        ]
        assert drawn[0] == drawn[1], rule


def test_every_rule_can_be_configured() -> None:
    assert list(RULES) == list(get_args(FederationSettings.model_fields["selection"].annotation))


def test_data_aware_draws_are_those_uniform_draws_that_are_complete() -> None:
    labels = held(1)
    equal = 0
    for t in range(1, 41):
        plain, aware = (chosen(rule, t, 0.1, labels) for rule in ("uniform", "data_aware"))
        assert labels[aware].any(0).all()
        assert len(aware) == len(set(aware.tolist())) == 10
        assert aware.tolist() == sorted(aware)
        if labels[plain].any(0).all():
            assert (plain == aware).all()
            equal += 1
    assert 0 < equal < 40


def test_a_rare_cover_is_found_greedily_and_differs_from_round_to_round() -> None:
    """Five of a hundred clients with two labels each: a draw is complete once in 10⁵ times."""
    labels = held(1)
    found = [tuple(chosen("data_aware", t, 0.05, labels)) for t in range(1, 4)]
    assert all(labels[list(some)].any(0).all() and len(some) == 5 for some in found)
    assert len(set(found)) > 1


def test_an_impossible_cover_is_an_error() -> None:
    with naming(ConfigError, "4 of 100 clients", "10 labels"):
        chosen("data_aware", 1, 0.04, held(1))
