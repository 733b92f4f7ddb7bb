"""Repeats a deployed cell in the simulator, with the recorded participation."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from plfl.config.study import Cell, Study
from plfl.data.dataset import Dataset
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.endpoints import PartlyHeard, calibrated
from plfl.deploy.protocol.participation import Observed, record
from plfl.deploy.protocol.policy import RoundSummary
from plfl.experiments.recorder import Recorder
from plfl.experiments.trainer import Trainer
from plfl.federated.channel import Channel
from plfl.federated.client_data import ClientData
from plfl.federated.federation import Federation
from plfl.federated.round import Round, run
from plfl.results.records import CellResult

ASKED = "asked"
"""Temporary column of the records, through which every client that was sent a message has a row."""


def replay(
    study: Study, cell: Cell, dataset: Dataset, history: Iterable[RoundSummary]
) -> tuple[CellResult, Federation]:
    """Run a cell with the participation and the calibrations of `history`.

    Returns:
        The result tables, and the federation after the last round.
    """
    trainer = Trainer.of(study, dataset)
    f = trainer.federation(cell, agreement.candidate(study, cell))
    client_data = f.client_data
    clock = f.clock = Observed(study.federation.simulation, client_data.names, cell.seed)
    settings = study.federation
    evaluator, recorder = trainer.evaluator, Recorder.of(dataset, settings)
    windows = client_data.windows.clone()
    for summary in history:
        clock.observe(summary.asked, summary.took_part)
        client_data.windows = windows.where(_known(client_data, summary), torch.nan)
        for name, epochs in summary.calibrated.items():
            i = client_data.names.index(name)
            rows = calibrated(f, f.offered, epochs)
            f.restart(f.everyone[i : i + 1], rows[i : i + 1])

        def report(finished: list[Round], summary: RoundSummary = summary) -> None:
            (result,) = finished
            evaluation = None
            if settings.evaluates(result.t):
                is_last = result.t == settings.rounds
                received = f.global_models if f.has_global else None
                channel = f.channel if is_last else Channel(0, len(client_data.names))
                if summary.margins:
                    heard = [client_data.names.index(name) for name in summary.margins]
                    channel = PartlyHeard(channel, heard)
                evaluation = evaluator.score(f, received, channel)
                if is_last:
                    recorder.week = evaluation.week()
            asked = np.isin(client_data.names, summary.asked).astype(np.int64)
            record(recorder, f, result, evaluation, {ASKED: asked})

        run([f], trainer.engine, range(summary.t, summary.t + 1), report)
    result = agreement.tables(study, cell, recorder)
    return replace(result, records=result.records.drop(columns=ASKED)), f


def _known(client_data: ClientData, summary: RoundSummary) -> torch.Tensor:
    """Mask (N,) of the clients that had joined by a round; all of them if none are recorded."""
    joined = np.isin(client_data.names, summary.joined or client_data.names)
    return torch.from_numpy(joined).to(client_data.windows.device)
