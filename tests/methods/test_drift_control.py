"""FedProx, SCAFFOLD, FedDyn, FedADC, FedSplit, FAFED: reference values, fixed points and more."""

from math import sqrt
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from plfl.methods.fedprox import FedProx
from plfl.methods.scaffold import Scaffold
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.optimizers.server.fedadam import FedAdam
from plfl.optimizers.server.fedavg import FedAvg
from plfl_reproductions.methods.fafed import FaFed
from plfl_reproductions.methods.fedadc import FedADC
from plfl_reproductions.methods.fedadc_dm import FedADCDM
from plfl_reproductions.methods.feddyn import FedDyn
from plfl_reproductions.methods.fedsplit import FedSplit
from plfl_reproductions.methods.one_shot import OneShot
from tests.helpers.problems import (
    AVG,
    Q2,
    SGD,
    Quadratic,
    QuadraticData,
    in_turns,
    server_path,
    simulated,
    trajectory,
)

AVERAGING = SgdMomentum(lr=0.1, momentum=0.5, dampening=0.5)
"""The ClientOpt of FedADC with double momentum φ = 0.5."""
Q4 = Quadratic([1, 4, 0.5, 2], [0, 1, -3, 7], [1])


@pytest.mark.parametrize(
    ("method", "client_opt", "server_opt", "expected"),
    [
        (FedProx(mu=1), SGD, AVG, [2, 1.52, 1.2272, 1.048592]),
        (Scaffold(option="i"), SGD, AVG, [2, 1.49, 1.17665, 1.00481525]),
        (Scaffold(), SGD, AVG, [2, 1.49, 1.1819, 1.009049]),
        (FedDyn(alpha=1), SGD, AVG, [2, 1.04, 0.5036, 0.369524]),
        (FedDyn(alpha=0.5), SGD, AVG, [2.0, 1.01, 0.404225, 0.2415858125]),
        (FedADC(), SGD, AVG, [2, 1.49, 0.790025, 0.2309343125]),
        (FedADC(variant="nesterov"), SGD, AVG, [2, 1.49, 0.8852675, 0.4745884381]),
        (FedADC(beta_l=0.5), SGD, AVG, [2, 1.49, 0.764525, 0.1596618125]),
        (FedADC(beta_l=0.9, beta_g=None), SGD, AVG, [2, 1.49, 0.790025, 0.2309343125]),
        (FedADC(), SGD, FedAvg(lr=0.5), [2, 1.745, 1.3421, 0.9063305]),
        (FedADCDM(), AVERAGING, AVG, [2, 1.445, 0.67563125, 0.0773750703]),
    ],
    ids=str,
)
def test_trajectories_on_two_quadratics(method, client_opt, server_opt, expected):
    assert server_path(client_opt, server_opt, method) == pytest.approx(expected, abs=1e-9)


def test_clients_in_turns():
    """Participants {1}, {2}, {1}."""
    turns = [0], [1], [0]
    scaffold, feddyn = in_turns(Scaffold(), *turns), in_turns(FedDyn(alpha=1), *turns)
    path = server_path(SGD, AVG, scaffold)
    assert path == pytest.approx([2, 1.62, 1.0712, 0.877742], abs=1e-9)
    assert server_path(SGD, AVG, feddyn) == pytest.approx([2, 1.46, 0.866, 0.41138], abs=1e-9)


@pytest.mark.parametrize("method", [Scaffold(), FedDyn(alpha=1)], ids=str)
def test_weights_of_the_clients_weigh_their_share_of_the_objective(method):
    """(1·f₁ + 3·f₂) / 4 has its minimum at 12/13."""
    path = server_path(SGD, AVG, method, weights=(1.0, 3.0), rounds=100)
    assert path[-1] == pytest.approx(12 / 13, abs=1e-8)


def same(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a.global_models, b.global_models, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(a.local, b.local, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("client_opt", [SGD, Adam(lr=0.1)], ids=str)
@pytest.mark.parametrize("server_opt", [AVG, FedAdam(lr=0.1)], ids=str)
def test_fedprox_is_fedopt_with_proximal_clients(client_opt, server_opt):
    twin = Prox if client_opt.name == "sgd" else ProxAdam
    proximal = twin(**client_opt.model_dump(), mu=0.75)
    same(
        trajectory(client_opt, server_opt, FedProx(mu=0.75)), trajectory(proximal, server_opt, None)
    )
    still = trajectory(client_opt, server_opt, FedProx(mu=0))
    same(still, trajectory(client_opt, server_opt))


def test_scaffold_by_the_identity_and_by_the_mean_gradient():
    """Without momentum, `sgdm` is `sgd` that takes the other way."""
    mean = trajectory(SgdMomentum(lr=0.1, momentum=0), AVG, Scaffold(), rounds=6)
    same(mean, trajectory(SGD, AVG, Scaffold(), rounds=6))


def test_weight_decay_is_not_in_the_control_variates_of_scaffold():
    """Those of option `ii` are gradients of the losses alone, whatever the ClientOpt is."""
    plain, momentum = (
        trajectory(client_opt, AVG, Scaffold(), rounds=1)[-1].f.state
        for client_opt in (
            Sgd(lr=0.1, weight_decay=0.5),
            SgdMomentum(lr=0.1, momentum=0, weight_decay=0.5),
        )
    )
    assert plain.c_i[0].item() == pytest.approx((2 + 1.7) / 2)  # x = 2, then 2 − 0.1 · (2 + 1)
    torch.testing.assert_close(plain.c_i, momentum.c_i)


def test_a_proximal_term_is_towards_x_though_red_fedadc_starts_displaced():
    eta, mu, beta, x, m = 0.1, 1.0, 0.9, 2.0, 0.0
    for step in trajectory(Prox(lr=eta, mu=mu), AVG, FedADC(variant="nesterov"), rounds=4)[1:]:
        ends = []
        for a, c in zip(Q2.a.tolist(), Q2.c.tolist(), strict=True):
            y = x
            for _ in range(2):
                y -= eta * beta * m / 2
                y -= eta * (a * (y - c) + mu * (y - x))
            ends.append(y)
        m, x = (x - sum(ends) / 2) / eta, sum(ends) / 2
        assert step.x.item() == pytest.approx(x, abs=1e-12)


def test_tracking_clients_know_the_momentum_unless_they_missed_it():
    """Round by round: who gets x alone (8 bytes), and who needs m as well (16)."""
    turns = [0, 1], [0], [0, 1], [], [0, 1], [1], [0, 1]
    paths = {}
    for downlink in ("momentum", "tracking"):
        method = FedADC(beta_l=0.5, downlink=downlink)
        server = FedAvg(lr=0.7)
        paths[downlink] = trajectory(SGD, server, in_turns(method, *turns), rounds=len(turns))
    same(*paths.values())
    down = [step.report.traffic["bytes_down"].tolist() for step in paths["tracking"][1:]]
    assert down == [[8, 8], [8, 0], [8, 16], [0, 0], [8, 8], [0, 8], [16, 8]]


def test_a_download_behind_the_computation_by_hand():
    """Three numbers of 8 bytes come down at 8 B/s. Two of them take 2 s. These are behind the 5 s
    for which client 1 computes in a round, but not all of them behind the 1 s of client 0."""
    turns = [0], [0], [1], [0, 1]
    timed = simulated(step_seconds=[0.5, 2.5], down_mbit=64e-6, up_mbit=64e-6)
    paths = {
        downlink: trajectory(
            SGD,
            FedAvg(lr=0.7),
            in_turns(FedADC(beta_l=0.5, downlink=downlink), *turns),
            rounds=len(turns),
            made=timed,
        )
        for downlink in ("momentum", "overlapped")
    }
    for one, other in zip(*paths.values(), strict=True):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.local, other.local)
    plain, overlapped = ([s.report for s in steps[1:]] for steps in paths.values())
    assert [r.times.round for r in plain] == [2 + 1 + 1, 2 + 1 + 1, 2 + 5 + 1, 2 + 5 + 1]
    # After the first round: 1 s for D̄, and what of the 2 s is left.
    assert [r.times.round for r in overlapped] == [4, 1 + 1 + 1 + 1, 1 + 1 + 5 + 1, 1 + 5 + 1]
    assert overlapped[3].times.download.tolist() == [1, 1]
    assert [r.traffic["bytes_down"].sum() for r in overlapped] == [16, 24, 24, 48]


class SizedSgd(Sgd):
    """Steps of a = ½ / (1/s + L_i), a size for each of the clients 0 and 1 of Q2; s = ½."""

    def step(self, y: Tensor, g: Tensor, state: dict[str, Tensor], k: int | Tensor) -> None:
        y -= g * torch.tensor([[0.5 / 3], [0.5 / 6]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("method", "client_opt", "steps", "expected"),
    [
        # 150 steps at η = 0.1 are the proximal operator of Q2 to the last digit.
        (FedSplit(s=0.5), SGD, 150, [2, 0.6666666667, 0.6666666667, 0.8148148148]),
        (FedSplit(s=1), SGD, 150, [2, 0.2, 0.8, 0.8]),
        (FedSplit(s=0.5), SizedSgd(), 1, [2, 1.3333333333, 1.0, 0.8518518519, 0.7962962963]),
        (FedSplit(s=0.5), SizedSgd(), 3, [2, 0.8333333333, 0.6875, 0.7685185185]),
        (
            in_turns(FedSplit(s=0.5), *[[0], [1]] * 13),
            SGD,
            150,
            [2, 1.3333333333, 0.8888888889, 0.7407407407],
        ),
    ],
    ids=str,
)
def test_fedsplit_goes_to_the_minimum(method, client_opt, steps, expected):
    path = server_path(client_opt, AVG, method, steps=steps, rounds=26 if steps > 3 else 120)
    assert path[: len(expected)] == pytest.approx(expected, abs=1e-9)
    assert path[-1] == pytest.approx(0.8, abs=1e-9)


@pytest.mark.parametrize("method", [FedSplit(s=0.1), FaFed()], ids=str)
def test_personal_parameters_take_ordinary_steps(method):
    """Nothing of f depends on the shared coordinate, so the personal one is as without a server."""
    apart = Quadratic([1, 4], [0, 1], [0, 1])
    kwargs: dict[str, Any] = {"problem": apart, "start": (2.0, 2.0), "rounds": 4}
    beside = trajectory(SGD, AVG, method, shared=(True, False), **kwargs)[-1]
    alone = trajectory(SGD, AVG, shared=(False, False), **kwargs)[-1]
    torch.testing.assert_close(beside.local[:, 1], alone.local[:, 1], rtol=1e-12, atol=0)


PATTERNS = st.lists(st.sets(st.integers(0, 3)).map(sorted), min_size=1, max_size=6)


@settings(max_examples=10)
@given(PATTERNS, st.sampled_from([None, (1.0, 2.0, 3.0, 4.0)]))
def test_the_server_keeps_the_mean_of_what_the_clients_keep(turns, weights):
    """Whoever takes part."""
    share = torch.tensor(weights or (1.0,) * 4).double()
    for method, names in [
        (Scaffold(option="i"), ("c", "c_i")),
        (Scaffold(), ("c", "c_i")),
        (FedDyn(alpha=1), ("h", "h_i")),
    ]:
        given = {"problem": Q4, "rounds": len(turns), "weights": weights}
        state = trajectory(SGD, AVG, in_turns(method, *turns), **given)[0].f.state
        total, rows = (getattr(state, name) for name in names)
        torch.testing.assert_close(total, share @ rows / share.sum(), rtol=1e-9, atol=1e-9)
    split = in_turns(FedSplit(s=0.5), *turns)
    f = trajectory(SGD, AVG, split, problem=Q4, rounds=len(turns))[0].f
    torch.testing.assert_close(f.server.x, f.state.z.mean(0), rtol=1e-10, atol=1e-10)


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
    """Q2 with a = 0.3 and β = 0: v is the mean of the last squares, A its root plus 1.

    x̄ = 2, g = (2, 4). With equal weights m = 3, v = 10, A = √10 + 1, x = 2 − 0.3 / A.
    """

    def weighted(first: float, second: float) -> float:
        return share * first + (1 - share) * second

    start = weighted(2, 4)
    A = sqrt(weighted(4, 16)) + 1
    x = 2 - 0.1 * start / A
    sent = []
    for grad in (lambda y: y, lambda y: 4 * (y - 1)):
        first = grad(x) + 0.7 * (start - grad(2))
        y = x - 0.1 * first / A
        sent.append((y, grad(y) + 0.7 * (first - grad(x)), grad(y) ** 2))
    mean, m, v = (weighted(*pair) for pair in zip(*sent, strict=True))
    expected = [x, mean - 0.1 * m / (sqrt(v) + 1)]
    path = server_path(SGD, AVG, FaFed(a=0.3, beta=0, rho=1), rounds=1, weights=weights)
    assert path == pytest.approx(expected, rel=1e-12)


def test_the_first_gradients_are_of_minibatches_before_round_1(monkeypatch):
    rounds, drawn = [], QuadraticData.minibatches

    def minibatches(self: Any, clients: Tensor, t: int, steps: int) -> Tensor:
        rounds.append(t)
        return drawn(self, clients, t, steps)

    monkeypatch.setattr(QuadraticData, "minibatches", minibatches)
    for method in (FaFed(), OneShot()):
        trajectory(SGD, AVG, method, rounds=1)
        assert rounds == [0, 1]
        rounds.clear()
