"""CC-FedAdagrad, CC-FedAdam, CC-FedAMS and FedEff: values, clocks, stale updates, waiting times."""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from plfl.federated.federation import Federation
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.server.fedavg import FedAvg
from plfl.training.work import LocalWork
from plfl_reproductions.methods.cc_fedadagrad import CCFedAdagrad
from plfl_reproductions.methods.cc_fedadam import CCFedAdam
from plfl_reproductions.methods.cc_fedams import CCFedAMS
from plfl_reproductions.methods.fedeff import FedEff
from tests.helpers.problems import AVG, SGD, Quadratic, simulated, trajectory

FOUR = Quadratic([1, 4, 0.5, 2], [0, 1, -3, 7], [1, 1])


class Given(Quadratic):
    """Clients whose step_offset is given for every round."""

    def __init__(self, updates: list[tuple[float, ...]]):
        super().__init__([0, 0], [0, 0], [1])
        self.updates = iter(updates)

    def train(self, task: LocalWork) -> Tensor:
        given = torch.tensor(next(self.updates), dtype=torch.float64)
        task.rows.add_(given[:, None])
        return torch.zeros(len(task.rows), dtype=torch.float64)


def with_steps(base: type[CCFedAdagrad], steps: list[tuple[int, int]]) -> CCFedAdagrad:
    """The method with the clients' steps given for every round."""

    class Chosen(base):  # type: ignore[misc, valid-type]
        def draws(self, f: Federation, t: int, clients: Tensor) -> Tensor:
            return torch.tensor([(1, 0, k) for k in steps[t - 1]])

    return Chosen(steps=(1, 5))


@pytest.mark.parametrize(
    ("cls", "uneven", "even"),
    [
        (CCFedAdagrad, (0, 0.0098684211, 0.0193870437), (0.0099502488, 0.0233379449, 0.0355611224)),
        (CCFedAdam, (0, 0.0882352941, 0.1737392722), (0.0952380952, 0.2253150681, 0.3446554181)),
        (CCFedAMS, (0, 0.0882352941, 0.1735294118), (0.0952380952, 0.2253150681, 0.3440958828)),
    ],
)
def test_expected_numbers(cls, uneven, even):
    for steps, expected in (([(5, 1), (2, 4), (1, 1)], uneven), ([(1, 1)] * 3, even)):
        problem = Given([(0.5, -0.1), (0.2, 0.2), (0.01, 0)])
        path = trajectory(
            SGD, FedAvg(lr=0.1), with_steps(cls, steps), problem=problem, start=(0.0,)
        )
        assert [s.x.item() for s in path[1:]] == pytest.approx(expected, abs=1e-9)


class Late(CCFedAdagrad):
    """Both clients join in round 1, and the update of client 0 takes a round; later nobody does."""

    def draws(self, f: Federation, t: int, clients: Tensor) -> Tensor:
        drawn = [(t == 1, i == 0, 0) for i in clients.tolist()]
        return torch.tensor(drawn, dtype=torch.int64).reshape(len(clients), 3)


def test_a_stale_update_arrives_though_nobody_takes_part() -> None:
    """D = (−0.2, −0.4), both made from x = 2; the first comes when x has moved on."""
    path = trajectory(SGD, FedAvg(lr=0.1), Late(), rounds=3, steps=1)
    x1 = 2 + 0.1 * -0.04 / (0.16**0.5 + 1e-3)
    x2 = x1 + 0.1 * -0.056 / (0.2**0.5 + 1e-3)
    assert [s.x.item() for s in path] == pytest.approx([2, x1, x2, x2])
    assert [len(s.report.participants) for s in path[1:]] == [2, 0, 0]
    for traffic, expected in zip([s.report.traffic for s in path[1:]], (12, 0, 0), strict=True):
        assert set(traffic["bytes_down"]) == set(traffic["bytes_up"]) == {expected}


def test_a_stale_update_arrives_though_all_participants_drop_out() -> None:
    """As above, but client 1 joins again in rounds 2 and 3 and does not stay to the end of 2."""

    class Again(Late):
        def draws(self, f: Federation, t: int, clients: Tensor) -> Tensor:
            drawn = super().draws(f, t, clients)
            drawn[:, 0] |= (clients == 1) & (t >= 2)
            return drawn

    def made(f: Federation) -> None:
        f.clock.share_before_dropout = lambda t: np.array([1, 0.5 if t == 2 else 1])  # type: ignore[method-assign]

    path = trajectory(SGD, FedAvg(lr=0.1), Again(), rounds=3, steps=1, made=made)
    x1 = 2 + 0.1 * -0.04 / (0.16**0.5 + 1e-3)
    x2 = x1 + 0.1 * -0.056 / (0.2**0.5 + 1e-3)
    # The server hears of nobody at the end of round 2, and catches up when it opens round 3: what
    # it sends then is x2, where the gradient of client 1 is 4 (x2 − 1).
    D = -0.4 * (x2 - 1)
    x3 = x2 + 0.1 * (0.9 * -0.056 + 0.1 * D) / ((0.2 + D**2) ** 0.5 + 1e-3)
    assert [s.x.item() for s in path] == pytest.approx([2, x1, x1, x3])


def test_busy_clients_do_not_join() -> None:
    """With a delay of one or two rounds nobody is there twice in a row unless its delay was 0."""
    start, *path = trajectory(
        SGD,
        FedAvg(lr=0.01),
        CCFedAdam(max_delay=2),
        problem=FOUR,
        shared=(True, True),
        start=(0.0, 0.0),
        rounds=20,
    )
    joined, f = [s.report.participants.tolist() for s in path], start.f
    delays = set()
    for i in range(4):
        free = 1
        for t, present in enumerate(joined, 1):
            assert (i in present) == (t >= free)
            if i in present:
                delays.add(delay := int(f.method.draws(f, t, torch.tensor([i]))[0, 1]))
                free = t + delay + 1
    assert delays == {0, 1, 2}
    assert len({len(present) for present in joined}) > 1


def test_clocks_follow_the_client_not_its_place() -> None:
    """With another order of clients under the same names."""
    order = [2, 0, 3, 1]

    def run(order: list[int]) -> Tensor:
        a, c = np.array([1.0, 4, 0.5, 2])[order], np.array([0.0, 1, -3, 7])[order]
        names = [f"client {i}" for i in order]
        return trajectory(
            SGD,
            FedAvg(lr=0.01),
            CCFedAdam(join=0.5, max_delay=2, steps=(1, 5)),
            problem=Quadratic(list(a), list(c), [1, 1]),
            shared=(True, False),
            start=(0.0, 0.0),
            rounds=6,
            made=lambda f: setattr(f.client_data, "names", names),
        )[-1].local

    torch.testing.assert_close(run([0, 1, 2, 3])[order], run(order), rtol=1e-12, atol=1e-12)


THREE = Quadratic([1, 4, 2], [0, 1, 3], [1])
DOWN, UP = 12, 8
"""Bytes of a message about one parameter in double precision: with E_i, and back."""


def needing(sigma: list[float], beta: list[float]) -> Callable[[Federation], None]:
    """A clock of clients that need σ_i seconds a step, β_i to download and β_i to upload."""
    down, up = ([size * 8e-6 / seconds for seconds in beta] for size in (DOWN, UP))
    return simulated(step_seconds=sigma, down_mbit=down, up_mbit=up)


def epochs(
    sigma: list[float], beta: list[float], rounds: int = 2, **parameters: Any
) -> list[tuple[list[float], float]]:
    """Epochs taken by each client in every round, and the seconds of the round."""
    path = trajectory(
        SGD,
        AVG,
        FedEff(epoch_steps=1, **parameters),
        problem=THREE,
        rounds=rounds,
        made=needing(sigma, beta),
    )
    times = [s.report.times for s in path[1:]]
    return [((t.compute / sigma).tolist(), t.round) for t in times]


def test_expected_epochs() -> None:
    """T = 14, and nobody is later; that of the slowest is the whole of it or less."""
    sigma, beta = [1.0, 2.0, 4.0], [0.5, 1.0, 2.0]
    _, (taken, seconds) = epochs(sigma, beta, epochs=10, tau=0.5)
    assert taken == pytest.approx([13, 6, 2])
    assert seconds == pytest.approx(14)
    _, (equal, longer) = epochs(sigma, beta, epochs=10, tau=0.5, schedule="EC")
    assert equal == pytest.approx([5, 5, 5])
    assert longer == pytest.approx(5 * 4 + 2 * 2)


def test_the_time_of_coded_messages_is_that_of_their_bytes() -> None:
    """Only the first client has a slow link: 12 + 8 bytes, or 9 + 5 with signs and their scale."""
    links = [8e-6, 8e3, 8e3]  # the first takes a second for each byte
    speeds = {"step_seconds": [1.0, 2.0, 4.0], "down_mbit": links, "up_mbit": links}
    method = FedEff(epoch_steps=1, epochs=10, tau=0.5)
    # T = ⌈5 · 7/3 + 20/3⌉ = 19, or ⌈5 · 7/3 + 14/3⌉ = 17.
    for codecs, taken in ((None, [1, 9, 4]), ({"up": "sign", "down": "sign"}, [3, 8, 4])):
        path = trajectory(
            SGD, AVG, method, problem=THREE, rounds=2, simulation=speeds, codecs=codecs
        )
        assert (path[-1].report.times.compute / [1, 2, 4]).tolist() == pytest.approx(taken)


def test_the_speeds_of_clients_may_be_columns_of_a_file(tmp_path: Path) -> None:
    """The numbers of `test_expected_epochs`, in another order of the clients."""
    rows = ["client,seconds,down,up"]
    for i, sigma, beta in ((2, 4.0, 2.0), (0, 1.0, 0.5), (1, 2.0, 1.0)):
        rows.append(f"client {i},{sigma},{DOWN * 8e-6 / beta!r},{UP * 8e-6 / beta!r}")
    file = tmp_path / "speeds.csv"
    file.write_text("\n".join(rows) + "\n")
    columns = {"step_seconds": "seconds", "down_mbit": "down", "up_mbit": "up"}
    simulation = {key: f"{file}:{column}" for key, column in columns.items()}
    method = FedEff(epoch_steps=1, epochs=10, tau=0.5)
    path = trajectory(SGD, AVG, method, problem=THREE, rounds=2, simulation=simulation)
    times = path[-1].report.times
    assert (times.compute / [1, 2, 4]).tolist() == pytest.approx([13, 6, 2])
    assert times.round == pytest.approx(14)


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
    start, _ = trajectory(SGD, AVG, FedEff(epoch_steps=1), problem=THREE, rounds=1)
    federation: Federation = start.f
    return federation


@settings(max_examples=50)
@given(
    st.lists(st.integers(1, 500), min_size=3, max_size=3), st.integers(1, 100), st.integers(1, 400)
)
def test_epochs_that_fit_exactly_are_taken(hundredths: list[int], tau: int, tenths: int) -> None:
    """Seconds per epoch of two digits, E_b of one, by fractions."""
    f = made()
    needing([h / 100 for h in hundredths], [1e-300] * 3)(f)
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
    ours = trajectory(SGD, AVG, method, weights=weights)
    start = tuple(ours[0].x.tolist())
    assert start == pytest.approx([1.49 if weights is None else 1.425])
    plain = trajectory(SGD, AVG, weights=weights, start=start, steps=6)
    assert [s.x.item() for s in ours] == pytest.approx([s.x.item() for s in plain])


def test_the_round_before_the_first_keeps_personal_parts() -> None:
    """The personal part has learnt for an epoch by itself; a proximal term leaves it alone."""
    linear = Quadratic([1, 1], [1, 3], [1, 1])
    kwargs: dict[str, Any] = {"problem": linear, "shared": (True, False), "start": (0.0, 0.0)}
    path = trajectory(SGD, AVG, FedEff(epoch_steps=2), rounds=1, **kwargs)
    assert path[0].x.tolist() == pytest.approx([0.36])
    assert path[0].local.flatten().tolist() == pytest.approx([0.18, 0.18, 0.54, 0.54])
    pulled = trajectory(Prox(lr=0.1, mu=1), AVG, FedEff(epoch_steps=2), rounds=1, **kwargs)
    shared, personal = pulled[0].local[0].tolist()
    assert shared == pytest.approx(0.1 + 0.1 * (0.8 - 0.1))
    assert personal == pytest.approx(0.1 + 0.1 * 0.8)
