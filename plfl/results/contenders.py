"""Contenders, of which a comparison has two sides: a trained forecaster, a baseline, or a mixture
of both, with the variant of the study that it belongs to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
import pandas as pd

from plfl.baselines import send_open_sums
from plfl.config.baselines import BASELINE
from plfl.interfaces.baseline import Crosses
from plfl.results import words
from plfl.results.scores import ForecasterScores
from plfl.results.variants import Variant
from plfl.study import Study
from plfl.study.combinations import Combination
from plfl.study.forecaster_names import ANY, USE_NAMES, ForecasterName
from plfl.study.plan import depends_on_seed


class NotInStudyError(Exception):
    """The study lacks something that a comparison is about."""


def contender_of(variant: Variant, forecaster: ForecasterScores) -> Contender:
    """The contender of a forecaster of a variant."""
    if forecaster.combination.sharing in USE_NAMES:
        return Mixture(variant, forecaster)
    kind = BaselineContender if forecaster.is_baseline else TrainedContender
    return kind(variant, forecaster)


@dataclass(frozen=True, eq=False)
class Contender(ABC):
    """What all contenders have."""

    is_mixture: ClassVar[bool] = False
    """Whether it has a forecaster for each client."""
    variant: Variant
    forecaster: ForecasterScores

    @property
    def study(self) -> Study:
        """The study of the variant."""
        return self.variant.tables.study

    @property
    def state(self) -> str:
        """The state whose clients it forecasts for."""
        return self.forecaster.state

    @property
    def validation(self) -> float:
        """Its validation error; NaN if any seed diverged."""
        return self.forecaster.validation

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is called in tables, within its study."""

    @property
    def labels(self) -> list[str]:
        """The label of the forecaster of each client."""
        return [self.label] * len(self.forecaster.clients)

    @property
    def label_with_name(self) -> str:
        """`label`, and behind that of a baseline the name that files and `plfl forecast` have."""
        return self.label

    @property
    @abstractmethod
    def is_trained(self) -> bool:
        """Whether its numbers depend on the seed: not those of a baseline, or of several."""

    @property
    def schemes(self) -> list[str]:
        """The sharing schemes of its forecasters, or `baseline`."""
        return [self.forecaster.combination.sharing]

    @property
    def crosses(self) -> str:
        """What clients send; of a mixture, the most that any of them sends."""
        sharing, method, *_ = self.forecaster.combination
        return words.word_crossing(self.study, ForecasterName(sharing, method))

    @property
    @abstractmethod
    def sends_open_sums(self) -> bool:
        """Whether clients send sums for trees without masks, which reveal readings."""

    @property
    def bytes(self) -> float:
        """Bytes of all clients of the state in a training, in both directions; of a mixture, of the
        trainings of all its forecasters. Messages that several of them need are sent once."""
        return self.bytes_down + self.bytes_up

    @property
    @abstractmethod
    def bytes_down(self) -> float:
        """Of `bytes`, those that clients receive; of a baseline none are counted."""

    @property
    @abstractmethod
    def bytes_up(self) -> float:
        """Of `bytes`, those that clients send; all of a baseline's."""

    def _baseline_bytes(self, name: str) -> float:
        """Bytes that clients send for a baseline and its members."""
        return float(self.variant.tables.baseline_scores["bytes"][self.state, name])

    @abstractmethod
    def mean(self, score: str) -> float:
        """A score of the test set, mean over clients and seeds: `wape`, `nrmse`, `seasonal_mase` or
        `peak_error`; NaN if the tables lack it."""

    @abstractmethod
    def by_client(self, score: str) -> pd.Series[float]:
        """A score of the test set by client, mean over seeds; see `mean`."""

    def counted_cost(self, column: str) -> float:
        """A cost of a training in the summary, mean over seeds; NaN if it is not known, such as
        what clients receive for baselines. NotInStudyError: the study does not count it."""
        if column == "bytes_down" and self.crosses == "nothing":
            return 0.0
        rows = self.variant.summary_rows(self.forecaster.model, self.forecaster.name)
        if column not in rows:
            raise NotInStudyError("the study does not simulate time (federation.simulation)")
        return float(rows[column].mean())


class _SingleContender(Contender):
    """A contender with one forecaster for all clients."""

    @property
    @abstractmethod
    def _model(self) -> str:
        """The column `model` of its rows in tables."""

    @abstractmethod
    def _summary_rows(self) -> pd.DataFrame:
        """Its rows of the means over clients."""

    @abstractmethod
    def _rows_by_client(self, score: str) -> pd.DataFrame:
        """Its rows of the test set by client, with the score, if the tables have it."""

    @property
    def _labels_of_rows(self) -> dict[str, Any]:
        """What its rows in tables have in common."""
        combination = self.forecaster.combination._asdict()
        return combination | {"state": self.state, "model": self._model}

    def mean(self, score: str) -> float:
        if score == "peak_error":
            return float(self.by_client(score).mean())
        rows = self._summary_rows()
        return float(rows[f"{score}_mean"].mean()) if f"{score}_mean" in rows else np.nan

    def by_client(self, score: str) -> pd.Series[float]:
        tables = self.variant.tables
        is_daily = score.startswith("peak")
        if is_daily and tables.has_peaks:
            rows = tables.errors(["client", score], **self._labels_of_rows)
        else:
            rows = pd.DataFrame() if is_daily else self._rows_by_client(score)
        if score not in rows:
            return pd.Series(np.nan, self.forecaster.clients)
        return rows.groupby("client")[score].mean()


class TrainedContender(_SingleContender):
    """A cell with all its seeds."""

    @property
    def label(self) -> str:
        sharing, method, client, server = self.forecaster.combination
        trains_alone = self.study.plan.combinations.trains_alone(sharing, method)
        names = {"method": method, "client_opt": client, "server_opt": server}
        grid = self.study.grid
        parts = {axis: n if len(getattr(grid, axis)) > 1 else ANY for axis, n in names.items()}
        parts |= {"method": ANY, "server_opt": ANY} if trains_alone else {}
        if parts["server_opt"] != ANY:
            parts["method"] = method
        name = ForecasterName(sharing, parts["method"], parts["client_opt"], parts["server_opt"])
        model = ", the server's model" if self.forecaster.model == "global" else ""
        return words.word_forecaster(self.study, name) + model

    @property
    def is_trained(self) -> bool:
        return depends_on_seed(self.study, self.forecaster.combination.method)

    @property
    def sends_open_sums(self) -> bool:
        sends_sums = self.study.model.grows_trees and self.crosses != "nothing"
        return sends_sums and not self.study.channel.secure

    @property
    def bytes_down(self) -> float:
        return self.counted_cost("bytes_down")

    @property
    def bytes_up(self) -> float:
        return self.counted_cost("bytes_up")

    @property
    def _model(self) -> str:
        return self.forecaster.model

    def _summary_rows(self) -> pd.DataFrame:
        return self.variant.summary_rows(self.forecaster.model, self.forecaster.name)

    def _rows_by_client(self, score: str) -> pd.DataFrame:
        tables = self.variant.tables
        columns = ["client", *({score} & {*tables.record_columns})]
        last_round = self.study.federation.rounds
        return tables.records(columns, **self._labels_of_rows, split="test", round=last_round)


class BaselineContender(_SingleContender):
    """A baseline."""

    @property
    def name(self) -> str:
        """The name of the baseline."""
        return self.forecaster.combination.method

    @property
    def label(self) -> str:
        return words.word_baseline(self.name)

    @property
    def label_with_name(self) -> str:
        return f"{self.label} ({self.name})"

    @property
    def is_trained(self) -> bool:
        return False

    @property
    def sends_open_sums(self) -> bool:
        return self.name in send_open_sums(self.study.baselines.further)

    @property
    def bytes_down(self) -> float:
        return 0.0

    @property
    def bytes_up(self) -> float:
        return self._baseline_bytes(self.name)

    @property
    def _model(self) -> str:
        return BASELINE

    def _summary_rows(self) -> pd.DataFrame:
        return self.variant.tables.baseline_scores.loc[[(self.state, self.name)]]

    def _rows_by_client(self, score: str) -> pd.DataFrame:
        rows = self.variant.tables.baselines
        is_meant = (rows["state"] == self.state) & (rows["baseline"] == self.name)
        return rows[is_meant & (rows["split"] == "test")]


class Mixture(Contender):
    """What is in use: a forecaster for each client."""

    is_mixture = True

    @property
    def contenders_with_clients(self) -> list[tuple[Contender, list[str]]]:
        """Its contenders with the clients of each."""
        name = self.forecaster.combination.sharing
        clients_of: dict[Combination, list[str]] = {}
        assignments = self.variant.assignments[name, self.state]
        for client in self.forecaster.clients:
            clients_of.setdefault(assignments[client].combination, []).append(client)
        return [
            (contender_of(self.variant, forecaster), clients_of[forecaster.combination])
            for forecaster in self.variant.scores["local"][self.state]
            if forecaster.combination in clients_of
        ]

    @property
    def contenders(self) -> list[Contender]:
        """Its contenders."""
        return [contender for contender, _ in self.contenders_with_clients]

    @property
    def label(self) -> str:
        return words.word_mixture(self.labels, self.study.client_word)

    @property
    def labels(self) -> list[str]:
        return [
            contender.label for contender, clients in self.contenders_with_clients for _ in clients
        ]

    @property
    def label_with_name(self) -> str:
        labels = [
            contender.label_with_name
            for contender, clients in self.contenders_with_clients
            for _ in clients
        ]
        return words.word_mixture(labels, self.study.client_word)

    @property
    def is_trained(self) -> bool:
        return any(contender.is_trained for contender in self.contenders)

    @property
    def schemes(self) -> list[str]:
        return list(
            dict.fromkeys(scheme for contender in self.contenders for scheme in contender.schemes)
        )

    @property
    def crosses(self) -> str:
        return max(
            (contender.crosses for contender in self.contenders), key=get_args(Crosses).index
        )

    @property
    def sends_open_sums(self) -> bool:
        return any(contender.sends_open_sums for contender in self.contenders)

    @property
    def bytes_down(self) -> float:
        return sum(contender.bytes_down for contender in self.contenders)

    @property
    def bytes_up(self) -> float:
        contenders = self.contenders
        forecasters = [contender.forecaster for contender in contenders]
        baselines = [f.combination.method for f in forecasters if f.is_baseline]
        trained = (
            contender.bytes_up for contender in contenders if not contender.forecaster.is_baseline
        )
        return sum(self._own_bytes(baselines).values()) + sum(trained)

    def _own_bytes(self, names: Iterable[str]) -> dict[str, float]:
        """Bytes that clients send for each of these baselines and their members, without those for
        the members that it has itself."""
        own_bytes: dict[str, float] = {}
        for name in names:
            members = {m.name for m in self.study.baselines.find_with_members(name)} - {name}
            of_members = self._own_bytes(members)
            sent_bytes = self._baseline_bytes(name)
            own_bytes |= of_members | {name: sent_bytes - sum(of_members.values())}
        return own_bytes

    def mean(self, score: str) -> float:
        return float(self.by_client(score).mean())

    def by_client(self, score: str) -> pd.Series[float]:
        return pd.concat(
            [
                contender.by_client(score)[clients]
                for contender, clients in self.contenders_with_clients
            ]
        )

    def counted_cost(self, column: str) -> float:
        if column == "bytes_down":
            return sum(contender.counted_cost(column) for contender in self.contenders)
        return super().counted_cost(column)
