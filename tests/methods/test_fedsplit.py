"""FedSplit: reference values, exact fixed points, the mean of the z_i."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from plfl.federated.federation import Federation
from plfl.methods.fedsplit import FedSplit, State
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from tests.helpers.problems import Quadratic, server_path, trajectory

EXACT: dict[str, Any] = {"steps": 150}
"""Enough local steps at η = 0.1 for the proximal operator of Q2 to the last digit."""
SGD = Sgd(lr=0.1)
FOUR = Quadratic([1, 4, 0.5, 2], [0, 1, -3, 7], [1, 1])


class SizedSgd(Sgd):
    """Steps of a = ½ / (1/s + L_i), a size for each of the clients 0 and 1 of Q2; s = ½."""

    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        y -= g * torch.tensor([[0.5 / 3], [0.5 / 6]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("s", "expected"),
    [
        (0.5, [2, 0.6666666667, 0.6666666667, 0.8148148148]),
        (1.0, [2, 0.2, 0.8, 0.8]),
    ],
)
def test_exact_proximal_operator(s: float, expected: list[float]) -> None:
    path = server_path(SGD, FedAvg(), FedSplit(s=s), **EXACT)
    assert path == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, [2, 1.3333333333, 1.0, 0.8518518519, 0.7962962963, 0.7818930041]),
        (3, [2, 0.8333333333, 0.6875, 0.7685185185]),
    ],
)
def test_inexact_proximal_operator(steps: int, expected: list[float]) -> None:
    path = server_path(SizedSgd(), FedAvg(), FedSplit(s=0.5), steps=steps, rounds=120)
    assert path[: len(expected)] == pytest.approx(expected, abs=1e-9)
    assert path[-1] == pytest.approx(0.8, abs=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 20])
def test_the_fixed_point_is_the_minimum(steps: int) -> None:
    """Z* = x* − s ∇f_i(x*)."""
    seen: list[Federation] = []
    path = server_path(SGD, FedAvg(), FedSplit(s=0.5), steps=steps, rounds=150, made=seen.append)
    assert path[-1] == pytest.approx(0.8, abs=1e-9)
    assert seen[0].state.z.flatten().tolist() == pytest.approx([0.4, 1.2], abs=1e-8)


class OneByOne(FedSplit):
    """Client 0 in odd rounds, client 1 in even ones."""

    def select(self, f: Federation, state: State, t: int, drawn: Tensor) -> Tensor:
        return drawn[(t + 1) % 2 :][:1]


def test_one_client_at_a_time() -> None:
    path = server_path(SGD, FedAvg(), OneByOne(s=0.5), rounds=60, **EXACT)
    expected = [2, 1.3333333333, 0.8888888889, 0.7407407407]
    assert path[:4] == pytest.approx(expected, abs=1e-9)
    assert path[-1] == pytest.approx(0.8, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(True, True), (True, False), (False, True)]),
    st.sampled_from([0.25, 0.5, 0.75, 1.0]),
    st.integers(1, 6),
    st.integers(0, 2**32),
)
def test_under_random_participation(
    shared: tuple[bool, bool], share: float, rounds: int, seed: int
) -> None:
    """X is the mean of all z_i."""
    seen: list[Federation] = []
    path = trajectory(
        SGD,
        FedAvg(),
        FedSplit(s=0.5),
        problem=FOUR,
        shared=shared,
        start=(1.0, -1.0),
        rounds=rounds,
        participation=share,
        seed=seed,
        made=seen.append,
    )
    mean = seen[0].state.z.mean(0)
    torch.testing.assert_close(path[-1].x, mean, rtol=1e-10, atol=1e-10)


def test_personal_parameters_take_ordinary_steps() -> None:
    """Nothing of f depends on the shared coordinate, so the personal one is as without a server."""
    apart = Quadratic([1, 4], [0, 1], [0, 1])
    kwargs: dict[str, Any] = {"problem": apart, "start": (2.0, 2.0), "rounds": 4}
    split = trajectory(SGD, FedAvg(), FedSplit(s=0.1), shared=(True, False), **kwargs)[-1]
    alone = trajectory(SGD, FedAvg(), shared=(False, False), **kwargs)[-1]
    assert torch.equal(split.local[:, 1], alone.local[:, 1])
    assert split.x.item() == 2
