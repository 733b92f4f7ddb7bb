"""How new files of meters are read for trained models: as the study has read its own."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.base.errors import DataError, Problem, collect_problems
from plfl.base.files import digest
from plfl.base.keys import Key
from plfl.base.text import count_in_words
from plfl.config.meters import NOT_INPUTS, Meters
from plfl.config.windows import KnownFuture
from plfl.data import meters
from plfl.data.features import drop_replaced, resample
from plfl.data.meters.faults import READINGS_BEFORE, fill_short, mask_jumps
from plfl.data.meters.paths import client_name
from plfl.data.meters.stamps import standard_offset, zone_named, zone_of
from plfl.forecast.contents import Contents
from plfl.forecast.output import localise, localise_stamps
from plfl.forecast.recent_readings import LENGTH_COLUMN

log = logging.getLogger(__name__)

NO_KEYS: Mapping[str, Any] = MappingProxyType({})
"""New files that are read like those of the study."""


@dataclass(frozen=True)
class MeterFiles:
    """The files of meters from which the models of a file can forecast."""

    contents: Contents
    """What the file of models holds."""

    def read(self, path: Path, client: str | None = None) -> pd.DataFrame:
        """The readings in a meter's file, read like the own meters of a study; `client`: the name
        of the meter, for its time zone, by default that of the file.

        Models of other sources expect columns with the names of the inputs, the load in kWh per
        interval, and a column `timestamp` with the standard time at the ends of the intervals.

        Raises:
            DataError: the file cannot be used, or has no such meter.
        """
        client = client or client_name(path)
        client_readings, problems = self.read_all([path], client)
        if problems:
            raise DataError(*problems)
        return client_readings[client]

    def read_all(
        self,
        paths: Sequence[Path],
        client: str | None = None,
        keys: Mapping[str, Any] = NO_KEYS,
        models: Path | None = None,
    ) -> tuple[dict[str, pd.DataFrame], list[Problem]]:
        """The readings of all meters in files and folders over the intervals of the study, and the
        problems of others; see `read_raw` and `resample_all`."""
        raw_readings, problems = self.read_raw(paths, client, keys, models)
        readings: dict[str, pd.DataFrame] = {}
        for name, table in raw_readings.items():
            with collect_problems(problems):
                readings[name] = self.without_jumps(name, table)
        return self.resample_all(readings, None, problems), problems

    def read_raw(
        self,
        paths: Sequence[Path],
        client: str | None = None,
        keys: Mapping[str, Any] = NO_KEYS,
        models: Path | None = None,
        last_known: Mapping[str, pd.Timestamp] = MappingProxyType({}),
        states: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[dict[str, pd.DataFrame], list[Problem]]:
        """The readings of all meters in files and folders, with their sub-folders, read as the
        study reads its own, before jumps are left out, they are resampled and gaps are filled, and
        the problems of others; DataError if nothing of a name exists. `client`: the only meter to
        read; a file of one meter is taken for it. `keys`: of `data.meters`, where these files
        differ from those of the study. `models` and `last_known`: as of
        `plfl.data.meters.read_files`. `states`: the state of each client of the study, of which it
        may read stamps otherwise; by default that of the models."""
        meter_keys = self._meter_keys_with(keys)
        read = partial(self._read_as, paths, client, models, last_known)
        by_state = meter_keys.by_state.get("stamp")
        if by_state is None:
            return read(meter_keys)
        states = states or dict.fromkeys(self.contents.scalings, self.contents.forecaster.state)
        mark_of = {name: by_state[state] for name, state in states.items() if state in by_state}
        marks = {*by_state.values()}
        client_readings: dict[str, pd.DataFrame] = {}
        problems: list[Problem] = []
        for mark in sorted({mark_of[client]} if client in mark_of else marks):
            apart = {name for name, own_mark in mark_of.items() if own_mark != mark} | {
                *client_readings
            }
            marked_keys = meter_keys.model_copy(update={"stamp": mark})
            found_tables, found_problems = read(marked_keys, apart)
            client_readings |= found_tables
            problems += [problem for problem in found_problems if problem not in problems]
        if len(marks) > 1:
            for name in [name for name in client_readings if name not in mark_of]:
                del client_readings[name]
                problems.append(_unknown_mark(name))
        return client_readings, problems

    def _read_as(
        self,
        paths: Sequence[Path],
        client: str | None,
        models: Path | None,
        last_known: Mapping[str, pd.Timestamp],
        meter_keys: Meters,
        apart: Collection[str] = (),
    ) -> tuple[dict[str, pd.DataFrame], list[Problem]]:
        """The result of `read_raw` for files that are read by the same keys, without the clients
        `apart`."""
        has_limit = meter_keys.max_jump is not None  # then `without_jumps` refuses negative loads
        files = meters.raw_files(paths, with_subfolders=True)
        tables, problems = meters.read_files(
            files,
            meter_keys.model_copy(
                update={"max_jump": None, "allow_negative": meter_keys.allow_negative or has_limit}
            ),
            client,
            by_file=not meter_keys.exports,
            with_later=bool(self.future_features),
            fills_gaps=False,
            keeps_steps=self._resampled_minutes is None,
            models=models,
            last_known=last_known,
            apart=apart,
        )
        for name, table in tables.items():  # the clock of the study, wherever the stamps are from
            shift = _offset(self._meter_keys, name) - _offset(meter_keys, name)
            table.index += shift
            if "lone" in table.attrs:
                table.attrs["lone"] = [time + shift for time in table.attrs["lone"]]
            table.attrs |= meter_keys.model_dump(include={"max_gap", "max_jump", "allow_negative"})
            table.attrs.setdefault("minutes", meter_keys.interval)
        return tables, problems

    def without_jumps(
        self, client: str, readings: pd.DataFrame, known_load: pd.Series | None = None
    ) -> pd.DataFrame:
        """Readings of a client of which those become gaps that jump by more than
        `attrs["max_jump"]` allows, among the known loads and those of the file. If most of many
        jump, they are no faults, but on another scale, and stay.

        Raises:
            DataError: negative loads remain, which are not allowed.
        """
        limit, load = readings.attrs.get("max_jump"), readings["load"].dropna()
        if limit is None:
            return readings
        loads = load if known_load is None else pd.concat([known_load, load])
        loads = drop_replaced(loads).sort_index()
        is_jump = mask_jumps(loads, limit).reindex(load.index).isna()
        if is_jump.sum() > max(READINGS_BEFORE, len(load) / 2):
            is_jump[:] = False
        negative_load = load[~is_jump & (load < 0)]
        if len(negative_load) and not readings.attrs["allow_negative"]:
            kind, count = "negative values", count_in_words(len(negative_load), "negative value")
            text = f"{count}, first {negative_load.iloc[0]:g}"
            remedy = f"set {Key('data.meters.allow_negative', 'true')}, or correct them"
            raise DataError(Problem(client, text, remedy, client, kind))
        if not is_jump.any():
            return readings
        text = f"{count_in_words(int(is_jump.sum()), 'reading')} made a gap (max_jump)"
        log.warning("%s", Problem(client, text, meter=client, kind="jumps"))
        table = readings.assign(load=load[~is_jump])
        table.attrs = dict(readings.attrs)
        return table if self.future_features else table.dropna(subset=["load"])

    def resample_all(
        self,
        readings: Mapping[str, pd.DataFrame],
        earlier: Mapping[str, pd.DataFrame] | None,
        problems: list[Problem],
    ) -> dict[str, pd.DataFrame]:
        """The readings of meters over the intervals of the study. `earlier`: known readings, which
        complete the first interval and those with gaps. None: the files have all that is known, so
        that short gaps are filled; otherwise, only before readings are resampled. A meter without
        any interval is added to `problems`."""
        client_readings: dict[str, pd.DataFrame] = {}
        for name, table in readings.items():
            whole_table = table
            if earlier is not None and name in earlier and len(table):
                whole_table = self._with_known(table, earlier[name])
            try:
                intervals = self.resample(whole_table, fills_gaps=True)
                if earlier is None:
                    intervals = self.bridge(intervals, self.contents.interval)
            except DataError as error:
                problems += error.locate_in(name, name).problems
                continue
            if intervals["load"].notna().any():
                client_readings[name] = intervals
            else:
                problems.append(meters.without_reading(name, name))
        return client_readings

    def resample(self, readings: pd.DataFrame, fills_gaps: bool = False) -> pd.DataFrame:
        """The readings of a meter, every `attrs["minutes"]`, over the intervals of the study.
        `fills_gaps`: short gaps are filled before, as in the study, unless it sums readings while
        it reads them."""
        minutes = readings.attrs["minutes"]
        if readings.empty or minutes == self.contents.interval:
            return readings
        if fills_gaps and self._resampled_minutes is not None:
            readings = self.bridge(readings, minutes)
        intervals = resample(readings.asfreq(f"{minutes}min"), self.contents.interval)
        intervals.attrs["minutes"] = self.contents.interval
        return intervals

    def join_lengths(self, kept_readings: pd.DataFrame) -> pd.DataFrame:
        """Readings of a meter that `plfl.forecast.recent_readings` keeps, every `attrs["minutes"]`:
        over the intervals of the study if some are shorter than others. An older plfl kept sums,
        and not how long they are."""
        lengths = kept_readings.get(
            LENGTH_COLUMN, pd.Series(index=kept_readings.index, dtype=float)
        )
        lengths = lengths.fillna(self._summed_minutes).astype(int)
        parts: list[pd.DataFrame] = []
        for minutes in sorted(lengths.unique()):
            rows = kept_readings[lengths == minutes]
            part = drop_replaced(rows)[self.contents.reading_columns]
            part.attrs["minutes"] = int(minutes)
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        intervals = pd.concat([self.resample(part, fills_gaps=True) for part in parts])
        intervals = intervals.dropna(subset=["load"]).sort_index(kind="stable")
        intervals.attrs["minutes"] = self.contents.interval
        return drop_replaced(intervals)

    @property
    def form_of_readings(self) -> str:
        """A digest of what readings are before they are resampled: interval, zones and columns."""
        meter_keys = self._meter_keys
        return digest(
            self._summed_minutes,
            meter_keys.timezone,
            meter_keys.timezones,
            self.contents.reading_columns,
        )

    @property
    def _summed_minutes(self) -> int:
        """Minutes between readings that are summed, but not resampled."""
        return (
            self.contents.interval
            if self._resampled_minutes is None
            else self.contents.study.data.meters.interval
        )

    def bridge(self, readings: pd.DataFrame, minutes: int) -> pd.DataFrame:
        """Readings every `minutes`, in which short gaps up to the last load are filled: up to
        `attrs["max_gap"]` minutes, by default those of the study."""
        table = readings.asfreq(f"{minutes}min")
        last = table["load"].last_valid_index()
        if last is not None:
            longest = readings.attrs.get("max_gap", self.contents.study.data.meters.max_gap)
            filled = fill_short(table.loc[:last], longest // minutes)
            table = pd.concat([filled, table.loc[last:].iloc[1:]])
        table.attrs = dict(readings.attrs)
        return table

    @property
    def _resampled_minutes(self) -> int | None:
        """Minutes over which readings are resampled; those for other sources already are."""
        data = self.contents.study.data
        return data.resample if data.source == "meters" else None

    def _with_known(self, readings: pd.DataFrame, known_readings: pd.DataFrame) -> pd.DataFrame:
        """Readings, before they are resampled, with the known ones of their first interval and in
        their gaps."""
        minutes = readings.attrs["minutes"]
        if minutes == self.contents.interval or minutes != known_readings.attrs["minutes"]:
            return readings
        begin, rows = readings.index[0], readings[readings["load"].notna()]
        first = begin - pd.Timedelta(minutes=self.contents.interval)
        is_lacking = (known_readings.index > first) & (known_readings.index < readings.index[-1])
        known_rows = known_readings.loc[
            is_lacking & ~known_readings.index.isin(rows.index), readings.columns
        ]
        if known_rows.empty or (begin - known_rows.index[0]) % pd.Timedelta(minutes=minutes):
            return readings
        new_rows = readings.loc[~readings.index.isin(known_rows.index)]
        joined_rows = pd.concat([known_rows, new_rows]).sort_index()
        joined_rows.attrs = dict(readings.attrs)
        return joined_rows

    @property
    def _meter_keys(self) -> Meters:
        """The keys of `data.meters` by which the files of meters are read."""
        column_names = ["timestamp", *self.contents.reading_columns]
        if self.contents.study.data.source == "meters":
            meters = self.contents.study.data.meters
            readable_columns = (*column_names, *NOT_INPUTS)
            columns = {
                role: name for role, name in meters.columns.items() if role in readable_columns
            }
            units = {role: unit for role, unit in meters.units.items() if role in columns}
            return meters.model_copy(update={"columns": columns, "units": units})
        columns = {role: role for role in column_names}
        return Meters.model_validate({"columns": columns, "interval": self.contents.interval})

    def _meter_keys_with(self, keys: Mapping[str, Any]) -> Meters:
        """These keys for new files, in which some are others. A zone is that of all meters."""
        meter_keys, update = self._meter_keys, dict(keys)
        if "columns" in keys:
            update["columns"] = meter_keys.columns | keys["columns"]
        if "timezone" in keys:
            update["timezones"] = keys.get("timezones", {})
        return meter_keys.model_copy(update=update)

    def without_known_future(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Readings up to the last load. After it may be rows of inputs whose future is known,
        which are left out."""
        if not self.future_features:
            return frame
        return frame.loc[: frame["load"].last_valid_index()]

    @property
    def future_features(self) -> list[str]:
        """The inputs whose values at the targets a forecast reads."""
        covariates = self.contents.study.windows.covariates
        known = [transform for transform in covariates if isinstance(transform, KnownFuture)]
        return list(dict.fromkeys(name for transform in known for name in transform.features))

    def with_offsets(self, forecasts: pd.DataFrame, client: str) -> pd.DataFrame:
        """The result of `predict` in the meter's local time, with daylight saving time and UTC
        offsets, if the time zone is known."""
        zone = self.zone(client)
        return forecasts if zone is None or forecasts.empty else localise(forecasts, zone)

    def local_time(self, stamp: pd.Timestamp, client: str) -> pd.Timestamp:
        """A time of a client's readings, naive standard time, as local time with its UTC offset, if
        the time zone is known."""
        zone = self.zone(client)
        return stamp if zone is None else localise_stamps(stamp, zone)

    def zone(self, client: str) -> ZoneInfo | None:
        """The time zone of a client's readings, if it is known."""
        return zone_of(self.contents.study.data, client)


def _unknown_mark(name: str) -> Problem:
    """The problem of a meter whose state is not known, if stamps mark other things in others."""
    return Problem(
        name,
        "stamps mark the ends of intervals in some states of the study, the starts in others, and "
        "this meter is of none of them",
        f"say what they mark in these files: {Key('data.meters.stamp', 'end')} or "
        f"{Key('data.meters.stamp', 'start')}",
        name,
        kind="stamps of an unknown state",
    )


def _offset(meter_keys: Meters, client: str) -> timedelta:
    """The UTC offset of a client's standard time."""
    return standard_offset(zone_named(meter_keys.timezone_of(client)))
