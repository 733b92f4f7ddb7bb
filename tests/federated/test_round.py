"""Rounds: sharing, participation, and that nothing else connects the clients."""

import pytest
import torch

from plfl.optimizers import server as servers
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgd import Sgd
from tests.federated.test_federation import linear


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
