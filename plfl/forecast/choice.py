"""Which of the forecasters that a results folder keeps is best for a meter."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from plfl.base.errors import Problem, ResultsError, suggest_name
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.baselines import pretrained_names
from plfl.config.named import STANDARD_BASELINES
from plfl.data.dataset import held_out_rows
from plfl.forecast.contents import AS_RECEIVED
from plfl.forecast.kept_models import KeptModels
from plfl.forecast.known_readings import KnownReadings
from plfl.forecast.model import ForecastModel
from plfl.results.assignment import Assignment, assign, list_errors
from plfl.results.tables import Tables

MAP, PUBLIC = "docs/map.md", "docs/public.md"
"""Pages with the errors of new meters."""
BY_AGE: dict[int, dict[str, str]] = {
    0: {"mean_received": PUBLIC, "public": PUBLIC, "lightgbm_federated": MAP},
    4: {"combined_received": MAP, "combined_public": PUBLIC},
}
"""The forecasters to take for a new meter, in order of preference, by the weeks of readings from
which on: models as received, then their weighted mean with own ones. With each, the page that has
its errors."""
AS_RECEIVED_ONLY = 0
"""The age of `BY_AGE` whose forecasters learn nothing from the readings of their meter."""


def rank_for_new(
    names: Collection[str], weeks: float, validation: Mapping[str, float]
) -> dict[str, str]:
    """Those of `names` that suit a new meter with so many weeks of readings, the one to take first,
    and why each would be.

    Models as received learn nothing from the meter, so those of a study can expect at a new meter
    what they have on the `validation` sets of its own meters (mean MASE, by name): the least comes
    first. The others, and those without such an error, are in the order of `BY_AGE`.
    """
    age = max(weeks_known for weeks_known in BY_AGE if weeks_known <= weeks)
    pages = {name: page for name, page in BY_AGE[age].items() if name in names}
    reasons = {
        name: f"best on average of what is kept, with {weeks:.1f} weeks of readings ({page})"
        for name, page in pages.items()
    }
    known_errors = pd.Series({name: validation[name] for name in pages if name in validation})
    if age != AS_RECEIVED_ONLY or len(known_errors) < 2:
        return reasons
    reason = list_errors(known_errors, "of models as received, least validation error of all, MASE")
    ranking = known_errors.sort_values(kind="stable").index
    fallbacks = {name: text for name, text in reasons.items() if name not in known_errors}
    return {str(name): reason for name in ranking} | fallbacks


def errors_on_validation(tables: Tables) -> dict[str, float]:
    """The mean validation MASE of each baseline, over all states, without those that were trained
    on the meters elsewhere, and those that others have trained on them, too."""
    errors = tables.baseline_scores["validation_mase"].groupby(level="baseline").mean().dropna()
    baselines = tables.study.baselines
    pretrained = pretrained_names(baselines.further)
    return {
        str(name): float(error)
        for name, error in errors.items()
        if name not in pretrained and not baselines.knows_own_readings(str(name))
    }


@dataclass(frozen=True)
class Choice:
    """A forecaster, and why it is chosen."""

    name: str
    """The name of a sharing scheme or of a baseline."""
    file: Path
    why: str

    @property
    def sentence(self) -> str:
        return f"{self.name}, {self.why}"


@dataclass(frozen=True)
class Forecasters(KeptModels):
    """The forecasters that a results folder keeps."""

    accepts_misfits: bool = False
    """Whether readings are taken that do not fit those of the study."""

    @cached_property
    def known_readings(self) -> KnownReadings:
        """The readings of the study's clients, to which new ones are joined."""
        return KnownReadings(self, self.accepts_misfits)

    def choose(self, client: str, forecaster_name: str = "") -> Choice:
        """What forecasts a client: the forecaster that `plfl.results.assignment` assigns it, or the
        one of this name. ResultsError: the client did not take part, or nothing that can forecast
        it is kept."""
        if client not in self.clients:
            raise ResultsError(
                Problem(
                    client,
                    f"did not take part in {self.results}",
                    "forecast it as a new meter with `plfl forecast --new`, score it with `plfl "
                    "backtest --new`"
                    f"{suggest_name(client, self.clients)}",
                )
            )
        rows_of_state = self.rows_of_state(client)
        if forecaster_name:
            return self._find_wanted(rows_of_state, forecaster_name)
        if (assignment := self._assignments.get(client)) is None:
            raise ResultsError(
                Problem(client, "no forecaster has a score", "choose one with --with")
            )
        return self._choice(rows_of_state, assignment.forecaster, assignment.reason)

    @cached_property
    def _assignments(self) -> dict[str, Assignment]:
        """What each client is assigned, of the forecasters that the folder keeps."""
        assignments: dict[str, Assignment] = {}
        for state, kept_rows in self.index.groupby("state", sort=False):
            assignments |= assign(self.tables, str(state), kept_rows["name"].tolist())
        return assignments

    def choose_for_new(
        self,
        client: str,
        readings: pd.DataFrame,
        forecaster_name: str = "",
        epochs: int | None = None,
    ) -> tuple[Choice, ForecastModel]:
        """What forecasts a meter that did not take part, and its model; see `ForecastModel.adapt`
        also for errors. ResultsError: nothing is kept that could forecast a new meter.

        The first of `rank_for_new` is taken, without any comparison on the readings. If none of
        them is kept, the forecasters that suit a meter of this age are compared on the last fifth
        of its readings. With less than two weeks, they are models as received and naive forecasts,
        which need no training and are compared on all readings; with less than a week, the model as
        received is taken (benchmarks/first_days.py).
        """
        if forecaster_name:
            choice = self._find_wanted(self.index, forecaster_name)
        else:
            choice = self._best_for_age(readings) or self._best_for_new(client, readings, epochs)
        return self._with_state(choice), self.model(choice.file).adapt(readings, client, epochs)

    def _with_state(self, choice: Choice) -> Choice:
        """What forecasts a new meter; of a study with several states, `why` says whose models."""
        states = self.index["state"].unique()
        if len(states) < 2:
            return choice
        is_chosen = self.index["file"] == choice.file.name
        state = self.index.loc[is_chosen, "state"].iloc[0]
        return replace(choice, why=f"{choice.why}; of {state}, one of {len(states)} states")

    @cached_property
    def _validation(self) -> dict[str, float]:
        """See `errors_on_validation`."""
        return errors_on_validation(self.tables)

    def _best_for_age(self, readings: pd.DataFrame) -> Choice | None:
        """What is best for meters of this age; None if nothing of it is kept."""
        weeks = len(readings) * self.any_model.interval / MINUTES_PER_WEEK
        ranking = rank_for_new({*self.index["name"]}, weeks, self._validation)
        return next((self._choice(self.index, *item) for item in ranking.items()), None)

    def _best_for_new(self, client: str, readings: pd.DataFrame, epochs: int | None) -> Choice:
        minutes = len(readings) * self.any_model.interval
        is_short = minutes < AS_RECEIVED
        held_count = held_out_rows(len(readings), self.any_model.interval)
        earlier_readings = readings if is_short else readings[:-held_count]
        by_name: dict[str, pd.Series[float]] = {}
        for row in self.index.drop_duplicates("name").itertuples():
            model, name = self.model(self.folder / str(row.file)), str(row.name)
            if model.baseline:
                baseline = model.study.baselines.find(name)
                is_early = baseline.is_naive and minutes < baseline.reach + MINUTES_PER_WEEK
                if (baseline.needs_training and is_short) or is_early:
                    continue
            elif "global" not in model.models:
                continue
            adapted_model = model.adapt(earlier_readings, client, 0 if is_short else epochs)
            forecasts = adapted_model.predict(readings, client, early=True)
            if not is_short:
                forecasts = forecasts[forecasts["made_at"] >= earlier_readings.index[-1]]
            truth = readings["load"].reindex(forecasts.index)
            errors = (forecasts["forecast"] - truth).abs()
            by_name[name] = errors.set_axis(
                pd.MultiIndex.from_arrays([forecasts.index, forecasts["made_at"]])
            )
        if all(name in STANDARD_BASELINES for name in by_name):
            raise ResultsError(
                Problem(
                    self.results,
                    "keeps no model that a new meter could begin with",
                    "add a sharing scheme that shares parameters, such as P1, to the study",
                )
            )
        common = pd.DataFrame(by_name).dropna().mean().sort_values()
        if common.isna().all():
            return self._choice(self.index, str(common.index[0]), "as received")
        span = "all its readings" if is_short else "the last fifth of its readings"
        return self._choose_least(self.index, common, f"least error of {span}, kWh")

    def _find_wanted(self, among: pd.DataFrame, name: str) -> Choice:
        known_names = among["name"].drop_duplicates().tolist()
        if name not in known_names:
            raise ResultsError(
                Problem(
                    f"--with {name}",
                    f"{self.folder} keeps no such forecaster",
                    f"name one of {', '.join(known_names)}{suggest_name(name, known_names)}"
                    if known_names
                    else "",
                )
            )
        return self._choice(among, name, "chosen with --with")

    def _choose_least(self, among: pd.DataFrame, errors: pd.Series[float], reason: str) -> Choice:
        """The forecaster of least error, which comes first among the `errors`."""
        return self._choice(among, str(errors.index[0]), list_errors(errors, reason))

    def _choice(self, among: pd.DataFrame, name: str, why: str) -> Choice:
        file = among.loc[among["name"] == name, "file"].iloc[0]
        return Choice(name, self.folder / str(file), why)
