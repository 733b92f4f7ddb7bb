"""The average of the server's parameters over the rounds: numbers, scores, copies, clusters."""

from pathlib import Path
from typing import Any

import pytest
import torch

from plfl.base.errors import ConfigError
from plfl.experiments.train import train
from plfl.methods.fine_tuning import FineTuning
from plfl.optimizers.server.fedavgadaptive import FedAvgAdaptive
from plfl_reproductions.methods.ifca import Ifca
from tests.helpers import tiny
from tests.helpers.interruption import check_resumes
from tests.helpers.problems import AVG, SGD, Quadratic, trajectory
from tests.helpers.refusals import naming

FEDAVG = [2, 1.49, 1.19165, 1.01711525]
"""x of FedAvg on two quadratics, before round 1 and after each round."""


def averages(path: list[Any], decay: float) -> list[Any]:
    """x̄ ← d x̄ + (1 − d) x with d = min(decay, (1 + t)/(10 + t)), after each round t."""
    mean, found = path[0], []
    for t, x in enumerate(path[1:], 1):
        d = min(decay, (1 + t) / (10 + t))
        mean = d * mean + (1 - d) * x
        found.append(mean)
    return found


@pytest.mark.parametrize(
    ("decay", "by_hand"),
    # d = 2/11, 3/12, 4/13, of which the last two are above 0.2.
    [(0.9, [1.5827272727, 1.2894193182, 1.1009011173]), (0.2, [1.5827272727, 1.2698654545])],
)
def test_the_global_model_is_the_average(decay, by_hand):
    _, *rounds = trajectory(SGD, AVG, server_ema=decay)
    assert [after.x.item() for after in rounds] == pytest.approx(FEDAVG[1:], abs=1e-9)
    found = [after.global_models[0, 0].item() for after in rounds]
    assert found[: len(by_hand)] == pytest.approx(by_hand, abs=1e-9)
    assert found == pytest.approx(averages(FEDAVG, decay), abs=1e-9)


def test_training_and_the_local_models_do_not_change() -> None:
    plain, averaged = (
        trajectory(SGD, AVG, **federation) for federation in ({}, {"server_ema": 0.5})
    )
    for one, other in zip(plain, averaged, strict=True):
        assert torch.equal(one.local, other.local) and torch.equal(one.scored, other.scored)
    assert not torch.equal(plain[-1].global_models, averaged[-1].global_models)


def test_personal_parameters_are_not_averaged() -> None:
    options: dict[str, Any] = {"shared": (True, False), "start": (2.0, 2.0)}
    problem = Quadratic([1, 4], [0, 1], [1, 0.5])
    last = trajectory(SGD, AVG, problem=problem, server_ema=0.5, **options)[-1]
    assert torch.equal(last.global_models[:, 1], last.local[:, 1])
    assert not torch.equal(last.global_models[0, 0], last.x[0])


def test_clients_fine_tune_the_average() -> None:
    """A step of η = 0.1 on ½ x² and 2 (x − 1)²."""
    last = trajectory(SGD, AVG, FineTuning(epochs=1), server_ema=0.9)[-1]
    x = averages(FEDAVG, 0.9)[-1]
    assert last.scored[:, 0].tolist() == pytest.approx([0.9 * x, x - 0.4 * (x - 1)], abs=1e-9)


def test_each_copy_of_fedavgadaptive_has_an_average_of_its_own() -> None:
    path = trajectory(SGD, FedAvgAdaptive(lr=0.1, q=2), server_ema=0.9)
    expected = averages([step.x for step in path], 0.9)
    for after, mean in zip(path[1:], expected, strict=True):
        torch.testing.assert_close(after.global_models, mean)
    assert path[-1].x[0] != path[-1].x[1]


def test_each_cluster_of_ifca_has_an_average_of_its_own() -> None:
    problem = Quadratic([1] * 4, [0, 0.2, 1, 1.4], [1])

    def made(f: Any) -> None:
        f.server.state["x"] = torch.tensor([[0.3], [0.8]]).double()
        f.server_average.rows.copy_(f.server.x)

    path = trajectory(SGD, AVG, Ifca(), problem=problem, made=made, server_ema=0.9)
    mean = averages([step.x for step in path], 0.9)[-1]
    torch.testing.assert_close(path[-1].global_models, mean[[0, 0, 1, 1]])


def test_an_interrupted_training_goes_on_with_the_same_average(tmp_path: Path) -> None:
    federation = {"rounds": 5, "evaluate_every": 1, "server_ema": 0.5}
    grid = {"server_opt": ["fedavg", "fedavgadaptive"]}
    check_resumes(tiny.study(federation=federation, grid=grid), tiny.dataset(), tmp_path, after=4)


def test_it_is_scored_and_kept_as_the_global_model() -> None:
    models = {}
    for decay in (None, 0.5):
        study = tiny.study_of_method("fedopt", federation={"server_ema": decay})
        (result,) = train(study, study.cells, tiny.dataset()).values()
        scores = result.records.query("split == 'test' and round == 3").set_index("model")["mase"]
        models[decay] = result.models["global"], scores["global"].tolist()
    assert (models[None][0] != models[0.5][0]).any()
    assert models[None][1] != models[0.5][1]


@pytest.mark.parametrize("method", ["fedac", "fedamp", "fedfomo"])
def test_methods_without_a_server_model_that_lasts_are_refused(method):
    with naming(ConfigError, method, "federation.server_ema"):
        tiny.study_of_method(method, federation={"server_ema": 0.5})
