"""The plain round of `examples/plain_round.py` and the engines train the same models."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.federation import Federation
from plfl.federated.round import run_rounds
from plfl.study import Study
from tests.helpers import tiny

PLAIN = Path(__file__).parents[2] / "examples" / "plain_round.py"


def trained_by_engine(study: Study, federation: Federation) -> list[torch.Tensor]:
    """The models (N, P) of a federation's clients after each round."""
    models: list[torch.Tensor] = []
    rounds = range(1, study.federation.rounds + 1)
    engine = federation.client_data.engine
    run_rounds([federation], engine, rounds, lambda _: models.append(federation.local.clone()))
    return models


@pytest.mark.parametrize("sharing", ["P1", "P2", "P3"])
@pytest.mark.parametrize("engine", ["fused", "stacked"])
def test_the_plain_round_equals_the_engines(sharing: str, engine: str) -> None:
    grid: dict[str, Any] = {"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": [sharing]}
    study = tiny.study(
        grid=grid,
        compute={"engine": engine},
        data={"features": ["load", "temperature"]},
        client_opt={"sgd": {"lr": 1e-3}},
        server_opt={"fedavg": {"lr": 1.0}},
    )
    dataset, cell = tiny.dataset(), study.cells[0]
    federation = TrainingSetup.for_study(study, dataset).make_federation(
        cell, study.plan.candidates(cell)[0]
    )
    mask = torch.from_numpy(study.plan.layout.mask(study.plan.schemes.patterns[sharing]))
    run_rounds = runpy.run_path(str(PLAIN))["run_rounds"]
    plain = list(run_rounds(study, dataset, mask, cell.seed))
    for expected, models in zip(plain, trained_by_engine(study, federation), strict=True):
        torch.testing.assert_close(models, expected, rtol=1e-5, atol=1e-7)
    assert not torch.allclose(plain[0], plain[1])
