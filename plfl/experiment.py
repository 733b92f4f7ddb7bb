"""Train a stack of cells on the dataset of their state and record what happens."""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl import federation
from plfl.checkpoint import Checkpoint
from plfl.clock import Times
from plfl.data.windows import Dataset, Split
from plfl.federation import Federation, Round
from plfl.fleet import Fleet
from plfl.forecaster import Forecaster
from plfl.results import scores
from plfl.results.records import CELL, CellResult
from plfl.study import Candidate, Cell, Study, digest
from plfl.training import Engine, engine

log = logging.getLogger(__name__)

EVALUATED: tuple[Split, ...] = ("validation", "test")
WEEK = 7 * 24 * 60
"""Minutes of forecast that are kept for the figures."""


def train(
    study: Study,
    cells: Sequence[Cell],
    dataset: Dataset,
    progress: Callable[[int], None] = lambda t: None,
    checkpoint: Checkpoint | None = None,
) -> dict[Cell, CellResult]:
    """Train `cells`, all of one state, side by side; `progress` is told every finished round.

    With a `checkpoint` the training goes on where it was interrupted, and gives the same bits.

    Cells that differ in nothing that matters are trained once: with nothing shared (P3) the
    ServerOpt never comes in, and each of its cells reports the same training. Where rates are
    tuned every candidate is trained, unless it drops out on the way, and the one of least
    validation MASE is reported.
    """
    torch.set_num_threads(study.compute.threads)
    forecaster = Forecaster.of(study.model, len(dataset.columns), dataset.look_back)
    machine = engine(study.compute, forecaster, dataset)
    twins: dict[str, list[Cell]] = {}
    for cell in cells:
        twins.setdefault(digest(study.settings(cell)), []).append(cell)
    fleets = {seed: Fleet(dataset, machine, study.federation, seed) for seed in study.grid.seeds}
    trials = running = [
        _Trial(
            same,
            candidate,
            federation_of(study, same[0], candidate, forecaster, fleets[same[0].seed]),
            Recorder(dataset.clients),
        )
        for same in twins.values()
        for candidate in study.candidates(same[0])
    ]
    examiner = Examiner(dataset, machine)

    def report(finished: Round) -> None:
        t = finished.t
        evaluate = t % study.federation.evaluate_every == 0 or t in study.rungs
        for i, (f, recorder) in enumerate((trial.federation, trial.recorder) for trial in running):
            times = finished.times[i] if study.federation.simulation.timed else None
            recorder.train(t, finished.present[i], finished.losses[i], finished.bytes[i], times)
            if evaluate:
                received = f.global_models if f.channel.shared else None
                examined = examiner.examine(f.local, received)
                recorder.evaluate(t, examined, finished.bytes[i], clusters_of(f))
        progress(t)
        if checkpoint and t < study.federation.rounds and checkpoint.is_due():
            checkpoint.save(
                t,
                [trial.federation for trial in trials],
                [trial.recorder.parts for trial in trials],
            )

    after = 0
    if checkpoint:
        after, saved = checkpoint.load([trial.federation for trial in trials])
        for trial, parts in zip(trials, saved, strict=after > 0):
            # They were saved as one table, in which each has the columns of all others.
            foreign = ["cluster"] if clusters_of(trial.federation) is None else []
            trial.recorder.parts = [part.drop(columns=foreign, errors="ignore") for part in parts]
    for end in study.rungs:
        if after < end:
            alive = [trial.federation for trial in running]
            federation.run(alive, machine, study.federation, range(after + 1, end + 1), report)
            after = end
        running = _best(running, end, only=end == study.federation.rounds)
    results = {}
    for best in running:
        tried = sum(trial.cells is best.cells for trial in trials)
        rates = best.candidate.rates | {"tried": tried}
        if study.is_alone(best.cells[0]):
            rates["server_lr"] = float("nan")
        for cell in best.cells:
            results[cell] = best.recorder.result(cell, rates)
    return results


@dataclass(frozen=True, eq=False)
class _Trial:
    """One choice of rates for the cells that differ in nothing that matters."""

    cells: list[Cell]
    candidate: Candidate
    federation: Federation
    recorder: "Recorder"


def _best(trials: list[_Trial], t: int, only: bool) -> list[_Trial]:
    """The better half of each cell's trials after round `t`, or `only` the best; all in order."""
    kept = []
    for _, group in itertools.groupby(trials, lambda trial: trial.cells):
        tried = list(group)
        ranked = sorted(tried, key=lambda trial: trial.recorder.validation(t))
        best = ranked[: 1 if only else -(-len(tried) // 2)]
        for trial in ranked if len(tried) > 1 else ():
            log.info(
                "%s with %s: validation MASE %.4g after round %d%s",
                *(trial.cells[0], trial.candidate.rates, trial.recorder.validation(t), t),
                "" if trial in best else ", dropped",
            )
        kept += [trial for trial in tried if trial in best]
    return kept


def federation_of(
    study: Study, cell: Cell, candidate: Candidate, forecaster: Forecaster, fleet: Fleet
) -> Federation:
    """A cell of the study before its first round, trained with the rates of a candidate."""
    machine = fleet.engine
    mask = forecaster.layout.mask(study.personalization[cell.personalization])
    return Federation(
        method=candidate.method,
        client_opt=candidate.client_opt,
        server_opt=candidate.server_opt,
        split=torch.from_numpy(mask).to(machine.device),
        seed=cell.seed,
        initial=forecaster.initial(cell.seed).to(machine.device, machine.dtype),
        fleet=fleet,
        weighting=study.federation.weighting,
        opt_state=study.federation.opt_state,
        draw=lambda seed: forecaster.initial(seed).to(machine.device, machine.dtype),
        layout=forecaster.layout,
        simulation=study.federation.simulation,
    )


def clusters_of(f: Federation) -> NDArray[np.int64] | None:
    """Cluster of every client (N,), −1 for one without; None where the method has no clusters."""
    found = f.memory.get("cluster") if f.channel.shared else None
    return None if found is None else found.cpu().numpy()


@dataclass(frozen=True)
class Examined:
    """How the models of a federation forecast at the end of a round."""

    scores: pd.DataFrame
    """One row a `model`, `split` and `client`, in this order: `mae`, `rmse` and `mase`."""
    week: pd.DataFrame
    """Truth, persistence and forecasts of the first week of every client's test part."""


class Examiner:
    """Forecasts every evaluation window of every client of a dataset."""

    def __init__(self, dataset: Dataset, machine: Engine):
        self.dataset, self.machine = dataset, machine
        self.clients = range(len(dataset.clients))
        starts = [np.concatenate([dataset.starts(i, s) for s in EVALUATED]) for i in self.clients]
        self.starts = [torch.from_numpy(s).to(machine.device) for s in starts]

    def examine(self, local: torch.Tensor, received: torch.Tensor | None) -> Examined:
        """Score the models (N, P) as the clients hold them, and as the server would send them.

        Where nothing is shared (None) the two are the same.
        """
        loads = {"local": self._forecast(local)}
        loads["global"] = loads["local"] if received is None else self._forecast(received)
        rows = [
            {"client": str(self.dataset.clients[i]), "split": split, "model": model}
            | self._scores(i, split, forecasts[i])
            for model, forecasts in loads.items()
            for split in EVALUATED
            for i in self.clients
        ]
        week = pd.concat(self._week(i, loads) for i in self.clients)
        return Examined(pd.DataFrame(rows), week)

    def _forecast(self, rows: torch.Tensor) -> list[NDArray[np.float64]]:
        """Loads in kWh of a client's validation windows, then its test windows."""
        d = self.dataset
        return [
            d.load_offset[i] + d.load_scale[i] * scaled.double().cpu().numpy()
            for i, scaled in enumerate(self.machine.predict(rows, self.starts))
        ]

    def _scores(self, i: int, split: Split, loads: NDArray[np.float64]) -> dict[str, float]:
        d = self.dataset
        starts = d.starts(i, split)
        truth, persistence = d.load[d.target_rows(starts)], d.load[d.persistence_rows(starts)]
        part = loads[: len(truth)] if split == "validation" else loads[-len(truth) :]
        return {
            "mae": scores.mae(truth, part),
            "rmse": scores.rmse(truth, part),
            "mase": scores.mase(truth, part, persistence),
        }

    def _week(self, i: int, loads: dict[str, list[NDArray[np.float64]]]) -> pd.DataFrame:
        d = self.dataset
        starts = d.starts(i, "test")
        shown = starts[: WEEK // d.interval]
        columns = {
            "truth": d.load[d.target_rows(shown)],
            "persistence": d.load[d.persistence_rows(shown)],
            **{model: all_of[i][-len(starts) :][: len(shown)] for model, all_of in loads.items()},
        }
        keys = {"client": str(d.clients[i]), "stamp": d.stamps[d.target_rows(shown)]}
        return pd.DataFrame(keys | {n: c.astype(np.float32) for n, c in columns.items()})


@dataclass
class Recorder:
    """Collects the records of one federation, round by round."""

    clients: NDArray[np.str_]
    """Names of the N clients."""
    parts: list[pd.DataFrame] = field(default_factory=list)
    week: pd.DataFrame = field(default_factory=pd.DataFrame)

    def train(
        self,
        t: int,
        present: NDArray[np.int64],
        losses: NDArray[np.float64],
        page: dict[str, NDArray[np.int64]],
        times: Times | None,
    ) -> None:
        """One row a participant: its mean minibatch loss, its bytes and its simulated seconds.

        A loss that is not finite is recorded as infinite. A client that only exchanged something,
        as before round 1, has a row without a loss.
        """
        heard = np.flatnonzero(np.any([counts > 0 for counts in page.values()], axis=0))
        others = np.setdiff1d(heard, present)
        who = np.concatenate([present, others])
        loss = np.where(np.isfinite(losses), losses, np.inf)
        columns = {"round": t, "client": self.clients[who], "split": "train", "model": "local"}
        columns["loss"] = np.concatenate([loss, np.full(len(others), np.nan)])
        crossed = {kind: counts[who] for kind, counts in page.items()}
        timed = {}
        if times is not None:
            timed = {"seconds": times.busy[who], "round_seconds": times.round}
        self.parts.append(pd.DataFrame(columns | crossed | timed))

    def evaluate(
        self,
        t: int,
        examined: Examined,
        page: dict[str, NDArray[np.int64]],
        clusters: NDArray[np.int64] | None,
    ) -> None:
        """One row a client, split and model: its scores, and its cluster if there are clusters."""
        number = {name: i for i, name in enumerate(self.clients.tolist())}
        i = examined.scores["client"].map(number).to_numpy(np.int64)
        part = examined.scores.assign(**{name: counts[i] for name, counts in page.items()})
        part.insert(0, "round", t)
        self.parts.append(part if clusters is None else part.assign(cluster=clusters[i]))
        self.week = examined.week

    def validation(self, t: int) -> float:
        """Mean validation MASE of the local models after round `t`; ∞ where it is not finite."""
        wanted = {"round": t, "split": "validation", "model": "local"}
        for part in self.parts:
            found = part[(part[list(wanted)] == pd.Series(wanted)).all(axis=1)]
            if len(found):
                return float(found["mase"].mean()) if np.isfinite(found["mae"]).all() else np.inf
        raise KeyError(f"the models were not scored after round {t}")

    def result(self, cell: Cell, rates: dict[str, float]) -> CellResult:
        """The tables of `cell`, which was trained with `rates`."""
        records = pd.concat(self.parts, ignore_index=True).assign(**rates)
        return CellResult(_labelled(cell, records), _labelled(cell, self.week))


def _labelled(cell: Cell, table: pd.DataFrame) -> pd.DataFrame:
    labels = {name: getattr(cell, name) for name in CELL}
    return pd.concat([pd.DataFrame(labels, index=table.index), table], axis=1)
