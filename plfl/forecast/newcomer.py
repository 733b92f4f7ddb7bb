"""A meter that did not take part gets a model: the shared part, and a head of its own (cold start).

It starts with the parameters that the server sends, or their mean over clients where these differ.
It then trains only its personal part, or the head where everything is shared, on its own windows,
see `plfl.federated.calibration`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.config.sections import Calibration
from plfl.config.study import Cell, Study
from plfl.data.windows import Scaling, build_later, scaling_of_new
from plfl.experiments.trainer import Trainer
from plfl.federated.calibration import calibrate
from plfl.layout import head_mask
from plfl.results.records import Models


def personal_part(study: Study, cell: Cell) -> NDArray[np.bool_]:
    """Parameters (P,) that a new meter trains."""
    shared = study.layout.mask(study.shared[cell.sharing])
    return head_mask(study.layout, "mlp") if shared.all() else ~shared


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


def train_head(
    study: Study,
    cell: Cell,
    models: Models,
    trained: Mapping[str, Scaling],
    client: str,
    table: pd.DataFrame,
    epochs: int,
) -> tuple[Scaling, Models]:
    """The scaling of a new meter and its model, as a row: trained (`local`), and as it was given.

    Args:
        study: the study of the models.
        cell: the cell that they belong to.
        models: the models of its clients.
        trained: the scalings of these clients.
        client: the name of the new meter.
        table: its readings, with the columns that the clients had; NaN in gaps.
        epochs: passes over its windows.

    Raises:
        DataError: the clients of the cell shared nothing, or the meter has too few windows.
    """
    start = start_of(cell, models)
    scaling = scaling_of_new(client, table, study.windows, next(iter(trained.values())))
    dataset = build_later(client, table, study.windows, scaling, training=True)
    trainer = Trainer.of(study, dataset)
    row = torch.from_numpy(start)[None].to(trainer.engine.device, trainer.engine.dtype)
    own = torch.from_numpy(personal_part(study, cell)).to(trainer.engine.device)
    data, options = trainer.client_data(cell.seed), Calibration(epochs=epochs)
    calibrated = calibrate(row, data, own, study.client_optimiser(cell), options)
    return scaling, {"local": calibrated.cpu().numpy().astype(np.float32), "global": start[None]}
