"""Forecasts of meters from new files, by the models of a study."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from plfl.base.errors import DataError, Problem
from plfl.data.meters.file_contents import NO_READING
from plfl.data.meters.paths import client_name, raw_files
from plfl.forecast.choice import Forecasters
from plfl.forecast.kept_errors import warn_of_sums
from plfl.forecast.kept_models import is_results_folder
from plfl.forecast.misfits import check_fit
from plfl.forecast.model import ForecastModel, load
from plfl.forecast.sums import SUM
from plfl.results.records import ModelKind
from plfl.study.forecaster_names import IN_USE

SayOfMeter = Callable[[str, str], None]
"""Takes a text about a meter, of which it gets the name first."""


class FileReadings(NamedTuple):
    """What new files hold."""

    readings: dict[str, pd.DataFrame]
    """The readings of each meter as they are."""
    resampled_readings: dict[str, pd.DataFrame]
    """Those over the intervals of the study; empty of participants whose files have none yet."""
    problems: list[Problem]
    """Why meters are left out."""
    absent_names: list[str]
    """The participants that are in none of the files, if these have only some."""


@dataclass(frozen=True)
class StudyForecasts:
    """Forecasts of meters by a results folder, which chooses among its models, or by a file of
    models."""

    path: Path
    say: SayOfMeter
    forecaster: str = ""
    """The forecaster to take; empty: the best."""
    has_new: bool = False
    """Whether meters that did not take part are forecast, too."""
    has_earlier: bool = False
    """Whether the forecasts that could have been made before are meant, too."""
    model_kind: ModelKind = "local"
    accepts_misfits: bool = False
    """Whether readings are taken that do not fit those of the study."""
    keeps_readings: bool = False
    """Whether the results folder keeps the readings."""
    _fitting_names: set[str] = field(default_factory=set, init=False)
    """The participants whose readings were found to fit those of the study."""

    @cached_property
    def folder(self) -> Forecasters | None:
        """What the results folder keeps; None of a file of models."""
        is_folder = is_results_folder(self.path)
        return Forecasters(self.path, self.accepts_misfits) if is_folder else None

    @cached_property
    def any_model(self) -> ForecastModel:
        """A model that tells how files of meters are read."""
        return self.folder.any_model if self.folder else load(self.path)

    @property
    def participants(self) -> Collection[str]:
        return self.folder.clients if self.folder else self.any_model.clients

    def is_new(self, client: str) -> bool:
        """Whether a meter is forecast as one that did not take part."""
        return self.has_new and client not in self.participants

    def read(
        self, paths: Sequence[Path], client: str | None, keys: Mapping[str, Any]
    ) -> FileReadings:
        """What new files hold. `client`: the only meter to read. `keys`: of `data.meters`, where
        these files differ from those of the study."""
        if self.folder is None:
            is_only = not self.has_new and len(self.any_model.clients) == 1
            client = client or (self.any_model.clients[0] if is_only else None)
            resampled_readings, problems = self.any_model.meter_files.read_all(
                paths, client, keys, self.path
            )
            return FileReadings(resampled_readings, resampled_readings, problems, [])
        readings, resampled_readings, problems = self.folder.known_readings.read(
            paths, client, keys
        )
        files = raw_files(paths, with_subfolders=True)
        absent_names: list[str] = []
        if client is None and not self.has_new and len(files) < len(readings):
            present_names = {*resampled_readings, *(problem.meter for problem in problems)}
            absent_names = [name for name in self.participants if name not in present_names]
        # Where a file is that of a participant, the others are each of one meter, too.
        has_strangers = self.has_new or any(
            client_name(file) in self.participants for file in files
        )
        waiting_names = take_waiting(
            problems, self.participants, resampled_readings, client, has_strangers
        )
        resampled_readings |= dict.fromkeys(waiting_names, pd.DataFrame())
        return FileReadings(readings, resampled_readings, problems, absent_names)

    def choose_model(self, client: str, readings: pd.DataFrame) -> ForecastModel:
        """The model for a meter; of a results folder, a line says why, in the first of the calls
        that keep readings."""
        if self.is_new(client):
            logging.getLogger("plfl.forecast").setLevel(logging.INFO)
            if self.folder is None:
                return self.any_model.adapt(readings, client)
            choice, model = self.folder.choose_for_new(client, readings, self.forecaster)
            self.say(client, choice.sentence)
            return model
        if self.folder is None:
            return self.any_model
        choice = self.folder.choose(client, self.forecaster)
        if not self.keeps_readings or client not in self.folder.known_readings.recent_readings:
            self.say(client, choice.sentence)
        return self.folder.model(choice.file)

    def forecast(self, model: ForecastModel, client: str, readings: pd.DataFrame) -> pd.DataFrame:
        """The forecasts of a meter by its model, with the offsets of their stamps. Without a
        reading, those after the last known one."""
        reported_from = None
        known_readings = self.folder.known_readings if self.folder else None
        if known_readings and readings.empty:
            self._fitting_names.add(client)
            readings = known_readings.latest_reading(client)
            last = model.meter_files.local_time(readings.index[-1], client)
            self.say(client, f"no reading yet: forecast from the known ones, up to {last}")
        first = readings.index[0]
        if known_readings and not self.is_new(client):
            reported_from = known_readings.last_known(client) + pd.Timedelta(minutes=1)
            readings = known_readings.read_by_next(model, client, readings)
            self._fitting_names.add(client)
        forecasts = (
            model.predict(readings, client, self.model_kind, fills_lags=True, since=first)
            if self.has_earlier
            else model.predict_next(readings, client, self.model_kind, reported_from)
        )
        if forecasts.empty:
            remedy = "add readings, or let a longer gap be filled with --max-gap MINUTES"
            raise DataError(model.explain_no_forecast(readings, client, remedy))
        forecasts = model.meter_files.with_offsets(forecasts, client)
        if not (known_readings or self.is_new(client) or self.accepts_misfits):
            highest = model.load_range(client)[1]
            check_fit(client, readings["load"], None, highest, model.meter_files.local_time)
        return forecasts

    def keep_readings(self, readings: Mapping[str, pd.DataFrame]) -> None:
        """Keep new readings of the participants whose readings fit, if the results folder is to."""
        if self.folder and self.keeps_readings:
            fitting = {
                name: table for name, table in readings.items() if name in self._fitting_names
            }
            self.folder.known_readings.keep_readings(fitting)

    def remarks(self, client_readings: Mapping[str, pd.DataFrame]) -> list[dict[str, str]]:
        """What there is to know, by meter, about the new readings of participants: of these tables,
        those that are not empty."""
        participant_tables = {
            name: table
            for name, table in client_readings.items()
            if name in self._fitting_names and len(table)
        }
        if self.folder is None or not participant_tables:
            return []
        known_readings = self.folder.known_readings
        return [known_readings.remarks(participant_tables), known_readings.lags(participant_tables)]

    def sum_warnings(self) -> dict[str, str]:
        """Why forecasts are not to be added, by the sum, if the test of the study shows it."""
        if self.folder is None:
            return {}
        study = self.folder.any_model.study
        has_states = len(study.data.states) > 1
        warnings = warn_of_sums(self.folder.results, study, self.forecaster or IN_USE)
        return {
            f"{SUM} of {state}" if has_states else SUM: warning
            for state, warning in warnings.items()
        }


def take_waiting(
    problems: list[Problem],
    participants: Collection[str],
    read_names: Collection[str],
    client: str | None,
    has_strangers: bool = False,
) -> list[str]:
    """The participants, or the only `client`, whose files have no reading yet; these problems are
    taken out of the list. A file that has none, and is not that of a single participant, may be of
    all that are not among the `read_names` of readings."""
    said_names = {problem.meter for problem in problems if problem.kind == NO_READING}
    names = said_names & {*participants}
    if said_names != names and not has_strangers:
        names |= {*participants} if client is None else {client} & {*participants}
        said_names |= names
    else:
        said_names = names
    problems[:] = [
        problem
        for problem in problems
        if problem.kind != NO_READING or problem.meter not in said_names
    ]
    refused_names = {problem.meter for problem in problems}
    return [
        name
        for name in participants
        if name in names and name not in read_names and name not in refused_names
    ]
