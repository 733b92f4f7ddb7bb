"""From the readings of a meter in UTC to the series that windows are made of."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.config.sections import Meters
from plfl.data.checks import check_finite, check_load
from plfl.data.meters.gaps import fill_gaps
from plfl.data.meters.stamps import standard_offset
from plfl.errors import DataError

STATIC = ("floor_area", "wall_area", "window_area")
"""Columns that hold one number per building."""


def finished(
    where: Path | str,
    table: pd.DataFrame,
    constants: Mapping[str, float],
    meters: Meters,
    zone: ZoneInfo,
) -> pd.DataFrame:
    """The table with its short gaps filled, in local standard time.

    Args:
        where: the file, for messages.
        table: `load` (kWh) and further columns on a regular grid of interval ends in UTC, with NaN
            where a reading is missing.
        constants: the `STATIC` columns.
        meters: how gaps and negative loads are treated.
        zone: the time zone of the meter.

    Raises:
        DataError: values cannot be used; the message has a line for each column.
    """
    table = fill_gaps(where, table, meters, zone).assign(**constants)
    utc = pd.DatetimeIndex(table.index).tz_localize(None).as_unit("us")
    table.index = utc + standard_offset(zone, utc[0].year)
    problems: list[str] = []
    for role in map(str, table):
        with collected(problems):
            values = table[role].rename(meters.columns.get(role, role))
            check_finite(str(where), values, gaps=True)
            if role == "load":
                check_load(str(where), values, allow_negative=meters.allow_negative, gaps=True)
    if problems:
        raise DataError("\n".join(problems))
    return table


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Add what is wrong to the problems of a file, so that one message can list all of them."""
    try:
        yield
    except DataError as error:
        problems.append(str(error))
