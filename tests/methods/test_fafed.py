"""FAFED on problems with known answers."""

from math import sqrt
from typing import Any

import pytest
from torch import Tensor

from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl_reproductions.fafed import FaFed
from plfl_reproductions.one_shot import OneShot
from tests.helpers.problems import QuadraticData, server_path, trajectory

SGD, AVG = Sgd(lr=0.1), FedAvg()


@pytest.mark.parametrize("a", [0.1, 1.0])
def test_one_step_a_round_is_preconditioned_gradient_descent(a: float) -> None:
    """With full batches the corrections add up to the mean gradient at x, whatever a."""
    beta, rho, x, v, expected = 0.5, 0.2, 2.0, 0.0, []
    for _ in range(5):
        gradients = [x, 4 * (x - 1)]
        v = beta * v + (1 - beta) * sum(g * g for g in gradients) / 2
        x -= 0.1 * sum(gradients) / 2 / (sqrt(v) + rho)
        expected.append(x)
    path = server_path(SGD, AVG, FaFed(a=a, beta=beta, rho=rho), steps=1, rounds=4)
    assert path == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("weights", "share"), [(None, 0.5), ((1.0, 3.0), 0.25)])
def test_two_steps_by_hand(weights: tuple[float, ...] | None, share: float) -> None:
    """Q2 with β = 0: v is the mean of the last squares, A its root plus 1.

    x̄ = 2, g = (2, 4). With equal weights m = 3, v = 10, A = √10 + 1, x = 2 − 0.3 / A.
    """

    def weighted(first: float, second: float) -> float:
        return share * first + (1 - share) * second

    start = weighted(2, 4)
    A = sqrt(weighted(4, 16)) + 1
    x = 2 - 0.1 * start / A
    sent = []
    for grad in (lambda y: y, lambda y: 4 * (y - 1)):
        first = grad(x) + 0.5 * (start - grad(2))
        y = x - 0.1 * first / A
        sent.append((y, grad(y) + 0.5 * (first - grad(x)), grad(y) ** 2))
    mean, m, v = (weighted(*pair) for pair in zip(*sent, strict=True))
    expected = [x, mean - 0.1 * m / (sqrt(v) + 1)]
    path = server_path(SGD, AVG, FaFed(a=0.5, beta=0, rho=1), rounds=1, weights=weights)
    assert path == pytest.approx(expected, rel=1e-12)


def test_the_first_gradients_are_of_minibatches_before_round_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds, drawn = [], QuadraticData.minibatches

    def minibatches(self: Any, clients: Tensor, t: int, steps: int) -> Tensor:
        rounds.append(t)
        return drawn(self, clients, t, steps)

    monkeypatch.setattr(QuadraticData, "minibatches", minibatches)
    for method in (FaFed(), OneShot()):
        trajectory(SGD, AVG, method, rounds=1)
        assert rounds == [0, 1]
        rounds.clear()
