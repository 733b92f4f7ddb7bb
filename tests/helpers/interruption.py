"""A training that is interrupted and goes on."""

from pathlib import Path

import pytest

from plfl.config.study import Cell, Study
from plfl.data.examples import Examples
from plfl.experiments.train import train
from plfl.federated.checkpoint import Checkpoint
from plfl.results.records import CellResult


def interrupted(study: Study, dataset: Examples, folder: Path, after: int) -> None:
    """Train all cells with checkpoints in `folder` until round `after` has ended."""

    def stop(t: int) -> None:
        if t == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(study, study.cells, dataset, stop, Checkpoint(folder, "job", 0))


def resumed(study: Study, dataset: Examples, folder: Path, after: int) -> dict[Cell, CellResult]:
    """The results of a training that was interrupted after round `after` and went on."""
    interrupted(study, dataset, folder, after)
    return train(study, study.cells, dataset, checkpoint=Checkpoint(folder, "job", 0))
