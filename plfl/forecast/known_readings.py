"""The readings of meters that a results folder knows, and how new ones are joined to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.base.errors import DataError, Problem, ResultsError, collect_problems
from plfl.data.dataset import Dataset
from plfl.data.features import drop_replaced
from plfl.data.meters.stamps import standard_offset
from plfl.data.windows import scalings
from plfl.forecast.kept_models import KeptModels
from plfl.forecast.meter_files import NO_KEYS
from plfl.forecast.misfits import (
    check_fit,
    check_overlap,
    check_unit,
    describe_gap,
    describe_lag,
    describe_scale,
)
from plfl.forecast.model import ForecastModel, count_rows_read
from plfl.forecast.recent_readings import RECENT_FILE, keep_recent, read_recent
from plfl.forecast.repeated_hour import place_lone


def read_clock() -> pd.Timestamp:
    """The time now, in UTC."""
    return pd.Timestamp.now("UTC")


def readings_of(dataset: Dataset, columns: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The readings of each client of a dataset, with these columns in their units; see
    `KnownReadings.study_readings`."""
    client_readings = {}
    for number, (client, scaling) in enumerate(scalings(dataset).items()):
        rows = slice(*dataset.view.bounds[number, [0, 3]].tolist())
        values = dataset.features[rows] * scaling.scale + scaling.offset
        stamps = pd.DatetimeIndex(dataset.stamps[rows], name="timestamp")
        table = pd.DataFrame(values, stamps, dataset.columns.tolist())
        table["load"] = dataset.load[rows]
        client_readings[client] = table[[*columns]].asfreq(f"{dataset.interval}min")
    return client_readings


@dataclass(frozen=True)
class KnownReadings:
    """The readings that a results folder knows, of the clients of its study."""

    models: KeptModels
    accepts_misfits: bool = False
    """Whether readings are taken that do not fit those of the study."""

    @cached_property
    def study_readings(self) -> dict[str, pd.DataFrame]:
        """The readings of each client that the study knows, in kWh, indexed by the ends of the
        intervals in standard time; NaN in gaps."""
        tables: dict[str, pd.DataFrame] = {}
        column_names = self.models.any_model.reading_columns
        for state in self.models.index["state"].unique():
            folder = self.models.tables_folder  # a variant's data may be one above
            files = [place / "data" / f"{state}.npz" for place in (folder, folder.parent)]
            file = next(filter(Path.is_file, files), files[0])
            if not file.is_file():
                raise ResultsError(
                    Problem(file, "the study's readings are missing", "run it again")
                )
            tables |= readings_of(Dataset.load_file(file), column_names)
        return tables

    @cached_property
    def recent_readings(self) -> dict[str, pd.DataFrame]:
        """Readings of clients after those of the study, not resampled; see `read_recent`, also for
        errors."""
        if not (self.models.results / RECENT_FILE).is_file():
            return {}
        meter_files = self.models.any_model.meter_files
        tables = read_recent(self.models.results, meter_files.form_of_readings)
        return {name: meter_files.join_lengths(table) for name, table in tables.items()}

    def keep_readings(self, new: Mapping[str, pd.DataFrame]) -> None:
        """Keep new readings of clients, not resampled, in the results folder; see `keep_recent`."""
        form = self.models.any_model.meter_files.form_of_readings
        keep_recent(self.models.results, new, self.models.reach, form)

    def read(
        self, paths: Sequence[Path], client: str | None = None, keys: Mapping[str, Any] = NO_KEYS
    ) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame], list[Problem]]:
        """The readings in new files as they are, and over the intervals of the study, by meter, and
        the problems of others; see `MeterFiles.read_raw`. Short gaps are filled in those of meters
        that did not take part; of the others, readings may be known."""
        model = self.models.any_model
        last_known = {name: self.last_known(name) for name in self.recent_readings}
        results, states = self.models.results, self.models.clients
        readings, problems = model.meter_files.read_raw(
            paths, client, keys, results, last_known, states
        )
        for name, table in list(readings.items()):
            known_load = self._known_load(name, table.attrs["minutes"])
            del readings[name]
            with collect_problems(problems):
                placed_table = place_lone(table, known_load)
                readings[name] = model.meter_files.without_jumps(name, placed_table, known_load)
        client_readings = model.meter_files.resample_all(readings, self.recent_readings, problems)
        for name in client_readings.keys() - self.models.clients.keys():
            client_readings[name] = model.meter_files.bridge(client_readings[name], model.interval)
        return (
            {name: table for name, table in readings.items() if len(table)},
            client_readings,
            problems,
        )

    def _known_load(self, client: str, minutes: int) -> pd.Series[float]:
        """The known loads of a client every so many `minutes`, without gaps; none of others."""
        parts = []
        if client in self.models.clients and minutes == self.models.any_model.interval:
            parts.append(self.study_readings[client])
        recent = self.recent_readings.get(client)
        if recent is not None and minutes == recent.attrs["minutes"]:
            parts.append(recent)
        loads = [part["load"].dropna() for part in parts]
        load = pd.concat(loads) if loads else pd.Series(dtype=float, index=pd.DatetimeIndex([]))
        return drop_replaced(load)

    def last_known(self, client: str) -> pd.Timestamp:
        """The time of the last known reading of a client."""
        tables = [self.study_readings[client], self.recent_readings.get(client)]
        loads = [table["load"].dropna() for table in tables if table is not None]
        return pd.Timestamp(max(load.index[-1] for load in loads))

    def _known_readings(self, client: str) -> pd.DataFrame:
        """The readings of a client in the study, and the recent ones, which replace them."""
        readings = self.study_readings[client]
        if client not in self.recent_readings:
            return readings
        model, recent = self.models.any_model, self.recent_readings[client]
        filled_rows = model.meter_files.resample(recent, fills_gaps=True)
        parts = [filled_rows, readings, model.meter_files.resample(recent)]
        all_rows = pd.concat([part[readings.columns].dropna(subset=["load"]) for part in parts])
        known_rows = drop_replaced(all_rows).sort_index()
        return model.meter_files.bridge(known_rows, model.interval)

    def read_by_next(
        self, model: ForecastModel, client: str, readings: pd.DataFrame
    ) -> pd.DataFrame:
        """New readings of a client with the known ones before them that the next forecast of its
        model depends on; errors as of `with_earlier`."""
        row_count = count_rows_read(model.study, model.interval, model.baseline)
        return self.with_earlier(client, readings, None if model.has_adaptive_widths else row_count)

    def latest_reading(self, client: str) -> pd.DataFrame:
        """The last known reading of a client, for a forecast if nothing new has come. DataError: it
        is so old that the forecast would be for the past."""
        model, known_readings = self.models.model_of(client), self._known_readings(client)
        last = pd.Timestamp(known_readings["load"].dropna().index[-1])
        length = model.study.windows.farthest * pd.Timedelta(minutes=model.interval)
        offset = standard_offset(model.meter_files.zone(client) or ZoneInfo("UTC"))
        if last + length <= read_clock().tz_localize(None) + offset:
            text = (
                "no reading yet, and a forecast from the last known one, of "
                f"{model.meter_files.local_time(last, client)}, would be for the past"
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
        model, known_readings = self.models.model_of(client), self._known_readings(client)
        if not self.accepts_misfits:
            check_overlap(client, readings["load"], known_readings["load"])
        check_unit(client, readings["load"], model.load_range(client), model.interval)
        if not self.accepts_misfits:
            loads = readings["load"], known_readings["load"]
            check_fit(client, *loads, model.load_range(client)[1], model.meter_files.local_time)
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
        return model.meter_files.bridge(joined_rows, model.interval)

    def _check_grid(
        self, client: str, readings: pd.DataFrame, known_readings: pd.DataFrame
    ) -> None:
        """Refuse readings whose intervals end at other minutes than those of the study."""
        interval = pd.Timedelta(minutes=self.models.any_model.interval)
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

    def remarks(self, client_readings: Mapping[str, pd.DataFrame]) -> dict[str, str]:
        """What there is to know, by client, about the time between the known readings and the
        new ones, and about the scale of these; see `describe_gap` and `describe_scale`."""
        model = self.models.any_model
        look_back = model.rows_needed * pd.Timedelta(minutes=model.interval)
        texts = {}
        for client in filter(self.study_readings.__contains__, client_readings):
            loads = client_readings[client]["load"], self._known_readings(client)["load"]
            end = self.study_readings[client].index[-1]
            sentences = [describe_gap(*loads, look_back), describe_scale(*loads, end)]
            texts[client] = "; ".join(filter(None, sentences))
        return texts

    def lags(self, client_readings: Mapping[str, pd.DataFrame]) -> dict[str, str]:
        """What there is to know, by client, if the last reading of another meter is after all that
        is forecast; see `describe_lag`."""
        model = self.models.any_model
        length = model.study.windows.farthest * pd.Timedelta(minutes=model.interval)
        ends = {
            client: model.meter_files.local_time(
                pd.Timestamp(table["load"].dropna().index[-1]), client
            )
            for client, table in client_readings.items()
        }
        lags = {client: max(ends.values()) - end for client, end in ends.items()}
        return {client: describe_lag(pd.Timedelta(lag), length) for client, lag in lags.items()}
