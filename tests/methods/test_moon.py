"""MOON: what it contrasts with what, and what comes of it."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.experiments.train import train
from plfl.methods.moon import Moon
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl.training.task import Contrast
from tests.helpers import tiny
from tests.helpers.problems import Quadratic, trajectory

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


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.floats(0.2, 1))
def test_it_contrasts_the_start_with_the_clients_last_model(seed, share):
    """However long ago that was; before the first time it is what all started from."""
    problem, seen = watched(seed=seed, participation=share)
    for (task, rows), before, after in zip(problem.tasks, seen[:-1], seen[1:], strict=True):
        present = after.report.present[0]
        assert task.contrast == Contrast(3, 0.5, "penultimate")
        assert torch.equal(task.previous, before.local[present])
        # Both have the shared part that they should, and the client's own personal part.
        assert torch.equal(rows[:, 0], before.x.expand(len(present)))
        assert torch.equal(rows[:, 1], before.local[present, 1])


def test_bytes():
    """d_s both ways: the last model stays with the client."""
    _, seen = watched()
    for one in seen[1:]:
        page = one.report.bytes[0]
        assert page["bytes_down"].tolist() == page["bytes_up"].tolist() == [8, 8, 8]
        assert page["extras_down"].sum() == page["extras_up"].sum() == 0


def records(method, *splits, **options):
    """Records of a small forecaster trained with a method by the stacked engine, by split."""
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "method": [method]}
    blocks = {"compute": {"engine": "stacked"}, "federation": {"evaluate_every": 1}}
    study = tiny.study(grid=grid, method={method: options}, **blocks)
    cells = [tiny.cell(f"XX-{split}-{method}-adam-fedavg-10", study) for split in splits]
    trained = train(study, cells, tiny.dataset())
    return [trained[cell].records.drop(columns="method") for cell in cells]


def test_no_weight_is_the_plain_round():
    (zero,), (plain,) = records("moon", "P2", mu=0), records("fedopt", "P2")
    pd.testing.assert_frame_equal(zero, plain)


def test_the_first_round_is_the_plain_one_and_its_term_is_log_2():
    """The last model is the start then, for all steps and not only for the first."""
    (moon,), (plain,) = (records(name, "P1") for name in ("moon", "fedopt"))
    first, later = (moon["round"] == 1), (moon["round"] > 1)
    extra = (moon["loss"] - plain["loss"])[first].dropna()
    assert extra.to_numpy() == pytest.approx(math.log(2), abs=1e-6)
    scores, others = moon["mase"].to_numpy(), plain["mase"].to_numpy()
    assert scores[first] == pytest.approx(others[first], rel=1e-5, nan_ok=True)
    assert not np.allclose(scores[later], others[later], rtol=1e-5, equal_nan=True)


def test_forecaster():
    """Finite, and the same to the bit in any company."""
    for features in ("states", "penultimate"):
        options = {"features": features, "mu": 5}
        together = records("moon", "P1", "P2", **options)
        for split, table in zip(("P1", "P2"), together, strict=True):
            pd.testing.assert_frame_equal(records("moon", split, **options)[0], table)
            assert np.isfinite(table["mase"].dropna()).all()


def test_the_features_matter_and_nothing_shared_is_local_training():
    (states,), (penultimate,) = (
        records("moon", "P2", features=features) for features in ("states", "penultimate")
    )
    assert not states["mase"].equals(penultimate["mase"])
    (alone,), (plain,) = (records(name, "P3") for name in ("moon", "fedopt"))
    pd.testing.assert_frame_equal(alone, plain)
