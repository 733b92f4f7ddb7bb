"""Clipping, noise and the draws, through the real round."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from plfl import methods
from plfl.base.errors import ConfigError
from plfl.config.data import Data
from plfl.config.federation import FederationSettings
from plfl.experiments.train import train
from plfl.federated.privacy import mechanism
from plfl.federated.privacy.mechanism import draw_system_noise
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.client.sgd import Sgd
from plfl.study.checks.privacy import check_privacy
from tests.helpers import tiny
from tests.helpers.problems import AVG, SGD, Quadratic, Uploads, trajectory, uploads

WIDE = Quadratic([1, 4], [0, 1], [1 + k % 9 for k in range(400)])


def path(server_opt=AVG, rounds=3, **privacy):
    found = trajectory(SGD, server_opt, rounds=rounds, privacy=privacy)
    return [s.x.item() for s in found]


def noisy(made=lambda f: None, start=0.0, lr=1e-6, **settings):
    """Paths (T + 1, 400) of the server's parameters."""
    given = {"privacy": {"clip": 1.0, "noise": 2.0}, "rounds": 3, "steps": 1} | settings
    found = trajectory(
        Sgd(lr=lr),
        AVG,
        problem=WIDE,
        shared=(True,) * 400,
        start=(start,) * 400,
        made=made,
        **given,
    )
    return torch.stack([s.x for s in found]), found


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        (0.3, [2, 1.7, 1.4, 1.139, 0.986315, 0.896994275, 0.8447416509]),
        (0.1, [2, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4]),
    ],
)
def test_clipped_steps(clip, expected):
    assert path(rounds=6, clip=clip) == pytest.approx(expected, abs=1e-10)


def test_the_bound_follows_the_norms():
    found = trajectory(SGD, AVG, rounds=2, privacy={"clip": 0.1, "quantile": 0.5})
    assert [s.x.item() for s in found] == pytest.approx([2, 1.9, 1.789482908], abs=1e-9)
    assert found[0].f.privacy.clip.item() == pytest.approx(0.1 * math.exp(0.2), abs=1e-9)
    # The bound goes down with the parameters, one number more goes up with the update.
    assert found[1].report.traffic["extras_down"].tolist() == [8, 8]
    assert found[1].report.traffic["extras_up"].tolist() == [8, 8]


@pytest.mark.parametrize(("z", "expected"), [(1, 1.809068067), (0.5, 0.5500190982)])
def test_the_count_is_paid_for(z, expected):
    block = {"clip": 1, "noise": z, "quantile": 0.5}
    twelve = Quadratic([1] * 12, [0] * 12, [1])
    start, _ = trajectory(SGD, AVG, rounds=1, privacy=block, problem=twelve)
    assert start.f.privacy.noise == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("method", ["fedopt", "fedbabu", "ditto"])
def test_a_bound_that_nothing_exceeds_changes_nothing(method):
    """For a round of all shared parameters, of some, and for one that the method arranges."""
    records = []
    for block in ({}, {"clip": 1e30}, {"clip": 1e-7}):
        study = tiny.study(
            grid={"method": [method], "client_opt": ["sgd"], "server_opt": ["fedavg"]}
            | {"sharing": ["P1", "P2"], "refused": "skip"},
            federation={"privacy": block},
        )
        found = train(study, study.cells, tiny.dataset())
        records.append(pd.concat([result.records for result in found.values()]))
    pd.testing.assert_frame_equal(records[0], records[1])
    assert not records[0].equals(records[2])


def test_what_a_decoded_message_exceeds_is_clipped_again():
    seen: Uploads = []
    settings = {"rounds": 8, "start": 0.1, "codecs": {"up": "q2", "scales": "one"}}
    path, _ = noisy(uploads(seen), privacy={"clip": 0.3}, lr=1e-3, **settings)
    assert max(row.norm() for _, arrived in seen for row in arrived) > 0.31
    assert (path[1:] - path[:-1]).norm(dim=1).max() <= 0.3 * (1 + 1e-6)


def test_noise_has_its_size_whoever_takes_part():
    full, _ = noisy()
    # z C / m with m = 2, in three steps.
    steps = (full[1:] - full[:-1]).numpy()
    assert steps.std() == pytest.approx(1.0, rel=0.06)
    assert abs(np.corrcoef(steps)[0, 1]) < 0.2, "new noise in each round"
    as_of, _ = noisy(privacy={"clip": 1.0, "noise": 2.0, "noise_as_of": 20})
    assert (as_of[1:] - as_of[:-1]).std().item() == pytest.approx(0.1, rel=0.06)
    # Rounds to which nobody is drawn have noise, too, of a mean of m = q N = 0.2.
    empty, seen = noisy(participation=0.1, selection="poisson", rounds=4)
    nobody = [n for n, s in enumerate(seen[1:]) if not len(s.report.participants)]
    assert nobody
    for n in nobody:
        assert (empty[n + 1] - empty[n]).std().item() == pytest.approx(10, rel=0.15)


def test_noise_is_repeated_by_the_seed_and_not_by_the_system():
    assert torch.equal(noisy()[0], noisy()[0])
    assert not torch.equal(noisy()[0], noisy(seed=1)[0])

    def deploy(f):
        f.privacy.normals = draw_system_noise

    first, second = noisy(deploy)[0], noisy(deploy)[0]
    # On the grid of 2⁻¹⁶ two of the 1,200 values agree by chance once in some 200 runs.
    assert (first[1:] == second[1:]).sum() < 4
    assert (first[1:] - first[:-1]).std().item() == pytest.approx(1.0, rel=0.06)


def test_the_largest_and_the_least_draw_of_the_system_are_finite(monkeypatch):
    monkeypatch.setattr(mechanism.os, "urandom", lambda count: b"\xff" * 8 + b"\x00" * 8)
    high, low = draw_system_noise(1, 2)
    assert high == pytest.approx(8.21, abs=0.01)
    assert low == pytest.approx(-high)


def test_the_last_bits_of_a_release_do_not_tell_what_was_added():
    """With and without a client's update, a parameter that started at 0 is on one grid."""
    paths = [noisy(lr=lr, seed=seed)[0][1:] for lr in (1e-12, 1e-3) for seed in range(3)]
    released = torch.cat(paths).numpy()
    grid = 2.0**-16  # the noise has the deviation z C / m = 1
    assert (released == np.round(released / grid) * grid).all()
    assert (released.astype(np.float32) == released).all()


def test_what_is_sent_has_at_most_the_bound_and_is_finite():
    seen: Uploads = []
    for lr in (10, 1e200):
        trajectory(Sgd(lr=lr), AVG, rounds=3, privacy={"clip": 0.3}, made=uploads(seen))
    norms = torch.cat([sent for sent, _ in seen]).norm(dim=1)
    assert norms.isfinite().all()
    assert norms.max().item() == pytest.approx(0.3)


def test_draws():
    def present(**settings):
        _, found = noisy(privacy={}, rounds=40, **settings)
        counts = np.zeros((40, 2), dtype=int)
        for t, s in enumerate(found[1:]):
            counts[t, s.report.participants] = 1
        return counts

    allocated = present(participation=0.5, selection="allocation")
    assert allocated.sum(0).tolist() == [20, 20], "exactly half of the rounds"
    assert not (allocated[:, 0] == allocated[:, 1]).all(), "each for itself"
    drawn = present(participation=0.5, selection="poisson")
    assert 8 < drawn[:, 0].sum() < 32
    assert {0, 1, 2} == {*drawn.sum(1).tolist()}


def test_a_method_must_say_that_it_sends_only_updates_and_leave_the_round_alone():
    federation = FederationSettings(privacy={"clip": 1.0})

    def refused(method):
        return [*check_privacy(federation, Data(), [("method", method)])]

    class Silent(FedOpt):
        """Inherits, and says nothing."""

    class Own(FedOpt):
        """Says so, but sends in its own way."""

        uses_updates_only = True

        def aggregate(self, *args):
            raise AssertionError

    safe = [m() for m in methods.available().values() if vars(m).get("uses_updates_only")]
    assert len(safe) > 5
    assert not any(map(refused, safe))
    assert refused(Silent())
    assert refused(Own())


@pytest.mark.parametrize(
    ("about", "blocks"),
    [
        ("grid.method: 'scaffold'", {"grid": {"method": ["scaffold"]}}),
        ("grid.server_opt: 'fedavgadaptive'", {"grid": {"server_opt": ["fedavgadaptive"]}}),
        ("sharing.u", {"sharing": {"u": {"join": "unseen"}}, "grid": {"sharing": ["u"]}}),
        ("weighting", {"federation": {"weighting": "samples"}}),
        ("delta", {"privacy": {"delta": 0.5}}),
        ("noise_as_of", {"privacy": {"noise_as_of": 1}}),
        ("privacy.noise", {"privacy": {"quantile": 0.5, "noise": 1}}),
        ("privacy.noise", {"privacy": {"clip": None, "noise": 1}}),
        # Federations of 11, 10 and 10 clients: 10 of them can hide noise below 1.
        (
            "privacy.noise",
            {"data": {"clients": 31, "federations": 12}}
            | {"privacy": {"quantile": 0.5, "noise": 1, "delta": 1e-3}},
        ),
    ],
)
def test_refusals(about, blocks):
    grid = {"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": ["P1"]}
    given = {**blocks.get("federation", {}), "privacy": {"clip": 1.0} | blocks.get("privacy", {})}
    raw = {"federation": given, "sharing": blocks.get("sharing", tiny.study().sharing)}
    raw |= {"windows": {"scaling": "per_client"}, "data": blocks.get("data", {})}
    assert tiny.study(grid=grid, federation={"privacy": {"clip": 1.0}}).cells
    with pytest.raises(ConfigError) as error:
        tiny.study(grid=grid | blocks.get("grid", {}), **raw)
    assert any(about in str(problem) for problem in error.value.problems), error.value.problems
