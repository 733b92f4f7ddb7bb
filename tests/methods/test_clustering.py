"""The five clustering methods: expected numbers, identities, bytes, invariants, a real run."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from plfl.base.errors import ConfigError
from plfl.experiments.training_setup import network_of
from plfl.federated.client_data import ClientData
from plfl.federated.federation import Federation
from plfl.interfaces.method import ClusterState, Method
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server import ServerOpt
from plfl.optimizers.server.fedadam import FedAdam
from plfl.optimizers.server.fedavg import FedAvg
from plfl.optimizers.server.fedavgm import FedAvgM
from plfl.tasks.forecast import Forecast
from plfl.training.stacked import Stacked
from plfl_reproductions.methods.clusters import k_means
from plfl_reproductions.methods.fedac import FedAC, nearest, spread
from plfl_reproductions.methods.fedcluster import FedCluster
from plfl_reproductions.methods.fedsc import FedSC, link_clusters
from plfl_reproductions.methods.ifca import Ifca
from plfl_reproductions.methods.one_shot import OneShot
from tests.helpers import tiny
from tests.helpers.problems import AVG, SGD, Quadratic, QuadraticData, in_turns, trajectory
from tests.helpers.refusals import naming

double = partial(torch.tensor, dtype=torch.float64)
FOUR = Quadratic([1, 1, 1, 1], [-3, -2.5, 2, 3], [1, 1])
"""Two pairs of clients that want opposite things."""


def states_of_four(method: Method, server_opt: ServerOpt | None = None, **kwargs: Any) -> list[Any]:
    options = {"problem": FOUR, "shared": (True, True), "start": (0.1, 0.1)} | kwargs
    return trajectory(SGD, server_opt or AVG, method, **options)


TWELVE = Quadratic([1] * 12, [0] * 6 + [10] * 4 + [20] * 2, [1])
"""Three clusters, of six, four and two clients."""
SIZES = [list(range(6)), list(range(6, 10)), [10, 11]]


def taking_part(method: Method, share: float, rounds: int = 40) -> list[list[int]]:
    """How many of each of the clusters of `TWELVE` take part in every round."""
    path = trajectory(SGD, AVG, method, problem=TWELVE, rounds=rounds, participation=share)
    return [
        [int(np.isin(members, step.report.participants).sum()) for members in SIZES]
        for step in path[1:]
    ]


def with_clusters(cluster: list[int], **options: Any) -> FedCluster:
    """The method where each client is in a given cluster."""

    class Given(FedCluster):
        def init(self, f: Federation) -> ClusterState:
            return ClusterState(torch.tensor(cluster))

    return Given(**options)


GIVEN = with_clusters([j for j, members in enumerate(SIZES) for _ in members])


@pytest.mark.parametrize("method", [FedSC(clusters=3), GIVEN], ids=str)
@pytest.mark.parametrize(("share", "counts"), [(0.25, [2, 1, 1]), (0.5, [3, 2, 1]), (0.1, [1] * 3)])
def test_a_share_of_each_cluster_takes_part(method, share, counts):
    """Of 6, 4 and 2: halves are rounded up, and nobody's cluster is skipped."""
    assert taking_part(method, share) == [counts] * 40


# One-shot clustering


def test_one_shot_finds_the_clusters_and_starts_from_their_means() -> None:
    before, *_ = states_of_four(OneShot(clusters=2, alone=3))
    assert before.f.state.cluster.tolist() == [0, 0, 1, 1]
    # Alone for 3 rounds of 2 steps, u = w₀ + w₁ keeps 0.8⁶ of its distance to c_i.
    alone = FOUR.c + (0.2 - FOUR.c) * 0.8**6
    expected = alone.view(2, 2).mean(1) / 2
    torch.testing.assert_close(before.x, expected[:, None].expand(2, 2))


@pytest.mark.parametrize("server_opt", [AVG, FedAvgM(), FedAdam(lr=0.1)], ids=str)
def test_one_shot_is_a_federation_in_each_cluster(server_opt: ServerOpt) -> None:
    before, *rounds = states_of_four(OneShot(clusters=2), server_opt, rounds=4)
    for j, members in enumerate([slice(0, 2), slice(2, 4)]):
        part = Quadratic([1, 1], FOUR.c[members].tolist(), [1, 1])
        start = tuple(before.x[j].tolist())
        apart = states_of_four(OneShot(clusters=1), server_opt, problem=part, rounds=4)
        torch.testing.assert_close(apart[0].x[0], before.x[j])
        fedopt = trajectory(
            SGD, server_opt, problem=part, shared=(True, True), start=start, rounds=4
        )
        for whole, alone, plain in zip(rounds, apart[1:], fedopt[1:], strict=True):
            torch.testing.assert_close(whole.x[j], plain.x, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(alone.x[0], plain.x, rtol=1e-12, atol=1e-12)


# IFCA


def start_from(*models: float) -> Any:
    def made(f: Federation) -> None:
        f.server.state["x"] = double(models)[:, None]

    return made


@pytest.mark.parametrize(
    ("averaging", "models", "expected"),
    [
        ("gradient", (0.3, 0.8), [(0.25, 0.9), (0.2125, 0.975), (0.184375, 1.03125)]),
        ("model", (0.3, 0.8), [(0.15, 1.1), (0.1125, 1.175), (0.103125, 1.19375)]),
    ],
)
def test_ifca_expected_numbers(averaging, models, expected):
    problem, method = Quadratic([1] * 4, [0, 0.2, 1, 1.4], [1]), Ifca(averaging=averaging)
    made = start_from(*models)
    start, *rounds = trajectory(Sgd(lr=0.5), AVG, method, problem=problem, made=made)
    for after, numbers in zip(rounds, expected, strict=True):
        assert after.x.flatten().tolist() == pytest.approx(numbers, abs=1e-12)
    assert start.f.state.cluster.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("averaging", "expected"),
    [("gradient", [(0.2, 0.8), (0.2, 0.9)]), ("gradient_by_all", [(0.25, 0.8), (0.25, 0.825)])],
)
def test_ifca_divides_gradients_by_the_participants_or_by_all(averaging, expected):
    """γ = ½, θ = (0.3, 0.8): in round 1 two of four clients, with gradients 0.3 and 0.1, choose
    θ₁; in round 2 one, with the gradient −0.2, chooses θ₂. Line 14 divides by m = 4."""
    problem = Quadratic([1] * 4, [0, 0.2, 1, 1.4], [1])
    method = in_turns(Ifca(averaging=averaging), [0, 1], [2])
    options: Any = {"problem": problem, "made": start_from(0.3, 0.8), "rounds": 2}
    _, *rounds = trajectory(Sgd(lr=0.5), AVG, method, **options)
    assert [after.x.flatten().tolist() for after in rounds] == [pytest.approx(e) for e in expected]


def test_ifca_draws_other_windows_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the clients compare the models, each with its own personal part."""
    seen, losses, own = set(), QuadraticData.losses, torch.tensor([[1.0], [2], [3], [4]]).double()

    def watched(
        self: Any, rows: Any, clients: Any, t: int = 0, most_windows: int | None = None
    ) -> Any:
        seen.add((t, most_windows))
        assert torch.equal(rows[:, 1:], own[clients])
        return losses(self, rows, clients, t, most_windows)

    def made(f: Federation) -> None:
        f.local[:, 1:] = own

    monkeypatch.setattr(QuadraticData, "losses", watched)
    still = Quadratic([1] * 4, FOUR.c.tolist(), [1, 0])
    options: Any = {"problem": still, "shared": (True, False), "participation": 0.5, "made": made}
    states_of_four(Ifca(probe=7), rounds=2, **options)
    assert seen == {(0, 7), (1, 7), (2, 7)}, "round 0: when models are scored"


# FedCluster

ORDERS = [
    ([0, 1], [1.62, 1.2232, 0.990792, 0.99668512, 0.8073149472, 0.930633381]),
    (
        [1, 0],
        [1.36, 1.1016, 1.036576, 0.83962656, 0.9422655616, 0.7632351049],
    ),
]


@pytest.mark.parametrize(("turn", "expected"), ORDERS, ids=["1,2", "2,1"])
def test_fedcluster_expected_numbers(turn: list[int], expected: list[float]) -> None:
    _, *rounds = trajectory(SGD, AVG, with_clusters(turn, order="fixed"))
    # With one client a cluster, what it ends at is what the server then has.
    path = [after.local[i].item() for after in rounds for i in turn]
    assert path == pytest.approx(expected, abs=1e-9)
    assert [after.x.item() for after in rounds] == pytest.approx(expected[1::2], abs=1e-9)


def test_fedcluster_reshuffles_the_order() -> None:
    orders = set()
    _, *rounds = trajectory(SGD, AVG, with_clusters([0, 1]), rounds=12)
    for after in rounds:
        # The client whose turn came last is where the server is.
        orders.add((after.local[:, 0] == after.x).nonzero().item())
    assert orders == {0, 1}


def test_fedcluster_steps_its_one_server_in_every_cycle() -> None:
    """Clusters in turn are rounds of their own, with the same momentum."""
    method = with_clusters([0, 1], order="fixed")
    _, first = trajectory(SGD, FedAvgM(beta=0.5), method, rounds=1)
    D1 = 2 * 0.81 - 2
    x1 = 2 + D1
    D2 = (1 + (x1 - 1) * 0.36) - x1
    assert first.state["m"].item() == pytest.approx(0.5 * D1 + D2)
    assert first.x.item() == pytest.approx(x1 + 0.5 * D1 + D2)


def test_fedcluster_draws_clusters_of_equal_size() -> None:
    problem = Quadratic([1.0] * 10, [0.0] * 10, [1])
    kept = [
        trajectory(SGD, AVG, FedCluster(), problem=problem, rounds=1, seed=seed)[0].f
        for seed in (0, 1, 2)
    ]
    drawn = [f.state.cluster.tolist() for f in kept]
    for labels in drawn:
        assert sorted(map(labels.count, (0, 1, 2))) == [3, 3, 4]
        assert labels[0] == 0
    assert drawn[0] != drawn[1] != drawn[2]
    # The same names are together in any order of the clients.
    f, together = kept[0], []
    for _ in range(2):
        state = f.method.init(f)
        assert isinstance(state, ClusterState)
        names = np.array(f.client_data.names)
        together.append({frozenset(names[state.cluster == k].tolist()) for k in (0, 1, 2)})
        f.client_data.names.reverse()
    assert together[0] == together[1]


# FedSC


def test_fedsc_merges_the_closest_clusters() -> None:
    shares = np.array([(1, 0, 0), (0.9, 0.1, 0), (0, 1, 0), (0, 0.8, 0.2), (0, 0, 1)])
    assert link_clusters(shares, 4).tolist() == [0, 0, 1, 2, 3]
    assert link_clusters(shares, 2).tolist() == [0, 0, 0, 0, 1]
    assert link_clusters(shares[:1], 1).tolist() == [0]


def test_fedsc_attribute_is_the_share_of_each_pooled_quantile_bin() -> None:
    low, high = np.arange(4.0), np.arange(4.0, 8.0)
    histograms = Forecast().histograms
    assert histograms([low, high], 4).tolist() == [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]
    assert histograms([low, np.r_[low, high, high]], 2).tolist() == [[1, 0], [1 / 3, 2 / 3]]


def test_fedsc_hands_the_model_on_from_cluster_to_cluster() -> None:
    start, *rounds = trajectory(SGD, AVG, FedSC(clusters=2), weights=(1.0, 3.0))
    assert start.f.state.cluster.tolist() == [0, 1]
    path = [after.local[i].item() for after in rounds for i in (0, 1)]
    assert path == pytest.approx(ORDERS[0][1], abs=1e-9)


def test_fedsc_trains_all_clusters_at_once_as_its_algorithm_1() -> None:
    """With η = 0.1 for the server, too: D = (−0.19 x, −0.64 (x − 1)), of which the second counts
    three times. By hand: x₁ = 2 − 0.0575, x₂ = x₁ − 0.054466875."""
    start, *rounds = trajectory(
        SGD, FedAvg(lr=0.1), FedSC(clusters=2, order="at_once"), weights=(1.0, 3.0), rounds=2
    )
    assert start.f.state.cluster.tolist() == [0, 1]
    assert [after.x.item() for after in rounds] == pytest.approx([1.9425, 1.888033125], abs=1e-12)
    assert [len(after.report.participants) for after in rounds] == [2, 2]


# FedAC

OMEGA = double([(1, 0.2), (0.8, 0.1), (-0.9, 0.3), (-1.1, 0.5)])
STILL = Quadratic([0] * 4, [0] * 4, [1, 1])


def example(**options: Any) -> tuple[Any, Federation]:
    """The example's clients after a round in which they learn nothing, and the server as it is."""

    def made(f: Federation) -> None:
        f.local = OMEGA.clone()
        f.server.state["x"] = double([(1, 0), (-1, 0)])
        f.state.components = torch.eye(2).double()

    method = FedAC(mu=0, lam=0, embedding=["w0"], **options)
    *_, last = states_of_four(method, problem=STILL, rounds=1, made=made)
    return last, last.f


def test_fedac_expected_numbers_of_the_server() -> None:
    last, f = example()
    assert f.state.cluster.tolist() == [0, 0, 1, 1]
    assert last.x.tolist() == [pytest.approx([0.9, 0.15]), pytest.approx([-1, 0.4])]
    assert f.state.Phi.tolist() == pytest.approx([-0.05])
    G, apart = spread(OMEGA, last.x, f.state.cluster)
    assert apart[0, 1] == pytest.approx(3.6725)
    assert (G * 3.6725).tolist() == pytest.approx([0.0125, 0.02])
    assert G.tolist() == pytest.approx([0.003403676, 0.0054458816], abs=1e-9)


def test_fedac_expected_numbers_of_a_local_step() -> None:
    # A gradient of (.3, −.2) at the client's own ω.
    problem = Quadratic([1], [0.26 - 1], [0.3, -0.2])

    def made(f: Federation) -> None:
        f.server.state["x"] = double([(0.9, 0.15)])
        f.state.Phi = double([-0.05])

    method = FedAC(clusters=1, mu=0.5, lam=0.25, embedding=["w0"])
    for steps, expected in ((1, [0.93875, 0.2175]), (2, [0.88275, 0.2336875])):
        options: Any = {"start": (1.0, 0.2), "rounds": 1, "steps": steps, "made": made}
        *_, last = states_of_four(method, problem=problem, **options)
        assert last.local[0].tolist() == pytest.approx(expected)


def test_fedac_merges_a_cluster_of_little_spread_into_the_closest() -> None:
    last, f = example(merge_below=0.004)
    assert f.state.cluster.tolist() == [0, 0, 0, 0]
    assert last.x.tolist() == [pytest.approx([-0.05, 0.275])]


def test_fedac_splits_a_cluster_of_much_spread() -> None:
    last, f = example(split_above=0.005)
    labels = f.state.cluster.tolist()
    assert labels in ([0, 0, 1, 2], [0, 0, 2, 1])
    assert last.x[0].tolist() == pytest.approx([0.9, 0.15])
    assert torch.equal(last.x[labels[2:]], OMEGA[2:])


def test_fedac_merges_the_cluster_of_least_spread_first() -> None:
    """The outer two of three clusters are below; both would join the one in the middle."""
    problem = Quadratic([0] * 6, [0] * 6, [1, 1])
    f = states_of_four(FedAC(clusters=1, merge_below=0.01), problem=problem, rounds=1)[0].f
    for rows, joined in (
        ([(0, 0.1), (1, 1.0), (3, 0.2)], [0, 0, 0, 0, 1, 1]),
        ([(3, 0.2), (1, 1.0), (0, 0.1)], [0, 0, 1, 1, 1, 1]),
    ):
        f.state.omega = double([(x, sign * y) for x, y in rows for sign in (1, -1)])
        f.state.cluster = torch.tensor([0, 0, 1, 1, 2, 2])
        f.server.state["x"] = double([(x, 0) for x, _ in rows])
        f.method.tune(f, f.state)  # type: ignore[attr-defined]
        assert f.state.cluster.tolist() == joined


def test_fedac_of_half_of_the_clients_takes_weighted_means() -> None:
    weights = (1.0, 2.0, 3.0, 4.0)
    options: Any = {"participation": 0.5, "weights": weights, "rounds": 2}
    *_, last = states_of_four(FedAC(clusters=1, embedding=["w0"]), **options)
    state, present = last.f.state, last.report.participants
    assert len(present) == 2
    some = double(weights)[present]
    torch.testing.assert_close(state.Phi, some @ last.local[present][:, :1] / some.sum())
    torch.testing.assert_close(last.x[0], double(weights) @ last.local / 10)


def test_fedac_fits_its_components_anew_after_some_rounds() -> None:
    fitted = [states_of_four(FedAC(refresh=2), rounds=t)[0].f.state.components for t in (1, 2, 3)]
    assert torch.equal(fitted[0], fitted[1]) and not torch.equal(fitted[1], fitted[2])


def test_fedac_finds_its_first_clusters_by_itself() -> None:
    *_, last = states_of_four(FedAC(mu=0, lam=0, embedding=["w0"]))
    assert last.f.state.cluster.tolist() == [0, 0, 1, 1]
    expected = last.local.view(2, 2, 2).mean(1)
    torch.testing.assert_close(last.x, expected)


# All of them


@pytest.mark.parametrize("cls", [OneShot, FedCluster, FedSC, FedAC])
def test_more_clusters_than_clients_are_refused(cls: Any) -> None:
    with naming(ConfigError, "5 clusters", "4 clients"):
        states_of_four(cls(clusters=5))


def test_ifca_compares_its_models_on_windows_of_its_own_stream() -> None:
    study, dataset = tiny.study(), tiny.dataset()
    forecaster = network_of(study, dataset.shape)
    engine = Stacked(forecaster, dataset, torch.device("cpu"))
    client_data = ClientData(dataset, engine, study.federation, 10)
    rows = torch.stack([forecaster.initial(seed) for seed in (1, 1, 1)]).to(engine.dtype)
    everyone = torch.arange(3)
    whole = client_data.losses(rows, everyone)
    assert torch.equal(whole, client_data.losses(rows, everyone, 5, 10**6))
    some = client_data.losses(rows, everyone, 1, 20)
    assert not torch.isclose(whole, some).any()
    assert not torch.isclose(some, client_data.losses(rows, everyone, 2, 20)).any()
    # Whoever else asks, and for whichever model.
    assert torch.equal(some[1:], client_data.losses(rows[:2], everyone[1:], 1, 20))
    drawn = torch.stack([client_data.losses(rows, everyone, t, 20) for t in range(1, 41)])
    assert drawn.mean(0).tolist() == pytest.approx(whole.tolist(), rel=0.1)


def test_clients_that_diverged_have_no_place_among_the_others() -> None:
    rows = torch.tensor([[0.0, 0], [torch.nan, 0], [9, 9], [torch.inf, 1], [0, 0.1], [9, 9.1]])
    f, clients = states_of_four(OneShot(), rounds=1)[0].f, torch.arange(6)
    f.client_data.names = list("abcdef")
    assert k_means(f, clients, rows, 2).tolist() == [0, 0, 1, 0, 0, 1]
    assert k_means(f, clients[1:4:2], rows[1:4:2], 2).tolist() == [0, 0]
    assert k_means(f, clients[1:4], rows[1:4], 2).tolist() == [0, 0, 0], "one left for two"
    # Clusters are numbered in the order of the names, whose first is the last client.
    f.client_data.names = list("fbcdea")
    assert k_means(f, clients, rows, 2).tolist() == [1, 0, 0, 0, 1, 0]
    likely = nearest(rows[[0, 2]], torch.tensor([[torch.nan, 1], [9, 8], [-9, 0]]), torch.eye(2))
    assert 0 not in likely.tolist()
