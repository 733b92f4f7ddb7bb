"""Whole trainings on a device that is not the CPU: see `elsewhere`."""

from collections import Counter
from typing import Any

import pandas as pd
import pytest
import torch

from plfl.data.dataset import Dataset
from plfl.experiments import training_setup
from plfl.experiments.train import train
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from plfl.study import Study
from plfl.training.stacked import Stacked
from tests.helpers.elsewhere import HERE, THERE, elsewhere
from tests.helpers.every_algorithm import CLIENTS, DATASET, METHODS, SERVERS, make_study

STEPWISE = {"apfl", "fafed", "fedala", "moon", "per_fedavg", "pfedme"}
"""Methods that give an engine one minibatch at a time, so that each waits for the GPU."""


def trained(
    of: Study, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> dict[str, pd.DataFrame]:
    """The records of a study's cells."""

    def engine(_: object, forecaster: LstmMlpNetwork, dataset: Dataset) -> Stacked:
        stacked = Stacked(forecaster, dataset, device)
        stacked.sizes, stacked.most_numbers = stacked.sizes[:1], 2**14  # for a CPU in disguise
        if device == THERE:  # the numbers of steps are tensors, as for CUDA graphs
            stacked.repeat = lambda step, times: [step() for _ in range(times)]
        return stacked

    monkeypatch.setattr(training_setup, "make_engine", engine)
    results = train(of, of.cells, DATASET)
    return {str(cell): result.records for cell, result in results.items()}


RECIPE = {"clip": 0.1, "ema": 0.9, "keep": "best", "evaluate_every": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"client_opt": CLIENTS, "recipe": RECIPE, "refused": "skip"},
        {"server_opt": SERVERS, "refused": "skip"},
        {"method_names": [name for name in METHODS if name not in {"fedadc_dm", *STEPWISE}]},
        {"method_names": ["fedadc_dm"], "client_opt": ["sgdm"]},
        {"method_names": sorted(STEPWISE)},
    ],
    ids=["clients", "servers", "methods", "fedadc_dm", "stepwise"],
)
def test_it_trains_elsewhere(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another device gives the same records, and is left to itself while it takes local steps,
    however many a round has."""
    few, many = (make_study(steps, **options) for steps in (2, 3))
    here = trained(few, HERE, monkeypatch)
    with elsewhere() as waits:
        there = trained(few, THERE, monkeypatch)
    for name, records in here.items():
        pd.testing.assert_frame_equal(there[name], records, rtol=1e-4)
    if STEPWISE.isdisjoint(options.get("method_names", [])):
        with elsewhere() as others:
            trained(many, THERE, monkeypatch)
        assert while_training(waits) == while_training(others) != {}


def while_training(waits: Counter[str]) -> dict[str, int]:
    return {line: n for line, n in waits.items() if line.startswith("plfl/training/")}
