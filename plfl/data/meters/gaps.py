"""Short gaps in the series of a meter are filled, long ones refused."""

import logging
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from plfl.config.sections import Meters
from plfl.errors import DataError

logger = logging.getLogger(__name__)


def fill_gaps(path: Path, table: pd.DataFrame, meters: Meters, zone: ZoneInfo) -> pd.DataFrame:
    """The table from its first to its last complete row, without gaps.

    Args:
        path: the file, for messages.
        table: the columns on a regular grid in UTC, with NaN where a reading is missing.
        meters: `max_gap` is the longest gap that is filled.
        zone: the time zone of the messages.

    Returns:
        The table; `attrs` has the number of `gaps` in the load and of readings `filled` there.

    Raises:
        DataError: a gap is too long, or no row is complete.
    """
    complete = table.notna().all(axis=1).to_numpy()
    if not complete.any():
        columns = ", ".join(repr(meters.columns[str(role)]) for role in table)
        raise DataError(f"{path}: no row has a value in all of {columns}; leave this meter out")
    first, last = np.flatnonzero(complete)[[0, -1]]
    if cut := len(table) - (last + 1 - first):
        logger.warning("%s: %d incomplete rows cut off at the beginning or end", path, cut)
    table = table.iloc[first : last + 1]
    gaps = {role: runs(table[role].isna().to_numpy()) for role in map(str, table)}
    for role, (starts, lengths) in gaps.items():
        if not len(lengths):
            continue
        longest = int(lengths.argmax())
        minutes = int(lengths[longest]) * meters.interval
        since = table.index[starts[longest]].tz_convert(zone).isoformat(" ", "minutes")
        if minutes > meters.max_gap:
            raise DataError(
                f"{path}: {role} is missing for {minutes} minutes, from the reading of {since} on; "
                f"data.meters.max_gap is {meters.max_gap}: raise it, cut the file, or leave this "
                "meter out"
            )
        logger.warning(
            "%s: %s: %d missing readings in %d gaps filled with the reading before each gap, the "
            "longest %d minutes from %s on",
            *(path, role, lengths.sum(), len(lengths), minutes, since),
        )
    # Interpolation would use the next reading, which forecasts made in the gap cannot know.
    table = table.ffill()
    table.attrs = {"gaps": len(gaps["load"][1]), "filled": int(gaps["load"][1].sum())}
    return table


def runs(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start positions and lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
    return edges[::2], edges[1::2] - edges[::2]
