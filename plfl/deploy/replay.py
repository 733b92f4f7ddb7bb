"""A deployed cell in the simulator: who took part is what it was."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plfl import federation
from plfl.clock import Clock
from plfl.data.windows import Dataset
from plfl.deploy import agreement
from plfl.deploy.sides import calibrated
from plfl.deploy.terms import Taken
from plfl.experiment import Examiner, Recorder, clusters_of, federation_of
from plfl.federation import Federation, Round
from plfl.fleet import Fleet
from plfl.forecaster import Forecaster
from plfl.results.records import CellResult
from plfl.study import Cell, Study
from plfl.training import engine

ASKED = "asked"
"""Column of the records while they are made: whoever got a message has a row."""


class Replay(Clock):
    """Participation as it was: those who were asked come, those who did not answer drop out."""

    history: dict[int, Taken]

    def available(self, t: int) -> NDArray[np.bool_]:
        return np.isin(self.fleet.names, self.history[t].asked)

    def progress(self, t: int) -> NDArray[np.float64]:
        return np.isin(self.fleet.names, self.history[t].took_part).astype(np.float64)


def replay(
    study: Study, cell: Cell, dataset: Dataset, history: Iterable[Taken]
) -> tuple[CellResult, Federation]:
    """The records of a cell in which took part who did, and what all hold at the end."""
    forecaster = Forecaster.of(study.model, len(dataset.columns), dataset.look_back)
    machine = engine(study.compute, forecaster, dataset)
    fleet = Fleet(dataset, machine, study.federation, cell.seed)
    candidate = agreement.candidate(study, cell)
    f = federation_of(study, cell, candidate, forecaster, fleet)
    clock = f.clock = Replay(study.federation.simulation, fleet)
    clock.history = {taken.t: taken for taken in history}
    examiner, recorder, settings = (
        Examiner(dataset, machine),
        Recorder(dataset.clients),
        study.federation,
    )

    def report(done: Round) -> None:
        numbers = done.present[0]
        stayed = clock.progress(done.t)[numbers] == 1
        page = done.bytes[0] | {ASKED: clock.available(done.t).astype(np.int64)}
        recorder.train(done.t, numbers[stayed], done.losses[0][stayed], page, None)
        if done.t % settings.evaluate_every == 0 or done.t == settings.rounds:
            received = f.global_models if f.channel.shared else None
            examined = examiner.examine(f.local, received)
            recorder.evaluate(done.t, examined, done.bytes[0], clusters_of(f))

    for taken in clock.history.values():
        for name, epochs in taken.calibrated.items():
            i = fleet.names.index(name)
            f.local[i] = calibrated(f, f.method.held(f), epochs)[i]
        federation.run([f], machine, settings, range(taken.t, taken.t + 1), report)
    result = recorder.result(cell, agreement.rates(study, cell))
    return replace(result, records=result.records.drop(columns=ASKED)), f
