"""Turns a clean meter into the series that windows are made of."""

from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.config.named import FEATURES
from plfl.config.sections import Meters
from plfl.data.checks import check_load, counted
from plfl.data.meters.cleaning import STATIC, Meter
from plfl.data.meters.faults import longest, runs
from plfl.data.meters.stamps import standard_offset


def finished(where: Path | str, meter: Meter, meters: Meters) -> pd.DataFrame:
    """The load and the inputs of a meter in local standard time, with short gaps filled.

    Args:
        where: the file, for messages.
        meter: the meter.
        meters: how gaps and negative loads are treated.

    Raises:
        DataError: the load cannot be used.
    """
    table = meter.load.to_frame().join(meter.inputs)
    utc = pd.DatetimeIndex(table.index).tz_localize(None).as_unit("us")
    table.index = (utc + standard_offset(meter.zone)).rename("timestamp")
    # Known features first, in their order.
    roles = [role for role in dict.fromkeys([*FEATURES, *map(str, table)]) if role in table]
    constants = {role: float(table[role].iloc[0]) for role in roles if role in STATIC}
    table = fill_gaps(where, table[[role for role in roles if role not in STATIC]], meters)
    table = table.assign(**constants)
    values = table["load"].rename(meters.columns.get("load", "load"))
    check_load(str(where), values, allow_negative=meters.allow_negative, gaps=True)
    return table


def fill_gaps(path: Path | str, table: pd.DataFrame, meters: Meters) -> pd.DataFrame:
    """The table from its first to its last complete row, with its short gaps filled.

    Args:
        path: the file, for messages.
        table: the columns on a regular grid, with NaN where a reading is missing.
        meters: `max_gap` is the longest gap that is filled.

    Returns:
        The table; `attrs` has the number of `gaps` in the load, of readings `filled` there and of
        those left `missing`, and `notes` about the changes, for the user.

    Raises:
        DataError: no row is complete.
    """
    complete = table.notna().all(axis=1).to_numpy()
    if not complete.any():
        columns = ", ".join(repr(meters.columns.get(str(role), role)) for role in table)
        raise DataError(f"{path}: no row has a value in all of {columns}; leave this meter out")
    first, last = np.flatnonzero(complete)[[0, -1]]
    notes: list[str] = []
    if cut := len(table) - (last + 1 - first):
        rows = counted(int(cut), "incomplete row")
        notes.append(f"{path}: {rows} cut off at the beginning or end")
    table = table.iloc[first : last + 1]
    # Interpolation would use the next reading, which forecasts made in the gap cannot know.
    filled = table.ffill()
    for column, role in enumerate(map(str, table)):
        starts, lengths = runs(table[role].isna().to_numpy())
        long = lengths * meters.interval > meters.max_gap
        for first, length in zip(starts[long], lengths[long], strict=True):
            filled.iloc[first : first + length, column] = np.nan
        for which, fate in (
            (~long, "filled with the reading before"),
            (long, "longer than data.meters.max_gap; windows that touch them are not used"),
        ):
            if which.any():
                readings = counted(int(lengths[which].sum()), "missing reading")
                many = counted(int(which.sum()), "gap")
                most = longest(table.index, starts[which], lengths[which], meters.interval)
                notes.append(f"{path}: {role}: {readings} in {many}, the longest {most}: {fate}")
    gaps = runs(table["load"].isna().to_numpy())[1]
    missing = int(filled["load"].isna().sum())
    filled.attrs = {
        "gaps": len(gaps),
        "filled": int(gaps.sum()) - missing,
        "missing": missing,
        "notes": notes,
    }
    return filled
