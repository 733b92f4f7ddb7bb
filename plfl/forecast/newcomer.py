"""Gives a meter that did not take part a model: that of the others, with its own personal part.

It starts with the parameters that the server sends, or with their mean if they differ between
clients. It then trains its personal part, or everything if everything is shared, on its own
windows, see `plfl.federated.calibration`. The number of passes is chosen on the last fifth of the
windows. With less than two weeks of readings, a model that is shared as a whole stays as received
(docs/map.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.config.sections import Calibration
from plfl.data.dataset import WEEK, Dataset
from plfl.data.windows import Scaling, build_later, scaling_of_new
from plfl.experiments.trainer import Trainer
from plfl.federated.calibration import calibrate
from plfl.results.records import Models
from plfl.study import Cell, Study


def start_of(cell: Cell, models: Models) -> NDArray[np.float32]:
    """Parameters (P,) that a new meter begins with.

    Raises:
        DataError: the clients of the cell shared nothing.
    """
    if "global" not in models:
        raise DataError(
            f"{cell}: its clients shared nothing that a new meter could begin with; use a model of "
            "a scheme that shares parameters, such as P1 or P2"
        )
    return np.asarray(models["global"].mean(axis=0), np.float32)


PASSES = (0, 1, 2, 4, 8, 16)
"""Numbers of passes over its windows from which a new meter chooses; 0: the model as received."""
AS_RECEIVED = 2 * WEEK
"""Minutes of readings below which a model that is shared as a whole is used as received."""


@dataclass(frozen=True)
class Newcomer:
    """A new meter with its readings, and the model that it begins with."""

    cell: Cell
    scaling: Scaling
    trainer: Trainer
    start: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        study: Study,
        cell: Cell,
        models: Models,
        trained: Mapping[str, Scaling],
        client: str,
        table: pd.DataFrame,
    ) -> Self:
        """A meter called `client`, for models of a cell and the scalings of their clients.

        Its readings have the columns that the clients had; NaN in gaps.
        """
        start = start_of(cell, models)
        scaling = scaling_of_new(table, study.windows, next(iter(trained.values())))
        dataset = build_later(client, table, study.windows, scaling, training=True)
        return cls(cell, scaling, Trainer.of(study, dataset), start)

    def trained(self, epochs: int) -> Models:
        """Its models as rows: after this number of passes over its windows (`local`), and as
        received (`global`)."""
        rows = self._calibrated(self.trainer.series, epochs)
        return {"local": rows.cpu().numpy().astype(np.float32), "global": self.start[None]}

    def chosen_epochs(self) -> int:
        """The number in `PASSES` with the least error in the last fifth of the readings, at least a
        day, after training on the readings before it. 0 if these are too few, or if there are less
        than `AS_RECEIVED` and everything is shared."""
        whole, task = self.trainer.series, self.trainer.task
        first, _, _, end = whole.bounds[0].tolist()
        if self._shared.all() and self.minutes < AS_RECEIVED:
            return 0
        held = max((end - first) // 5, WEEK // 7 // whole.interval)
        part = replace(
            whole, held=np.array([held]), bounds=np.array([[first, end - held, end, end]])
        )
        if held >= end - first or not len(starts := part.starts(0, "validation")):
            return 0
        if len(part.starts(0, "train")) < self.trainer.study.federation.batch_size:
            return 0
        read = [torch.from_numpy(starts).to(self.trainer.engine.device)]
        errors = []
        for epochs in PASSES:
            (outputs,) = self.trainer.engine.predict(self._calibrated(part, epochs), read)
            forecast = task.predictions(part, 0, starts, outputs.double().cpu().numpy())
            errors.append(task.scores(part, 0, "validation", forecast)[task.own_selection])
        return PASSES[int(np.nanargmin(errors))]

    @property
    def minutes(self) -> int:
        """Minutes of its readings."""
        series = self.trainer.series
        return int(series.bounds[0, 3] - series.bounds[0, 0]) * series.interval

    @property
    def _shared(self) -> NDArray[np.bool_]:
        study = self.trainer.study
        return study.layout.mask(study.shared[self.cell.sharing])

    def _calibrated(self, dataset: Dataset, epochs: int) -> torch.Tensor:
        study, engine = self.trainer.study, self.trainer.engine
        row = torch.from_numpy(self.start)[None].to(engine.device, engine.dtype)
        trained = self._shared if self._shared.all() else ~self._shared
        own = torch.from_numpy(trained).to(engine.device)
        data = self.trainer.client_data(self.cell.seed, dataset)
        return calibrate(
            row, data, own, study.client_optimiser(self.cell), Calibration(epochs=epochs)
        )
