"""FedEff: epochs that fit the clients' speeds, the round before the first, waiting times."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.config.sections import Simulation
from plfl.federated.clock import Clock
from plfl.federated.federation import Federation
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server import available
from plfl.optimizers.server.fedavg import FedAvg
from plfl_reproductions.fedeff import FedEff
from tests.helpers.problems import Quadratic, trajectory

SGD = Sgd(lr=0.1)
THREE = Quadratic([1, 4, 2], [0, 1, 3], [1])
DOWN, UP = 12, 8
"""Bytes of a message about one parameter in double precision: with E_i, and back."""


def simulated(sigma: list[float], beta: list[float]) -> Callable[[Federation], None]:
    """A clock of clients that need σ_i seconds a step, β_i to download and β_i to upload."""
    keys = {
        "step_seconds": sigma,
        "down_mbit": [DOWN * 8e-6 / seconds for seconds in beta],
        "up_mbit": [UP * 8e-6 / seconds for seconds in beta],
    }
    simulation = Simulation.model_validate(keys)
    return lambda f: setattr(f, "clock", Clock(simulation, f.client_data.names, f.seed))


def epochs(
    sigma: list[float], beta: list[float], rounds: int = 2, **parameters: Any
) -> list[tuple[list[float], float]]:
    """Epochs taken by each client in every round, and the seconds of the round."""
    path = trajectory(
        SGD,
        FedAvg(),
        FedEff(epoch_steps=1, **parameters),
        problem=THREE,
        rounds=rounds,
        made=simulated(sigma, beta),
    )
    times = [s.report.times for s in path[1:]]
    return [((t.compute / sigma).tolist(), t.round) for t in times]


def test_expected_numbers() -> None:
    """T = 14, and nobody is later; that of the slowest is the whole of it or less."""
    sigma, beta = [1.0, 2.0, 4.0], [0.5, 1.0, 2.0]
    _, (taken, seconds) = epochs(sigma, beta, epochs=10, tau=0.5)
    assert taken == pytest.approx([13, 6, 2])
    assert seconds == pytest.approx(14)
    _, (equal, longer) = epochs(sigma, beta, epochs=10, tau=0.5, schedule="EC")
    assert equal == pytest.approx([5, 5, 5])
    assert longer == pytest.approx(5 * 4 + 2 * 2)


def test_epochs_can_shrink_from_round_to_round() -> None:
    sigma, beta = [1.0, 2.0, 4.0], [0.5, 1.0, 2.0]
    shrinking: dict[str, Any] = {"rounds": 3, "epochs": 10, "tau": 0.8, "decay": 0.5}
    equal = [taken for taken, _ in epochs(sigma, beta, schedule="EIC", **shrinking)]
    assert equal == [pytest.approx([e] * 3) for e in (8, 4, 2)]
    unequal = [taken for taken, _ in epochs(sigma, beta, schedule="UEIC", **shrinking)]
    # E = 8, 4, 2 and so T = ⌈7/3 (E + 1)⌉ = 21, 12, 7, of which (1, 2, 4) go into the links.
    assert unequal == [pytest.approx(e) for e in ([20, 9, 4], [11, 5, 2], [6, 2, 1])]


def made() -> Federation:
    """A federation of three clients."""
    start, _ = trajectory(SGD, FedAvg(), FedEff(epoch_steps=1), problem=THREE, rounds=1)
    federation: Federation = start.f
    return federation


def test_no_epoch_is_lost_to_round_off() -> None:
    """0.58 · 50 is 29, and in floats less."""
    method = FedEff(schedule="EC", tau=0.58, epochs=50, epoch_steps=1)
    assert method.epochs_of(made(), 1).tolist() == [29] * 3


def test_a_client_whose_steps_take_no_time_takes_the_base_epochs() -> None:
    f = made()
    f.clock.step_seconds = np.array([0.0, 1.0, 2.0])
    assert FedEff(tau=0.5, epochs=10, epoch_steps=1).epochs_of(f, 1).tolist() == [5, 5, 2]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 500), min_size=3, max_size=3),
    st.integers(1, 100),
    st.integers(1, 400),
)
def test_epochs_that_fit_exactly_are_taken(hundredths: list[int], tau: int, tenths: int) -> None:
    """Seconds per epoch of two digits, E_b of one, by fractions."""
    f = made()
    simulated([h / 100 for h in hundredths], [1e-300] * 3)(f)
    method = FedEff(tau=tau / 100, epochs=tenths / 10, epoch_steps=1)
    sigma = [Fraction(h, 100) for h in hundredths]
    E = max(Fraction(1), Fraction(tau, 100) * Fraction(tenths, 10))
    T = math.ceil(E * sum(sigma) / 3)
    assert method.epochs_of(f, 1).tolist() == [max(1, math.floor(T / s)) for s in sigma]


@pytest.mark.parametrize("schedule", ["EC", "UEC"])
@pytest.mark.parametrize("weights", [None, (1.0, 3.0)])
def test_of_equal_speed_it_is_fedavg(schedule: Any, weights: Any) -> None:
    """From x after the round before the first; FedAvg with weights of windows."""
    method = FedEff(schedule=schedule, epochs=6, tau=0.5, epoch_steps=2)
    ours = trajectory(SGD, FedAvg(), method, weights=weights)
    start = tuple(ours[0].x.tolist())
    assert start == pytest.approx([1.49 if weights is None else 1.425])
    plain = trajectory(SGD, FedAvg(), weights=weights, start=start, steps=6)
    assert [s.x.item() for s in ours] == pytest.approx([s.x.item() for s in plain])


def test_the_round_before_the_first_keeps_personal_parts() -> None:
    """The personal part has learnt for an epoch by itself; a proximal term leaves it alone."""
    linear = Quadratic([1, 1], [1, 3], [1, 1])
    kwargs: dict[str, Any] = {"problem": linear, "shared": (True, False), "start": (0.0, 0.0)}
    path = trajectory(SGD, FedAvg(), FedEff(epoch_steps=2), rounds=1, **kwargs)
    assert path[0].x.tolist() == pytest.approx([0.36])
    assert path[0].local.flatten().tolist() == pytest.approx([0.18, 0.18, 0.54, 0.54])
    pulled = trajectory(Prox(lr=0.1, mu=1), FedAvg(), FedEff(epoch_steps=2), rounds=1, **kwargs)
    shared, personal = pulled[0].local[0].tolist()
    assert shared == pytest.approx(0.1 + 0.1 * (0.8 - 0.1))
    assert personal == pytest.approx(0.1 + 0.1 * 0.8)


@pytest.mark.parametrize("server", available().values(), ids=lambda c: c.name)
def test_every_server_starts_from_the_round_before_the_first(server: Any) -> None:
    path = trajectory(SGD, server(), FedEff(epoch_steps=2))
    assert path[0].x.flatten().tolist() == pytest.approx([1.49] * path[0].x.numel())
    assert path[-1].x.isfinite().all()
