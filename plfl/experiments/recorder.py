"""Records the scores and costs of a training for the tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.config.federation import FederationSettings
from plfl.data.examples import Examples
from plfl.experiments.evaluation import Evaluation
from plfl.federated.channel import Traffic
from plfl.federated.clock import RoundTimes
from plfl.interfaces.task import Task
from plfl.results.records import ModelKind


@dataclass
class Recorder:
    """Collects the records of one federation, round by round."""

    clients: NDArray[np.str_]
    """Names of the N clients."""
    epochs_per_step: NDArray[np.float64]
    """The fraction (N,) of a client's training windows that one local step reads."""
    tables: list[pd.DataFrame] = field(default_factory=list)
    week: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The table of `Evaluation.week` after the last round."""
    errors: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The table of `Evaluation.errors` after the last round."""

    @classmethod
    def for_clients(cls, dataset: Examples, settings: FederationSettings) -> Self:
        """An empty recorder for the clients of a dataset."""
        windows = [len(dataset.starts(i, "train")) for i in range(len(dataset.clients))]
        return cls(dataset.clients, settings.batch_size / np.array(windows, dtype=np.float64))

    @classmethod
    def concatenate(cls, recorders: Sequence[Self]) -> Self:
        """One recorder with the records of several recorders, each of different clients."""
        if len(recorders) == 1:
            return recorders[0]
        return cls(
            np.concatenate([recorder.clients for recorder in recorders]),
            np.concatenate([recorder.epochs_per_step for recorder in recorders]),
            [table for recorder in recorders for table in recorder.tables],
            pd.concat([recorder.week for recorder in recorders], ignore_index=True),
            pd.concat([recorder.errors for recorder in recorders], ignore_index=True),
        )

    def record_joining(self, t: int, traffic: Traffic) -> None:
        """Add a row for each client that joins after round `t`, with the bytes it exchanges."""
        no_clients, no_values = np.empty(0, np.int64), np.empty(0)
        self.record_training(t, no_clients, no_values, no_values, traffic, None)

    def record_training(
        self,
        t: int,
        present: NDArray[np.int64],
        losses: NDArray[np.float64],
        steps: NDArray[np.float64],
        traffic: Traffic,
        times: RoundTimes | None,
    ) -> None:
        """Add a row for each participant: mean minibatch loss, steps, bytes and simulated seconds.
        A loss that is not finite is recorded as infinite. A client that exchanged messages without
        training, as before round 1, has a row without a loss."""
        reached = np.flatnonzero(np.any([counts > 0 for counts in traffic.values()], axis=0))
        absent_clients = np.setdiff1d(reached, present)
        exchanging_clients = np.concatenate([present, absent_clients])
        loss = np.where(np.isfinite(losses), losses, np.inf)
        columns = {
            "round": t,
            "client": self.clients[exchanging_clients],
            "split": "train",
            "model": "local",
        }
        columns["loss"] = np.concatenate([loss, np.full(len(absent_clients), np.nan)])
        columns["steps"] = np.concatenate([steps, np.zeros(len(absent_clients))])
        columns["epochs"] = columns["steps"] * self.epochs_per_step[exchanging_clients]
        client_traffic = {kind: counts[exchanging_clients] for kind, counts in traffic.items()}
        timed = {}
        if times is not None:
            timed = {"seconds": times.busy[exchanging_clients], "round_seconds": times.round}
        self.tables.append(pd.DataFrame(columns | client_traffic | timed))

    def record_steps_of_others(self, t: int, steps: NDArray[np.float64], traffic: Traffic) -> None:
        """Add a row with the steps that clients took in round `t` whose models are scored on
        others; `model_scores` leaves it out."""
        columns = {"round": t, "client": "", "split": "members", "model": "", "loss": np.nan}
        # All columns of the other rows, so that these keep their types in a checkpoint.
        columns |= {"steps": float(steps.sum()), "epochs": 0.0}
        zeros = {kind: np.zeros(1, counts.dtype) for kind, counts in traffic.items()}
        self.tables.append(pd.DataFrame(columns | zeros, index=[0]))

    def record_scores(
        self, t: int, evaluation: Evaluation, traffic: Traffic, clusters: NDArray[np.int64] | None
    ) -> None:
        """Add a row for each client, split and model: its scores, and its cluster if it has one."""
        number = {name: i for i, name in enumerate(self.clients.tolist())}
        i = evaluation.scores["client"].map(number).to_numpy(np.int64)
        table = evaluation.scores.assign(**{name: counts[i] for name, counts in traffic.items()})
        table.insert(0, "round", t)
        self.tables.append(table if clusters is None else table.assign(cluster=clusters[i]))

    def copy_validation(self, choice_recorder: Self, t: int, last: int) -> None:
        """Copy the validation scores of another recorder up to round `t`; those of `t` become
        those of round `last`."""
        own_parts = [table[table["split"] != "validation"] for table in self.tables]
        validation_parts = [
            table[(table["split"] == "validation") & (table["round"] <= t)]
            for table in choice_recorder.tables
        ]
        moved = [
            table.assign(round=table["round"].replace(t, last))
            for table in validation_parts
            if len(table)
        ]
        self.tables = [*own_parts, *moved]

    def validation(self, t: int, model: ModelKind, task: Task) -> pd.DataFrame:
        """The validation scores after round `t`, a row per client."""
        for table in self.tables:
            if (
                task.choosing_score not in table or t not in table["round"].to_numpy()
            ):  # of training
                continue
            is_of_round = (
                (table["round"] == t) & (table["split"] == "validation") & (table["model"] == model)
            )
            if len(rows := table[is_of_round]):
                return rows
        raise KeyError(f"the models were not scored after round {t}")

    @property
    def steps(self) -> float:
        """Local steps of all clients so far, and of those whose models others receive."""
        return float(sum(table["steps"].sum() for table in self.tables if "steps" in table))

    def model_scores(self, model: ModelKind) -> pd.DataFrame:
        """The scores of one model, with the records of the training that it came from."""
        table = pd.concat(self.tables, ignore_index=True)
        training = table["split"] == "train"
        return table[training | (table["model"] == model)].assign(model=model)
