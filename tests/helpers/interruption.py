"""A training that is interrupted and goes on."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

from plfl.data.examples import Examples
from plfl.experiments.train import train
from plfl.federated.checkpoint import Checkpoint
from plfl.results.records import CellResult
from plfl.study import Cell, Study

Data = Examples | Mapping[str, Examples]


def interrupted(study: Study, dataset: Data, folder: Path, after: int, key: str = "job") -> None:
    """Train all cells with checkpoints in `folder` until round `after` has ended, unsaved."""

    def stop(t: int) -> None:
        if t == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(study, study.cells, dataset, stop, Checkpoint(folder, key, 0))


def check_resumes(study: Study, dataset: Data, folder: Path, after: int) -> dict[Cell, CellResult]:
    """Assert that an interrupted training goes on and has the results of an undisturbed one; return
    them."""
    undisturbed = train(study, study.cells, dataset)
    interrupted(study, dataset, folder, after)
    rounds: list[int] = []
    continued = train(study, study.cells, dataset, rounds.append, Checkpoint(folder, "job", 0))
    assert rounds == [*range(after, study.federation.rounds + 1)]
    for cell, result in undisturbed.items():
        pd.testing.assert_frame_equal(continued[cell].records, result.records)
        pd.testing.assert_frame_equal(continued[cell].forecasts, result.forecasts)
    return continued
