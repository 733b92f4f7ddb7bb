"""The round: masks, personal parts, participation, bytes."""

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
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.optimizers.server.fedavg import FedAvg
from plfl.optimizers.server.slowmo import SlowMo
from tests.helpers.problems import Quadratic, server_path, trajectory

LINEAR = Quadratic([1, 1], [1, 3], [1, 1])
"""f_i = ½ (w + b − c_i)², c = (1, 3)."""


def linear(shared, client_opt=None, server_opt=None, **kwargs):
    opt = client_opt or Sgd(lr=0.1)
    start = {"problem": LINEAR, "shared": shared, "start": (0.0, 0.0), "rounds": 2}
    return trajectory(opt, server_opt or FedAvg(), **(start | kwargs))


def test_all_shared_is_classical_federated_learning():
    _, first, second = linear((True, True))
    assert first.x.tolist() == pytest.approx([0.36, 0.36])
    assert second.x.tolist() == pytest.approx([0.5904, 0.5904])


def test_shared_weight_with_personal_bias():
    _, first, second = linear((True, False))
    assert (first.x.item(), second.x.item()) == pytest.approx((0.36, 0.5904))
    assert first.local.flatten().tolist() == pytest.approx([0.18, 0.18, 0.54, 0.54])
    assert second.local.flatten().tolist() == pytest.approx([0.4428, 0.2628, 0.738, 0.918])


def test_global_model_is_the_servers_part_with_the_clients_own():
    *_, second = linear((True, False))
    assert second.global_models.flatten().tolist() == pytest.approx([0.5904, 0.2628, 0.5904, 0.918])


@pytest.mark.parametrize("server_opt", [FedAvg(), SlowMo()], ids=str)
def test_the_average_of_the_servers_models_by_numpy(server_opt):
    federations = []

    def put(f):
        f.server.ema = 0.3
        federations.append(f)

    plain, averaged = (
        linear((True, False), server_opt=server_opt, rounds=5, made=made)
        for made in (lambda f: None, put)
    )
    mean = plain[0].x.numpy()
    for t, (one, other) in enumerate(zip(plain, averaged, strict=True)):
        assert torch.equal(one.x, other.x), "the training is the same"
        assert torch.equal(one.local, other.local)
        if t:
            assert other.report.traffic["bytes_down"].tolist() == [8, 8]
            decay = min(0.3, (1 + t) / (10 + t))
            mean = decay * mean + (1 - decay) * one.x.numpy()
        np.testing.assert_allclose(other.global_models[:, :1], [mean, mean], rtol=1e-12)
        assert torch.equal(other.global_models[:, 1], one.local[:, 1])
    assert not np.allclose(mean, plain[-1].x)
    (f,) = federations
    assert f.server.average.tolist() == [mean.tolist()], "one row for all clients"


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


def test_moments_can_be_kept_between_rounds():
    """Two rounds of two local steps with kept moments are one round of four; P3, so no server."""
    opt = SgdMomentum(lr=0.1)
    nothing = (False, False)
    once = linear(nothing, opt, rounds=1, steps=4)[-1].local
    kept = linear(nothing, opt, rounds=2, steps=2, opt_state="keep")[-1].local
    personal = linear(nothing, opt, rounds=2, steps=2, opt_state="keep_personal")[-1].local
    reset = linear(nothing, opt, rounds=2, steps=2)[-1].local
    assert torch.equal(once, kept)
    assert torch.equal(once, personal)
    assert not torch.allclose(once, reset)


def test_keep_personal_forgets_the_shared_moments():
    both = linear((True, True), Adam(), opt_state="keep_personal")[-1].local
    assert torch.equal(both, linear((True, True), Adam(), opt_state="reset")[-1].local)


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
