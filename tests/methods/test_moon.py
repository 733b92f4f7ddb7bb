"""MOON: what it contrasts with what, and what comes of it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.base.errors import ConfigError
from plfl.experiments.train import train
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl.training.task import Contrast
from plfl_reproductions.moon import Moon
from tests.helpers import tiny
from tests.helpers.problems import Quadratic, trajectory
from tests.images import test_classify as classifiers

SGD = Sgd(lr=0.1)


class Watched(Quadratic):
    """Quadratics that have no features, but remember what they were asked to train."""

    def train(self, task):
        self.tasks = [*getattr(self, "tasks", []), (task, task.rows.clone())]
        return super().train(task)


def watched(**options):
    problem = Watched([1, 4, 2], [0, 1, 3], [1, 1])
    given = {"problem": problem, "start": (2.0, 0.0), "shared": (True, False), "rounds": 4}
    return problem, trajectory(
        SGD, FedAvg(), Moon(mu=3, features="penultimate"), **given, **options
    )


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.floats(0.2, 1))
def test_it_contrasts_the_start_with_the_clients_last_model(seed, share):
    """However long ago that was; before the first time it is what all started from."""
    problem, seen = watched(seed=seed, participation=share)
    for (task, rows), before, after in zip(problem.tasks, seen[:-1], seen[1:], strict=True):
        present = after.report.present
        assert task.terms.contrast == Contrast(3, 0.5, "penultimate")
        assert torch.equal(task.terms.previous, before.local[present])
        # Both have the shared part that they should, and the client's own personal part.
        assert torch.equal(rows[:, 0], before.x.expand(len(present)))
        assert torch.equal(rows[:, 1], before.local[present, 1])


def test_the_first_round_is_the_plain_one_and_its_term_is_log_2():
    """The last model is the start then, for all steps and not only for the first."""
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "method": ["fedopt", "moon"]}
    blocks = {"compute": {"engine": "stacked"}, "federation": {"evaluate_every": 1}}
    study = tiny.study(grid=grid | {"sharing": ["P1"]}, **blocks)
    plain, moon = (found.records for found in train(study, study.cells, tiny.dataset()).values())
    first, later = (moon["round"] == 1), (moon["round"] > 1)
    extra = (moon["loss"] - plain["loss"])[first].dropna()
    assert extra.to_numpy() == pytest.approx(math.log(2), abs=1e-6)
    scores, others = moon["mase"].to_numpy(), plain["mase"].to_numpy()
    assert scores[first] == pytest.approx(others[first], rel=1e-5, nan_ok=True)
    assert not np.allclose(scores[later], others[later], rtol=1e-5, equal_nan=True)


def of_images(method: str, **blocks):
    """Records of a study of images whose model has a projection head."""
    options = {"features": "penultimate", "mu": 5.0}
    keys = {"client_opt": {"sgd": {"lr": 0.1}}, "method": {"moon": options}}
    grid, model = {"method": [method]}, {"projection": 4}
    of = classifiers.study(model=model, grid=grid, hyperparameters=keys, **blocks)
    return classifiers.trained(of)


def test_images_are_contrasted_as_pytorch_says():
    """The projected features of all rows at once, against modules one after the other."""
    stacked, reference = (
        of_images("moon", compute={"engine": engine}) for engine in ("stacked", "reference")
    )
    plain = of_images("fedopt")
    for column in ("loss", "cross_entropy"):
        found, without = (records[column].to_numpy() for records in (stacked, plain))
        assert found == pytest.approx(reference[column].to_numpy(), rel=1e-4, nan_ok=True)
        assert not np.allclose(found, without, rtol=1e-3, equal_nan=True)


def test_images_have_no_hidden_states():
    with pytest.raises(ConfigError, match="features to penultimate"):
        classifiers.study(grid={"method": ["moon"]})
