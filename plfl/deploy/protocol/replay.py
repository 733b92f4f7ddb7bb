"""Repeats a deployed cell in the simulator, with the recorded participation."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from plfl.config.study import Cell, Study
from plfl.data.dataset import Dataset
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.endpoints import PartlyHeard, calibrated
from plfl.deploy.protocol.policy import RoundSummary
from plfl.experiments.recorder import Recorder
from plfl.experiments.train import clusters_of
from plfl.experiments.trainer import Trainer
from plfl.federated.channel import Channel, total
from plfl.federated.client_data import ClientData
from plfl.federated.clock import Clock
from plfl.federated.federation import Federation
from plfl.federated.round import Round, run
from plfl.results.records import CellResult

ASKED = "asked"
"""Temporary column of the records. It gives every client that was sent a message a row."""


class Replay(Clock):
    """Recorded participation: clients that were asked are available; silent ones drop out."""

    history: dict[int, RoundSummary]

    def available(self, t: int) -> NDArray[np.bool_]:
        return np.isin(self.names, self.history[t].asked)

    def progress(self, t: int) -> NDArray[np.float64]:
        return np.isin(self.names, self.history[t].took_part).astype(np.float64)


def replay(
    study: Study, cell: Cell, dataset: Dataset, history: Iterable[RoundSummary]
) -> tuple[CellResult, Federation]:
    """Run a cell with the participation and the calibrations of `history`.

    Returns:
        The result tables, and the federation after the last round.
    """
    trainer = Trainer.of(study, dataset)
    engine = trainer.engine
    f = trainer.federation(cell, agreement.candidate(study, cell))
    client_data = f.client_data
    clock = f.clock = Replay(study.federation.simulation, client_data.names, cell.seed)
    clock.history = {summary.t: summary for summary in history}
    settings = study.federation
    evaluator, recorder = trainer.evaluator, Recorder.of(dataset, settings)

    def report(finished: list[Round]) -> None:
        (result,) = finished
        numbers = result.present
        stayed = clock.progress(result.t)[numbers] == 1
        traffic, evaluation = result.traffic, None
        if settings.evaluates(result.t):
            received = f.global_models if f.has_global else None
            is_last = result.t == settings.rounds
            channel = f.channel if is_last else Channel(0, len(client_data.names))
            if heard := clock.history[result.t].margins:
                channel = PartlyHeard(channel, [client_data.names.index(name) for name in heard])
            evaluation = evaluator.score(f, received, channel)
            traffic = total(traffic, f.channel.close_round())  # shared margins of intervals
        counts = traffic | {ASKED: clock.available(result.t).astype(np.int64)}
        losses, steps = result.losses[stayed], result.steps[stayed]
        recorder.train(result.t, numbers[stayed], losses, steps, counts, None)
        if evaluation is not None:
            recorder.evaluate(result.t, evaluation, traffic, clusters_of(f))
            if result.t == settings.rounds:
                recorder.week = evaluation.week()

    windows = client_data.windows.clone()
    for summary in clock.history.values():
        client_data.windows = windows.where(_known(client_data, summary), torch.nan)
        for name, epochs in summary.calibrated.items():
            i = client_data.names.index(name)
            rows = calibrated(f, f.offered, epochs)
            f.restart(f.everyone[i : i + 1], rows[i : i + 1])
        run([f], engine, range(summary.t, summary.t + 1), report)
    result = agreement.tables(study, cell, recorder)
    return replace(result, records=result.records.drop(columns=ASKED)), f


def _known(client_data: ClientData, summary: RoundSummary) -> torch.Tensor:
    """Mask (N,) of the clients that had joined by a round; all of them if none are recorded."""
    joined = np.isin(client_data.names, summary.joined or client_data.names)
    return torch.from_numpy(joined).to(client_data.windows.device)
