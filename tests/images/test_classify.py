"""The task `classify`: its engines, its labels, and what a study of it refuses."""

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plfl import methods
from plfl.base.errors import ConfigError
from plfl.experiments import training_setup
from plfl.experiments.train import train
from plfl.interfaces.method import Sizes
from plfl.training.stacked import Stacked
from plfl.training.work import Engine
from plfl_images.classify import Classify
from plfl_images.evaluation import CommonEvaluator, distinct
from tests.helpers.image_studies import make_images, make_study, train_cell
from tests.helpers.oracle import Reference
from tests.helpers.refusals import naming

CPU = torch.device("cpu")


def test_labels_are_counted() -> None:
    targets = [torch.tensor([0.0, 0, 2, 2, 2]), torch.tensor([1.0, 1, 1, 1, 0])]
    edges, ratios = Classify().agreed_bins(targets, bins=0)
    assert edges.tolist() == []
    assert ratios[0].tolist() == pytest.approx([2 / 3, 0, 1])
    shares = Classify().histograms([own.double().numpy() for own in targets], bins=0)
    assert shares.tolist() == [[0.4, 0, 0.6], [0.2, 0.8, 0]]


@cache
def trained_records(name: str, *parameters: tuple[str, float]) -> pd.DataFrame:
    """The records of a method with some hyperparameters."""
    given = {"client_opt": {"sgd": {"lr": 0.1}}, "method": {name: dict(parameters)}}
    return train_cell(make_study(grid={"method": [name]}, hyperparameters=given))


@pytest.mark.parametrize(
    ("method", "parameters", "base"),
    [("fedntd", {"beta": 0.0}, "fedopt"), ("fedrs", {"alpha": 1.0}, "fedopt")],
)
def test_without_its_term_a_method_is_the_one_below_it(method, parameters, base):
    found, plain, other = (
        trained_records(name, *keys.items())
        for name, keys in ((method, parameters), (base, {}), (method, {}))
    )
    scores = ["cross_entropy", "error"]
    assert found[scores].to_numpy() == pytest.approx(plain[scores].to_numpy(), nan_ok=True)
    entropies, without = (table["cross_entropy"].dropna() for table in (other, plain))
    assert not np.allclose(entropies, without, rtol=1e-7)


@pytest.mark.parametrize("method", ["fedntd", "fedrs"])
def test_methods_of_labels_send_what_they_declare(method: str) -> None:
    found, plain = trained_records(method), trained_records("fedopt")
    assert methods.available()[method]().sends == Sizes()
    assert found["bytes_up"].equals(plain["bytes_up"])
    assert found["bytes_down"].equals(plain["bytes_down"])


@pytest.mark.parametrize("method", ["fedadc_plus", "moon"])
def test_the_stacked_engine_agrees_with_pytorch(method, monkeypatch):
    """All rows at once, with projected features for MOON, against modules one after the other."""

    def of(method: str, engine: Callable[..., Engine]) -> pd.DataFrame:
        monkeypatch.setattr(training_setup, "make_engine", lambda _, *given: engine(*given, CPU))
        options = {"moon": {"features": "penultimate", "mu": 5.0}}
        given = {"client_opt": {"sgd": {"lr": 0.1}}, "method": options}
        blocks = {"model": {"projection": 4}}
        return train_cell(make_study(grid={"method": [method]}, hyperparameters=given, **blocks))

    stacked, reference, plain = (
        of(*which) for which in ((method, Stacked), (method, Reference), ("fedopt", Stacked))
    )
    for column in ("loss", "cross_entropy"):
        found, expected, without = (t[column].to_numpy() for t in (stacked, reference, plain))
        assert found == pytest.approx(expected, rel=1e-4, nan_ok=True)
        assert not np.allclose(found, without, rtol=1e-3, equal_nan=True)


def test_seeds_have_partitions_of_their_own() -> None:
    study = make_study(grid={"seeds": [0, 1]})
    alone = make_study(grid={"seeds": [1]})
    both = train(study, study.cells, make_images(study))
    (one,) = train(alone, alone.cells, make_images(alone)).values()
    pd.testing.assert_frame_equal(both[study.cells[1]].records, one.records)
    own = one.records.query("split == 'test' and model == 'local'")
    assert len(set(own["own_error"])) > 1
    assert len(set(one.records.query("split == 'test' and model == 'global'")["error"])) == 1


AWARE = {"selection": "data_aware", "participation": 1.0}


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ({"task": {"name": "forecast"}}, "task.name: 'forecast' needs loads"),
        ({"data": {"states": ["a", "b"]}}, "digits is one; give one name"),
        ({"data": {"skew": {"s": 1}, "clients": 7}}, "no multiple of the 10 classes"),
        ({"grid": {"method": ["moon"]}}, "features to penultimate"),
        ({"federation": {"keep": "best"}}, "federation.keep: 'best' needs the local models"),
        ({"model": {"name": "lstm_mlp", "blocks": None}}, "model"),
        ({"federation": {"selection": "data_aware"}}, "3 of 10 clients (federation.participation)"),
        ({"federation": AWARE, "grid": {"method": ["fedsc"]}}, "'fedsc' selects the clients"),
    ],
)
def test_impossible_studies(blocks: dict[str, Any], problem: str) -> None:
    with naming(ConfigError, problem):
        make_study(**blocks)


def test_data_aware_selection_knows_labels_that_were_sent() -> None:
    share = {"participation": 0.6, "rounds": 4}
    aware, plain = (
        train_cell(make_study(federation=share | {"selection": rule}))
        for rule in ("data_aware", "uniform")
    )
    counts = make_images(make_study()).label_counts
    steps = aware.query("split == 'train' and model == 'local'")
    for _, some in steps[steps["steps"] > 0].groupby("round"):
        assert len(some) == 6
        assert counts[some["client"].astype(int)].any(0).all()
    sent = [
        records.query("model == 'local' and split == 'train'").groupby("round")["extras_up"].sum()
        for records in (aware, plain)
    ]
    assert sent[0].tolist() == [10 * 10, 0, 0, 0]  # a byte for each label
    assert not sent[1].any()


def test_equal_rows_are_found() -> None:
    a, b, nan = torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]), torch.full((3,), torch.nan)
    models, which = distinct(torch.stack([b, a, b.flip(0), nan, b, nan]))
    assert which.tolist() == [0, 1, 2, 3, 0, 3]
    assert torch.equal(models[:3], torch.stack([b, a, b.flip(0)]))
    shared, same = distinct(b.expand(4, -1))
    assert (len(shared), same.tolist()) == (1, [0, 0, 0, 0])


def test_images_that_are_read_in_parts_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    class Knowing(Stacked):
        def predict(self, rows: torch.Tensor, starts: list[torch.Tensor]) -> list[torch.Tensor]:
            labels = [torch.from_numpy(data.labels_of(windows.numpy())) for windows in starts]
            return [torch.nn.functional.one_hot(each, 10) for each in labels]

    monkeypatch.setattr("plfl_images.evaluation.IMAGES_PER_PASS", 7)
    study = make_study()
    data = make_images(study)
    network = training_setup.network_of(study, study.plan.window_shape)
    evaluator = CommonEvaluator(data, Knowing(network, data, CPU))
    federation: Any = SimpleNamespace(client_data=SimpleNamespace(dataset=data))
    scores = evaluator.score_round(federation, torch.zeros(10, 1), is_last=False).scores
    assert len(evaluator.starts["test"]) > 14 and (scores["error"] == 0).all()
