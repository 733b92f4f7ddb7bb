"""Forecasts of several meters as one table, which says what its numbers are."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, timezone, tzinfo
from pathlib import Path
from typing import Any, Literal, TypeVar
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.base.errors import DataError, Problem
from plfl.base.files import atomic
from plfl.base.spreadsheets import as_csv, write_workbook
from plfl.config.values import IntervalEdge
from plfl.data.meters.stamps import standard_offset, zone_named

FORMATS = (".csv", ".parquet", ".xlsx", ".json")
Stamps = TypeVar("Stamps", pd.DatetimeIndex, pd.Timestamp)
STANDARD_TIME = "local standard time"
"""The time zone of stamps without a UTC offset."""


@dataclass(frozen=True)
class Form:
    """What the numbers and stamps of a table are."""

    interval: int
    """Minutes between forecasts."""
    unit: Literal["kWh", "kW"] = "kWh"
    timezone: str | None = None
    """None: that of the meters."""
    stamp: IntervalEdge = "end"
    """The end of an interval that its stamp is at."""
    is_wide: bool = False
    """Whether each meter has a column of its own."""

    @property
    def unit_of_loads(self) -> str:
        return "kW" if self.unit == "kW" else f"kWh per {self.interval} min"

    def table(
        self, forecasts: Mapping[str, pd.DataFrame], forecasters: Mapping[str, str]
    ) -> pd.DataFrame:
        """The table of forecasts, as `ForecastModel.predict` returns them by client, with offsets
        if they are known, and the names of their forecasters.

        Long: `timestamp`, `client`, `forecast` and any quantiles, `made_at`, `unit`, `timezone`,
        `stamp`, `forecaster`. Wide: a column for each meter and quantile, whose name has the unit
        and the forecaster. DataError: the time zone is unknown, or that of the stamps
        is; a wide table would need several forecasts in a cell.
        """
        zones = {_stamps(table).tz for table in forecasts.values()}
        zone: tzinfo | None = zone_named(self.timezone, "--timezone") if self.timezone else None
        if zone is None and len(zones) > 1:
            zone = UTC  # one table has one zone
        parts = [self._client_rows(client, table, zone) for client, table in forecasts.items()]
        all_rows = pd.concat(parts, ignore_index=True)
        zone_of_stamps = all_rows["timestamp"].dt.tz
        zone_name = STANDARD_TIME if zone_of_stamps is None else str(zone_of_stamps)
        if not self.is_wide:
            labels = {"unit": self.unit_of_loads, "timezone": zone_name, "stamp": self.stamp}
            return all_rows.assign(**labels, forecaster=all_rows["client"].map(forecasters))
        if all_rows.duplicated(["client", "timestamp"]).any():
            raise DataError(
                Problem("--wide", "a time has several forecasts (--all)", "leave one of them out")
            )

        def name(column: tuple[str, str]) -> str:
            client, quantile = column[0], column[1].removeprefix("forecast")
            return f"{client}{quantile} ({self.unit_of_loads}, {forecasters[client]})"

        wide = all_rows.pivot(index="timestamp", columns="client", values=_loads(all_rows))
        wide = wide.swaplevel(axis=1).sort_index(axis=1)
        wide.columns = wide.columns.map(name)
        return wide.reset_index(names=f"timestamp ({self.stamp}, {zone_name})")

    def _client_rows(self, client: str, table: pd.DataFrame, zone: tzinfo | None) -> pd.DataFrame:
        stamps, made_at = _stamps(table), pd.DatetimeIndex(table["made_at"])
        if zone is not None:
            if stamps.tz is None:
                raise DataError(
                    Problem(
                        client,
                        "the time zone of its readings is not known, so --timezone cannot convert",
                        "leave it out",
                    )
                )
            stamps, made_at = stamps.tz_convert(zone), made_at.tz_convert(zone)
        if self.stamp == "start":
            stamps = stamps - pd.Timedelta(minutes=self.interval)
        rows = table.assign(made_at=made_at).reset_index(drop=True)
        if self.unit == "kW":
            for column in _loads(rows):
                rows[column] *= 60 / self.interval
        rows.insert(0, "timestamp", stamps)
        rows.insert(1, "client", client)
        return rows


def localise(forecasts: pd.DataFrame, zone: ZoneInfo) -> pd.DataFrame:
    """Forecasts whose times, naive standard time of a zone, become its local time with offsets,
    daylight saving time included."""
    made_at = localise_stamps(pd.DatetimeIndex(forecasts["made_at"]), zone)
    return forecasts.set_axis(localise_stamps(_stamps(forecasts), zone)).assign(made_at=made_at)


def localise_stamps(stamps: Stamps, zone: ZoneInfo) -> Stamps:
    """Times, or one, of the standard time of a zone as its local time with offsets."""
    return stamps.tz_localize(timezone(standard_offset(zone))).tz_convert(zone)


def localise_ends(scores: dict[str, Any], zone: ZoneInfo | None) -> dict[str, Any]:
    """Scores whose `first` and `last` time, naive standard time of a zone, become its local time
    with offsets, daylight saving time included; without a zone they stay."""
    if zone is None:
        return scores
    names = ("first", "last")
    ends = localise_stamps(pd.DatetimeIndex([scores[name] for name in names]), zone)
    return scores | dict(zip(names, ends, strict=True))


def _stamps(table: pd.DataFrame) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(table.index)


def _loads(table: pd.DataFrame) -> list[str]:
    """The columns of a long table that are loads."""
    return [str(name) for name in table if str(name).startswith("forecast")]


def table_as_csv(table: pd.DataFrame) -> str:
    """A table as CSV; the time is written even if all stamps are midnights."""
    return as_csv(_plain(table, str))


def _plain(table: pd.DataFrame, stamp_of: Callable[[pd.Timestamp], str]) -> pd.DataFrame:
    """A table with its times as text."""
    columns = table.select_dtypes(["datetime", "datetimetz"]).columns
    return table.assign(**{name: [stamp_of(stamp) for stamp in table[name]] for name in columns})


def write(path: Path, table: pd.DataFrame) -> None:
    """Write a table in the format of its name, one of `FORMATS`; PlflError without a package."""
    suffix, file = path.suffix.lower(), io.BytesIO()
    if suffix == ".csv":
        file.write(table_as_csv(table).encode())
    elif suffix == ".json":
        rows = _plain(table, pd.Timestamp.isoformat)
        document = json.loads(rows.to_json(orient="records"))
        file.write((json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    elif suffix == ".parquet":
        table.to_parquet(file)
    else:
        write_workbook(_local(table), file, "forecasts")
    with atomic(path) as temporary:
        temporary.write_bytes(file.getvalue())


def _local(table: pd.DataFrame) -> pd.DataFrame:
    """A table with the times that clocks show, because cells of a workbook have no offset."""
    columns = table.select_dtypes("datetimetz").columns
    local = table.assign(**{name: table[name].dt.tz_localize(None) for name in columns})
    if len(columns):
        offsets = [stamp.strftime("%z") for stamp in table[columns[0]]]
        local.insert(1, "utc_offset", offsets)
    return local
