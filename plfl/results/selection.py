"""Which forecasters of a study are meant: by a name in a claim, or as the best of a kind.

The rule by which all are chosen is that of `plfl.results.best`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE, pretrained_names, send_open_sums
from plfl.interfaces.baseline import Crosses
from plfl.results import words
from plfl.results.scores import AXES, Forecaster, select
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.study import Cell, Study
from plfl.study.axes import parse_place
from plfl.study.checks import USE_NAMES, WHOLE_KINDS
from plfl.study.plan import depends_on_seed


def scheme_method_pairs(study: Study) -> list[tuple[str, str]]:
    """Pairs of sharing scheme and method; one pair where clients train alone."""
    pairs = dict.fromkeys((cell.sharing, cell.method) for cell in study.cells)
    local_pairs = [pair for pair in pairs if study.plan.combinations.trains_alone(*pair)]
    first = dict(reversed(local_pairs))
    return [pair for pair in pairs if pair not in local_pairs or first[pair[0]] == pair[1]]


def shown_cell(tables: Tables, state: str) -> Cell | None:
    """The cell whose forecasts are shown for a state: the best federation, if there is one; None if
    every cell diverged; see `Tables.best`."""
    federated = tables.best("local", state=state, sharing=tables.study.plan.schemes.federated)
    return federated or tables.best("local", state=state)


def best_baselines(tables: Tables) -> dict[str, str]:
    """The best baseline that sends no data, by state; states without one are left out."""
    best_of = {state: tables.best_baseline(state) for state in tables.study.data.states}
    return {state: name for state, name in best_of.items() if name is not None}


class NotInStudyError(Exception):
    """The study lacks something that a comparison is about."""


class Contender(NamedTuple):
    """A forecaster, and the variant that it belongs to."""

    variant: Variant
    forecaster: Forecaster

    @property
    def label(self) -> str:
        """What it is called in tables, within its study."""
        sharing, method, client, server = self.forecaster.axes
        study = self.variant.tables.study
        if self.is_mixture:
            return self._mixture(self.labels)
        if sharing == BASELINE:
            return words.baseline(method)
        trains_alone = study.plan.combinations.trains_alone(sharing, method)
        axes = {"method": method, "client_opt": client, "server_opt": server}
        parts = {k: v if len(getattr(study.grid, k)) > 1 else "*" for k, v in axes.items()}
        parts |= {"method": "*", "server_opt": "*"} if trains_alone else {}
        if parts["server_opt"] != "*":
            parts["method"] = method
        name = "-".join([sharing, *parts.values()])
        model = ", the server's model" if self.forecaster.model == "global" else ""
        return words.forecaster(study, name) + model

    @property
    def labels(self) -> list[str]:
        """The label of the forecaster of each client."""
        if self.is_mixture:
            return [part.label for part, clients in self.parts for _ in clients]
        return [self.label] * len(self.forecaster.clients)

    @property
    def label_with_name(self) -> str:
        """`label`, and behind that of a baseline the name that files and `plfl forecast` have."""
        if self.is_mixture:
            parts = self.parts
            return self._mixture([part.label_with_name for part, names in parts for _ in names])
        sharing, method = self.forecaster.axes[:2]
        return f"{self.label} ({method})" if sharing == BASELINE else self.label

    def _mixture(self, labels: list[str]) -> str:
        """What it is called, given the label of the forecaster of each client."""
        return words.mixture(labels, self.variant.tables.study.client_word)

    @property
    def validation(self) -> float:
        """Its validation error; NaN if any seed diverged."""
        return self.forecaster.validation

    @property
    def is_mixture(self) -> bool:
        """Whether it is what is in use: a forecaster for each client."""
        return self.forecaster.axes[0] in USE_NAMES

    @property
    def is_trained(self) -> bool:
        """Whether its numbers depend on the seed: not those of a baseline, or of several."""
        if self.is_mixture:
            return any(part.is_trained for part, _ in self.parts)
        if self.forecaster.is_baseline:
            return False
        return depends_on_seed(self.variant.tables.study, self.forecaster.axes[1])

    @property
    def schemes(self) -> list[str]:
        """The sharing schemes of its forecasters, or `baseline`."""
        parts = [part for part, _ in self.parts] if self.is_mixture else [self]
        return list(dict.fromkeys(part.forecaster.axes[0] for part in parts))

    @property
    def parts(self) -> list[tuple[Contender, list[str]]]:
        """Of a mixture, its forecasters with the clients of each."""
        name, state = self.forecaster.axes[0], self.forecaster.state
        clients_of: dict[tuple[str, ...], list[str]] = {}
        assignments = self.variant.assignments[name, state]
        for client in self.forecaster.clients:
            clients_of.setdefault(assignments[client].axes, []).append(client)
        return [
            (Contender(self.variant, forecaster), clients_of[forecaster.axes])
            for forecaster in self.variant.scores["local"][state]
            if forecaster.axes in clients_of
        ]

    @property
    def crosses(self) -> str:
        """What clients send: nothing, models or raw data; of a mixture, what any of them sends."""
        if self.is_mixture:
            return max((part.crosses for part, _ in self.parts), key=get_args(Crosses).index)
        sharing, method = self.forecaster.axes[:2]
        return words.crossing(self.variant.tables.study, f"{sharing}-{method}")

    @property
    def sends_open_sums(self) -> bool:
        """Whether clients send sums for trees without masks, which reveal readings."""
        if self.is_mixture:
            return any(part.sends_open_sums for part, _ in self.parts)
        study, (sharing, method) = self.variant.tables.study, self.forecaster.axes[:2]
        if sharing == BASELINE:
            return method in send_open_sums(study.baselines.further)
        grows_trees = study.model.only_method is not None and self.crosses != "nothing"
        return grows_trees and not study.channel.secure

    @property
    def bytes(self) -> float:
        """Bytes of all clients of the state in a training, in both directions; of a mixture, of the
        trainings of all its forecasters. Messages that several of them need are sent once."""
        return self.bytes_down + self.bytes_up

    @property
    def bytes_down(self) -> float:
        """Of `bytes`, those that clients receive; of a baseline none are counted."""
        if self.is_mixture:
            return sum(part.bytes_down for part, _ in self.parts)
        return 0.0 if self.forecaster.is_baseline else self.counted_cost("bytes_down")

    @property
    def bytes_up(self) -> float:
        """Of `bytes`, those that clients send; all of a baseline's."""
        if self.is_mixture:
            parts = [part for part, _ in self.parts]
            names = [p.forecaster.axes[1] for p in parts if p.forecaster.is_baseline]
            by_baseline = self._own_bytes(names)
            trained = (part.bytes_up for part in parts if not part.forecaster.is_baseline)
            return sum(by_baseline.values()) + sum(trained)
        if self.forecaster.is_baseline:
            return self._sent_bytes(self.forecaster.axes[1])
        return self.counted_cost("bytes_up")

    def _sent_bytes(self, baseline: str) -> float:
        """Bytes that clients send for a baseline and its members."""
        return float(self.variant.tables.baseline_scores["bytes"][self.forecaster.state, baseline])

    def _own_bytes(self, names: Iterable[str]) -> dict[str, float]:
        """Bytes that clients send for each of these baselines and their members, without those for
        the members that it has itself."""
        find_with_members = self.variant.tables.study.baselines.find_with_members
        own_bytes: dict[str, float] = {}
        for name in names:
            members = {member.name for member in find_with_members(name)} - {name}
            of_members = self._own_bytes(members)
            sent_for_members = sum(of_members.values())
            own_bytes |= of_members | {name: self._sent_bytes(name) - sent_for_members}
        return own_bytes

    def mean(self, score: str) -> float:
        """A score of the test set, mean over clients and seeds: `wape`, `nrmse`, `seasonal_mase` or
        `peak_error`; NaN if the tables lack it."""
        if self.is_mixture or score == "peak_error":
            return float(self.by_client(score).mean())
        if self.forecaster.is_baseline:
            place = self.forecaster.state, self.forecaster.axes[1]
            rows = self.variant.tables.baseline_scores.loc[[place]]
        else:
            rows = self.variant.summarised(self.forecaster.model, self.forecaster.name)
        return float(rows[f"{score}_mean"].mean()) if f"{score}_mean" in rows else np.nan

    def by_client(self, score: str) -> pd.Series[float]:
        """A score of the test set by client, mean over seeds; see `mean`."""
        if self.is_mixture:
            return pd.concat([part.by_client(score)[clients] for part, clients in self.parts])
        tables, state, axes = self.variant.tables, self.forecaster.state, self.forecaster.axes
        is_baseline = self.forecaster.is_baseline
        is_daily = score.startswith("peak")
        if is_baseline and not is_daily:
            rows = tables.baselines
            is_meant = (rows["state"] == state) & (rows["baseline"] == axes[1])
            rows = rows[is_meant & (rows["split"] == "test")]
        else:
            model = BASELINE if is_baseline else self.forecaster.model
            equal: dict[str, Any] = dict(zip(AXES, axes, strict=True))
            equal |= {"state": state, "model": model}
            if is_daily:
                if not tables.has_peaks:
                    return pd.Series(np.nan, self.forecaster.clients)
                rows = tables.errors(["client", score], **equal)
            else:
                columns = ["client", *({score} & {*tables.record_columns})]
                last = tables.study.federation.rounds
                rows = tables.records(columns, **equal, split="test", round=last)
        if score not in rows:
            return pd.Series(np.nan, self.forecaster.clients)
        return rows.groupby("client")[score].mean()

    def counted_cost(self, column: str) -> float:
        """A cost of a training in the summary, mean over seeds; NaN if it is not known, such as
        what clients receive for baselines."""
        if column == "bytes_down" and self.is_mixture:
            return sum(part.counted_cost(column) for part, _ in self.parts)
        if column == "bytes_down" and self.crosses == "nothing":
            return 0.0
        rows = self.variant.summarised(self.forecaster.model, self.forecaster.name)
        if column not in rows:
            raise NotInStudyError("the study does not simulate time (federation.simulation)")
        return float(rows[column].mean())


def contender_in_use(variant: Variant, state: str, name: str = words.IN_USE) -> Contender | None:
    """What is in use in a state; None if nothing has a score."""
    (forecaster, *_) = [*select(variant.scores["local"][state], sharing=name), None]
    return Contender(variant, forecaster) if forecaster else None


def contenders_in_use(variant: Variant, state: str) -> list[Contender]:
    """What is in use in a state, and what would be without a federation if that is different."""
    uses = [use for name in USE_NAMES if (use := contender_in_use(variant, state, name))]
    if len(uses) < 2:
        return uses
    chosen, alone = (
        {client: choice.axes for client, choice in variant.assignments[name, state].items()}
        for name in USE_NAMES
    )
    return uses[: 1 if chosen == alone else 2]


def find_contenders(
    study: Study, group: Sequence[Variant], state: str, names: Sequence[str], score: str = ""
) -> list[Contender]:
    """The forecasters of a state that names in claims stand for, in some variants; NotInStudyError
    if no variant is at a place that a name says."""
    columns = {axis.key: axis.column for axis in study.plan.axes}
    contenders = []
    for full in names:
        place, name = parse_place(full, study.plan.axes)
        matching_variants = [
            v for v in group if all(v.place[columns[k]] == label for k, label in place.items())
        ]
        if not matching_variants:
            raise NotInStudyError(f"`where` leaves no variant of {full}")
        contenders += [
            Contender(v, forecaster)
            for v in matching_variants
            for forecaster in _find_forecasters(v, name, state, score)
        ]
    return contenders


def _find_forecasters(variant: Variant, name: str, state: str, score: str) -> Iterator[Forecaster]:
    """The forecasters of a state that a name without a place stands for, each training once."""
    study, state_scores = variant.tables.study, variant.scored(score)
    grid, pretrained = study.plan.combinations, pretrained_names(study.baselines.further)
    if name in WHOLE_KINDS:
        for model, scores in state_scores.items():
            for forecaster in scores[state]:
                sharing, method = forecaster.axes[:2]
                if sharing in USE_NAMES:
                    continue
                if forecaster.is_baseline:
                    is_listed = model == "local" and method not in pretrained
                    is_meant = is_listed and words.kind(study, f"{BASELINE}-{method}") == name
                else:
                    repeated = model == "global" and grid.trains_alone(sharing, method)
                    is_meant = words.kind(study, sharing) == name and not repeated
                if is_meant and (forecaster.is_baseline or not grid.repeats(*forecaster.axes)):
                    yield replace(forecaster, model=model)
        return
    if name in USE_NAMES:
        yield from select(state_scores["local"][state], sharing=name)
        return
    short = name.removesuffix("-global")
    model = "local" if short == name else "global"
    sharing, *algorithms = short.split("-")
    parts = zip(AXES, [sharing, *algorithms], strict=False)
    equal = {axis: value for axis, value in parts if value != "*"}
    for forecaster in select(state_scores[model][state], **equal):
        if forecaster.is_baseline == (sharing == BASELINE) and (
            forecaster.is_baseline or not grid.repeats(*forecaster.axes)
        ):
            yield replace(forecaster, model=model)
