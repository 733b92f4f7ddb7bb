"""Rounds: sharing, and what a federation keeps: models of server and clients, averages, moments."""

import pytest
import torch

from plfl.methods.fedopt import FedOpt
from plfl.optimizers import server as servers
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from tests.helpers.problems import AVG, Quadratic, trajectory

LINEAR = Quadratic([1, 1], [1, 3], [1, 1])
"""f_i = ½ (w + b − c_i)², c = (1, 3)."""


def linear(shared, client_opt=None, server_opt=None, **kwargs):
    opt = client_opt or Sgd(lr=0.1)
    start = {"problem": LINEAR, "shared": shared, "start": (0.0, 0.0), "rounds": 2}
    return trajectory(opt, server_opt or AVG, **(start | kwargs))


@pytest.mark.parametrize("server", servers.available().values(), ids=lambda c: c.name)
def test_local_training_does_not_depend_on_the_server(server):
    """P3 is the same whatever the ServerOpt and its learning rate."""
    expected = linear((False, False))[-1].local
    *_, other = linear((False, False), server_opt=server(lr=0.37))
    assert torch.equal(other.local, expected) and torch.equal(other.global_models, expected)
    assert not any(counts.any() for counts in other.report.traffic.values())


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


class OneUpdate(FedOpt):
    """A method that gives the server one update for all clients."""

    name = "one_update"

    def aggregate(self, f, state, t, clients, result):
        f.server.receive(clients, result.update.mean(0), f.weights_of(clients), t)


def test_the_server_needs_an_update_of_each_client():
    with pytest.raises(ValueError, match=r"shapes \(2, 1\) and \(2,\), not \(1,\)"):
        trajectory(Sgd(lr=0.1), AVG, OneUpdate())
