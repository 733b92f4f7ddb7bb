"""Rounds: sharing, participation, and that nothing else connects the clients."""

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
from tests.federated.test_federation import linear
from tests.helpers.problems import Quadratic


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
