"""Which of the forecasters that a results folder keeps is best for a meter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.base.errors import DataError, Problem, ResultsError, collect_problems, suggest_name
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.base.text import list_names
from plfl.baselines import BASELINE, pretrained_names
from plfl.config.named import STANDARD_BASELINES
from plfl.data.dataset import Dataset, held_out_rows
from plfl.data.features import drop_replaced
from plfl.data.meters.stamps import standard_offset
from plfl.data.windows import scalings
from plfl.forecast.contents import AS_RECEIVED
from plfl.forecast.meter_files import NO_KEYS
from plfl.forecast.misfits import (
    check_fit,
    check_overlap,
    describe_gap,
    describe_lag,
    describe_scale,
)
from plfl.forecast.model import ForecastModel, count_rows_read, load
from plfl.forecast.recent_readings import RECENT_FILE, keep_recent, read_recent
from plfl.forecast.repeated_hour import place_lone
from plfl.results.assignment import Assignment, assign, list_errors
from plfl.results.records import read_csv, read_facts
from plfl.results.tables import Tables
from plfl.study.axes import latest

MOST_VARIANTS = 6
"""Folders of variants that an error names."""
ALL_TIME = pd.Timedelta(days=36_500)
"""The reach of forecasts whose intervals follow all earlier ones."""
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


def is_results_folder(path: Path) -> bool:
    """Whether a path is that of a results folder, which need not exist, and not of a file of
    models."""
    return path.is_dir() or not (path.is_file() or path.suffix == ".safetensors")


@dataclass(frozen=True)
class Choice:
    """A forecaster, and why it is chosen."""

    name: str
    """The name of a sharing scheme or of a baseline."""
    file: Path
    why: str


def read_clock() -> pd.Timestamp:
    """The time now, in UTC."""
    return pd.Timestamp.now("UTC")


def readings_of(dataset: Dataset, columns: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The readings of each client of a dataset, with these columns in their units; see
    `Forecasters.readings`."""
    tables = {}
    for number, (client, scaling) in enumerate(scalings(dataset).items()):
        rows = slice(*dataset.view.bounds[number, [0, 3]].tolist())
        values = dataset.features[rows] * scaling.scale + scaling.offset
        stamps = pd.DatetimeIndex(dataset.stamps[rows], name="timestamp")
        table = pd.DataFrame(values, stamps, dataset.columns.tolist())
        table["load"] = dataset.load[rows]
        tables[client] = table[[*columns]].asfreq(f"{dataset.interval}min")
    return tables


@dataclass(frozen=True)
class Forecasters:
    """The forecasters that a results folder keeps."""

    results: Path
    accepts_misfits: bool = False
    """Whether readings are taken that do not fit those of the study."""

    @cached_property
    def place(self) -> Path:
        """The results folder with the models: that of the latest origin, if origins are the only
        axis of the study; otherwise its own. ResultsError: only the variants have models."""
        places = read_facts(self.results).get("variants") or {}
        if (label := latest(places)) is None:
            folders = list_names([str(self.results / label) for label in places], MOST_VARIANTS)
            raise ResultsError(
                Problem(
                    self.results,
                    "keeps no models itself, because its study has variants",
                    f"name the folder of one of them: {folders}",
                )
            )
        return self.results / label

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.place)

    @property
    def _folder(self) -> Path:
        """The folder of the models."""
        return self.place / "models"

    @cached_property
    def index(self) -> pd.DataFrame:
        """A row per state and forecaster: `state`, `name`, `cell`, `file`; ResultsError if the
        folder keeps none."""
        _ = self.tables.facts  # says what is wrong with the folder
        path = self._folder / "index.csv"
        if not path.is_file():
            raise ResultsError(Problem(path, "is missing", "run the study to its end"))
        table = read_csv(path)
        if table.empty:
            raise ResultsError(Problem(path, "lists no model", "train again"))
        is_baseline = table["sharing"] == BASELINE
        return table.assign(name=table["sharing"].where(~is_baseline, table["cell"]))

    @cached_property
    def _models(self) -> dict[Path, ForecastModel]:
        return {}

    def model(self, file: Path) -> ForecastModel:
        """The model in a file, which is read once."""
        if file not in self._models:
            self._models[file] = load(file)
        return self._models[file]

    @property
    def are_of_plfl(self) -> bool:
        """Whether no code of a plug-in forecasts."""
        study, names = self.tables.study, self.index.loc[self.index["sharing"] == BASELINE, "name"]
        return not study.plugins and study.baselines.are_of_plfl(map(str, names))

    @property
    def any_model(self) -> ForecastModel:
        """A model that tells how files of meters are read: all of a study read them alike."""
        return self.model(self._folder / self.index["file"].iloc[0])

    def _model_of(self, client: str) -> ForecastModel:
        """A model that was trained with the client: one of its state."""
        return self.model(self._folder / self._rows_of_state(client)["file"].iloc[0])

    def _rows_of_state(self, client: str) -> pd.DataFrame:
        """The rows of the index that are of a client's state."""
        return self.index[self.index["state"] == self.clients[client]]

    @property
    def _reach(self) -> pd.Timedelta:
        """The time before a forecast of which any of the forecasters reads something."""
        model = self.any_model
        if model.has_adaptive_widths:
            return ALL_TIME
        baselines = self.index.loc[self.index["sharing"] == BASELINE, "name"].unique()
        rows = [count_rows_read(model.study, model.interval, name) for name in ("", *baselines)]
        return max(rows) * pd.Timedelta(minutes=model.interval)

    @cached_property
    def clients(self) -> dict[str, str]:
        """The state of each client, by name."""
        table = self.tables.clients.drop_duplicates("client")
        return dict(zip(table["client"], table["state"], strict=True))

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
        rows_of_state = self._rows_of_state(client)
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
        held = held_out_rows(len(readings), self.any_model.interval)
        earlier_readings = readings if is_short else readings[:-held]
        by_name: dict[str, pd.Series[float]] = {}
        for row in self.index.drop_duplicates("name").itertuples():
            model, name = self.model(self._folder / str(row.file)), str(row.name)
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

    @cached_property
    def readings(self) -> dict[str, pd.DataFrame]:
        """The readings of each client that the study knows, in kWh, indexed by the ends of the
        intervals in standard time; NaN in gaps."""
        tables: dict[str, pd.DataFrame] = {}
        column_names = self.any_model.reading_columns
        for state in self.index["state"].unique():
            folders = [self.place, self.place.parent]  # a variant's may be one above
            files = [folder / "data" / f"{state}.npz" for folder in folders]
            file = next(filter(Path.is_file, files), files[0])
            if not file.is_file():
                raise ResultsError(
                    Problem(file, "the study's readings are missing", "run it again")
                )
            tables |= readings_of(Dataset.load_file(file), column_names)
        return tables

    @cached_property
    def recent(self) -> dict[str, pd.DataFrame]:
        """Readings of clients after those of the study, not resampled; see `read_recent`, also for
        errors."""
        if not (self.results / RECENT_FILE).is_file():
            return {}
        tables = read_recent(self.results, self.any_model.form_of_readings)
        return {name: self.any_model.join_lengths(table) for name, table in tables.items()}

    def keep_readings(self, new: Mapping[str, pd.DataFrame]) -> None:
        """Keep new readings of clients, not resampled, in the results folder; see `keep_recent`."""
        keep_recent(self.results, new, self._reach, self.any_model.form_of_readings)

    def read(
        self, paths: Sequence[Path], client: str | None = None, keys: Mapping[str, Any] = NO_KEYS
    ) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame], list[Problem]]:
        """The readings in new files as they are, and over the intervals of the study, by meter, and
        the problems of others; see `MeterFiles.read_raw`. Short gaps are filled in those of meters
        that did not take part; of the others, readings may be known."""
        model = self.any_model
        last_known = {name: self.last_known(name) for name in self.recent}
        readings, problems = model.read_raw(paths, client, keys, self.results, last_known)
        for name, table in list(readings.items()):
            known_load = self._known_load(name, table.attrs["minutes"])
            del readings[name]
            with collect_problems(problems):
                placed_table = place_lone(table, known_load)
                readings[name] = model.without_jumps(name, placed_table, known_load)
        tables = model.resample_all(readings, self.recent, problems)
        for name in tables.keys() - self.clients.keys():
            tables[name] = model.bridge(tables[name], model.interval)
        return {name: table for name, table in readings.items() if len(table)}, tables, problems

    def _known_load(self, client: str, minutes: int) -> pd.Series[float]:
        """The known loads of a client every so many `minutes`, without gaps; none of others."""
        parts = []
        if client in self.clients and minutes == self.any_model.interval:
            parts.append(self.readings[client])
        if client in self.recent and minutes == self.recent[client].attrs["minutes"]:
            parts.append(self.recent[client])
        loads = [part["load"].dropna() for part in parts]
        load = pd.concat(loads) if loads else pd.Series(dtype=float, index=pd.DatetimeIndex([]))
        return drop_replaced(load)

    def last_known(self, client: str) -> pd.Timestamp:
        """The time of the last known reading of a client."""
        tables = [self.readings[client], self.recent.get(client)]
        loads = [table["load"].dropna() for table in tables if table is not None]
        return pd.Timestamp(max(load.index[-1] for load in loads))

    def _known_readings(self, client: str) -> pd.DataFrame:
        """The readings of a client in the study, and the recent ones, which replace them."""
        readings = self.readings[client]
        if client not in self.recent:
            return readings
        model, recent = self.any_model, self.recent[client]
        filled_rows = model.resample(recent, fills_gaps=True)
        parts = [filled_rows, readings, model.resample(recent)]
        all_rows = pd.concat([part[readings.columns].dropna(subset=["load"]) for part in parts])
        known_rows = drop_replaced(all_rows).sort_index()
        return model.bridge(known_rows, model.interval)

    def read_by_next(
        self, model: ForecastModel, client: str, readings: pd.DataFrame
    ) -> pd.DataFrame:
        """New readings of a client with the known ones before them that the next forecast of its
        model depends on; errors as of `with_earlier`."""
        rows = count_rows_read(model.study, model.interval, model.baseline)
        return self.with_earlier(client, readings, None if model.has_adaptive_widths else rows)

    def latest_reading(self, client: str) -> pd.DataFrame:
        """The last known reading of a client, for a forecast if nothing new has come. DataError: it
        is so old that the forecast would be for the past."""
        model, known_readings = self._model_of(client), self._known_readings(client)
        last = pd.Timestamp(known_readings["load"].dropna().index[-1])
        length = model.study.windows.farthest * pd.Timedelta(minutes=model.interval)
        offset = standard_offset(model.zone(client) or ZoneInfo("UTC"))
        if last + length <= read_clock().tz_localize(None) + offset:
            text = (
                "no reading yet, and a forecast from the last known one, of "
                f"{model.local_time(last, client)}, would be for the past"
            )
            remedy = "give newer readings"
            raise DataError(Problem(client, text, remedy, client, kind="only old readings"))
        return known_readings.loc[[last]]

    def with_earlier(
        self, client: str, readings: pd.DataFrame, row_count: int | None = None
    ) -> pd.DataFrame:
        """New readings of a client with the known ones in their gaps, of which the short ones that
        remain are filled, and up to `row_count` known readings before them, by default all;
        DataError if they have another unit, or do not fit
        the known ones (`plfl.forecast.misfits`)."""
        model, known_readings = self._model_of(client), self._known_readings(client)
        if not self.accepts_misfits:
            check_overlap(client, readings["load"], known_readings["load"])
        model.check_unit(readings["load"], client)
        if not self.accepts_misfits:
            loads = readings["load"], known_readings["load"]
            check_fit(client, *loads, model.highest_load(client), model.local_time)
        self._check_grid(client, readings, known_readings)
        load = readings["load"].dropna()
        if load.empty:
            return readings
        is_lacking = ~known_readings.index.isin(load.index) & (
            known_readings.index < load.index[-1]
        )
        known_rows = known_readings[is_lacking]
        if row_count is not None:
            first = readings.index[0] - row_count * pd.Timedelta(minutes=model.interval)
            known_rows = known_rows[known_rows.index >= first]
        joined_rows = readings
        if not known_rows.empty:
            new_rows = readings.loc[~readings.index.isin(known_rows.index), known_readings.columns]
            joined_rows = pd.concat([known_rows, new_rows]).sort_index()
            joined_rows.attrs = dict(readings.attrs)
        return model.bridge(joined_rows, model.interval)

    def _check_grid(
        self, client: str, readings: pd.DataFrame, known_readings: pd.DataFrame
    ) -> None:
        """Refuse readings whose intervals end at other minutes than those of the study."""
        interval = pd.Timedelta(minutes=self.any_model.interval)
        if (readings.index[0] - known_readings.index[0]) % interval:
            ends = [f"{table.index[0]:%H:%M}" for table in (readings, known_readings)]
            raise DataError(
                Problem(
                    client,
                    f"its intervals end at {ends[0]} and so on, in the standard time of the study, "
                    f"whose own end at {ends[1]} and so on",
                    "export readings of shorter intervals, or say which time zone they are in "
                    "with --read-timezone",
                )
            )

    def remarks(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
        """What there is to know, by client, about the time between the known readings and the
        new ones, and about the scale of these; see `describe_gap` and `describe_scale`."""
        model = self.any_model
        look_back = model.look_back * pd.Timedelta(minutes=model.interval)
        texts = {}
        for client in filter(self.readings.__contains__, tables):
            loads = tables[client]["load"], self._known_readings(client)["load"]
            end = self.readings[client].index[-1]
            sentences = [describe_gap(*loads, look_back), describe_scale(*loads, end)]
            texts[client] = "; ".join(filter(None, sentences))
        return texts

    def lags(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
        """What there is to know, by client, if the last reading of another meter is after all that
        is forecast; see `describe_lag`."""
        model = self.any_model
        length = model.study.windows.farthest * pd.Timedelta(minutes=model.interval)
        ends = {
            client: model.local_time(pd.Timestamp(table["load"].dropna().index[-1]), client)
            for client, table in tables.items()
        }
        lags = {client: max(ends.values()) - end for client, end in ends.items()}
        return {client: describe_lag(pd.Timedelta(lag), length) for client, lag in lags.items()}

    def _find_wanted(self, among: pd.DataFrame, name: str) -> Choice:
        known_names = among["name"].drop_duplicates().tolist()
        if name not in known_names:
            raise ResultsError(
                Problem(
                    f"--with {name}",
                    f"{self._folder} keeps no such forecaster",
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
        return Choice(name, self._folder / str(file), why)
