"""Rounds: sharing, participation, and that nothing else connects the clients."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.optimizers import server as servers
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from tests.federated.test_federation import linear
from tests.helpers.problems import Quadratic, server_path


def test_all_shared_is_classical_federated_learning():
    _, first, second = linear((True, True))
    assert first.x.tolist() == pytest.approx([0.36, 0.36])
    assert second.x.tolist() == pytest.approx([0.5904, 0.5904])


def test_shared_weight_with_personal_bias():
    _, first, second = linear((True, False))
    assert (first.x.item(), second.x.item()) == pytest.approx((0.36, 0.5904))
    assert first.local.flatten().tolist() == pytest.approx([0.18, 0.18, 0.54, 0.54])
    assert second.local.flatten().tolist() == pytest.approx([0.4428, 0.2628, 0.738, 0.918])


def test_nothing_shared_is_local_training():
    *_, second = linear((False, False))
    assert second.local.flatten().tolist() == pytest.approx([0.2952, 0.2952, 0.8856, 0.8856])
    assert torch.equal(second.local, second.global_models)
    assert all(counts.sum() == 0 for counts in second.report.traffic.values())


@pytest.mark.parametrize("server", servers.available().values(), ids=lambda c: c.name)
def test_local_training_does_not_depend_on_the_server(server):
    """P3 is the same whatever the ServerOpt and its learning rate."""
    expected = linear((False, False))[-1].local
    assert torch.equal(linear((False, False), server_opt=server(lr=0.37))[-1].local, expected)


def test_without_sharing_the_proximal_term_is_void():
    assert torch.equal(
        linear((False, False), Prox(lr=0.1, mu=3))[-1].local,
        linear((False, False), Sgd(lr=0.1))[-1].local,
    )
    assert torch.equal(
        linear((False, False), ProxAdam(mu=3))[-1].local, linear((False, False), Adam())[-1].local
    )


def test_fedprox_expected_numbers():
    path = server_path(Prox(lr=0.1, mu=1), FedAvg())
    assert path == pytest.approx([2, 1.52, 1.2272, 1.048592])
    end = server_path(Prox(lr=0.1, mu=1), FedAvg(), rounds=300)[-1]
    assert end == pytest.approx(0.7692307692)


def test_those_who_do_not_take_part_stay_as_they_are():
    steps = linear((True, False), participation=0.5, rounds=6)
    for before, after in itertools.pairwise(steps):
        (present,) = after.report.present.tolist()
        absent = 1 - present
        assert torch.equal(before.local[absent], after.local[absent])
        assert not torch.equal(before.local[present], after.local[present])
        traffic = after.report.traffic
        assert traffic["bytes_up"][absent] == traffic["bytes_down"][absent] == 0
        assert traffic["bytes_up"][present] == traffic["bytes_down"][present] == 8


@settings(max_examples=25, deadline=None)
@given(
    st.permutations(range(4)),
    st.sampled_from(sorted(servers.available())),
    st.sampled_from([(True, True), (True, False), (False, False)]),
)
def test_the_order_of_the_clients_does_not_matter(order, name, shared):
    a, c = np.array([1.0, 4.0, 0.5, 2.0]), np.array([0.0, 1.0, -3.0, 7.0])
    order = list(order)

    def last(a, c):
        return linear(
            shared, Adam(), servers.available()[name](), problem=Quadratic(a, c, [1, 1]), rounds=4
        )[-1].local

    straight, permuted = last(list(a), list(c)), last(list(a[order]), list(c[order]))
    torch.testing.assert_close(straight[order], permuted, rtol=1e-12, atol=1e-12)


def test_personal_parameters_never_reach_anybody_else():
    """Client 1's personal start changes; the shared part aside, client 0 must not notice."""
    f0 = linear((False, True), rounds=1)[-1]
    moved = Quadratic([1, 1], [1, 50], [1, 1])
    f1 = linear((False, True), problem=moved, rounds=1)[-1]
    assert torch.equal(f0.local[0], f1.local[0])
    personal = linear((False, True), problem=moved, rounds=5)[-1].global_models
    assert personal[0, 0] != personal[1, 0]
    assert personal[0, 1] == personal[1, 1]
