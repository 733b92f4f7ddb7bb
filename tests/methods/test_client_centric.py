"""CC-FedAdagrad, CC-FedAdam, CC-FedAMS: reference values, clocks, stale updates."""

import numpy as np
import pytest
import torch
from torch import Tensor

from plfl.base.errors import ConfigError
from plfl.federated.federation import Federation
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl.training.task import LocalTask
from plfl_reproductions.cc_fedadagrad import CCFedAdagrad
from plfl_reproductions.cc_fedadam import CCFedAdam
from plfl_reproductions.cc_fedams import CCFedAMS
from tests.helpers import tiny
from tests.helpers.problems import Quadratic, trajectory
from tests.helpers.refusals import naming

SGD = Sgd(lr=0.1)
FOUR = Quadratic([1, 4, 0.5, 2], [0, 1, -3, 7], [1, 1])


class Given(Quadratic):
    """Clients whose step_offset is given for every round."""

    def __init__(self, updates: list[tuple[float, ...]]):
        super().__init__([0, 0], [0, 0], [1])
        self.updates = iter(updates)

    def train(self, task: LocalTask) -> Tensor:
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
        (
            CCFedAdagrad,
            (0, 0.0098684211, 0.0193870437),
            (0.0099502488, 0.0233379449, 0.0355611224),
        ),
        (CCFedAdam, (0, 0.0882352941, 0.1737392722), (0.0952380952, 0.2253150681, 0.3446554181)),
        (CCFedAMS, (0, 0.0882352941, 0.1735294118), (0.0952380952, 0.2253150681, 0.3440958828)),
    ],
)
def test_expected_numbers(
    cls: type[CCFedAdagrad], uneven: tuple[float, ...], even: tuple[float, ...]
) -> None:
    for steps, expected in (([(5, 1), (2, 4), (1, 1)], uneven), ([(1, 1)] * 3, even)):
        problem = Given([(0.5, -0.1), (0.2, 0.2), (0.01, 0)])
        path = trajectory(
            SGD, FedAvg(lr=0.1), with_steps(cls, steps), problem=problem, start=(0.0,)
        )
        assert [s.x.item() for s in path[1:]] == pytest.approx(expected, abs=1e-9)


def test_the_range_of_steps_can_be_a_single_number() -> None:
    """A range that leaves no choice is the study's number of steps."""
    fixed = trajectory(SGD, FedAvg(lr=0.1), CCFedAdam(steps=(4, 4)), steps=9)
    plain = trajectory(SGD, FedAvg(lr=0.1), CCFedAdam(), steps=4)
    assert [s.x.item() for s in fixed] == [s.x.item() for s in plain]


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
    assert [len(s.report.present) for s in path[1:]] == [2, 0, 0]
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
        f.clock.progress = lambda t: np.array([1, 0.5 if t == 2 else 1])  # type: ignore[method-assign]

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
    joined, f = [s.report.present.tolist() for s in path], start.f
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


@pytest.mark.parametrize("steps", [[3, 2], [0, 2]])
def test_a_range_of_steps_that_is_none_is_refused(steps: list[int]) -> None:
    grid = {"method": ["cc_fedadam"], "client_opt": ["sgd"], "server_opt": ["fedavg"]}
    with naming(ConfigError, "method.cc_fedadam", f"{steps}"):
        tiny.study(grid=grid, method={"cc_fedadam": {"steps": steps}})
