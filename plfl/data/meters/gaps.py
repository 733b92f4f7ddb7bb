"""Short gaps in the series of a meter are filled, long ones stay gaps."""

import logging
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from plfl.config.sections import Meters
from plfl.data.checks import counted
from plfl.errors import DataError

logger = logging.getLogger(__name__)


def fill_gaps(
    path: Path | str, table: pd.DataFrame, meters: Meters, zone: ZoneInfo
) -> pd.DataFrame:
    """The table from its first to its last complete row, with its short gaps filled.

    Args:
        path: the file, for messages.
        table: the columns on a regular grid in UTC, with NaN where a reading is missing.
        meters: `max_gap` is the longest gap that is filled.
        zone: the time zone of the messages.

    Returns:
        The table; `attrs` has the number of `gaps` in the load, of readings `filled` there and of
        those left `missing`.

    Raises:
        DataError: no row is complete.
    """
    complete = table.notna().all(axis=1).to_numpy()
    if not complete.any():
        columns = ", ".join(repr(meters.columns.get(str(role), role)) for role in table)
        raise DataError(f"{path}: no row has a value in all of {columns}; leave this meter out")
    first, last = np.flatnonzero(complete)[[0, -1]]
    if cut := len(table) - (last + 1 - first):
        logger.warning("%s: %d incomplete rows cut off at the beginning or end", path, cut)
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
            (long, "left unfilled; windows that touch a gap are not used"),
        ):
            if which.any():
                _report(path, table, role, (starts[which], lengths[which]), fate, meters, zone)
    gaps = runs(table["load"].isna().to_numpy())[1]
    missing = int(filled["load"].isna().sum())
    filled.attrs = {"gaps": len(gaps), "filled": int(gaps.sum()) - missing, "missing": missing}
    return filled


def _report(
    path: Path | str,
    table: pd.DataFrame,
    role: str,
    gaps: tuple[np.ndarray, np.ndarray],
    fate: str,
    meters: Meters,
    zone: ZoneInfo,
) -> None:
    starts, lengths = gaps
    longest = int(lengths.argmax())
    since = table.index[starts[longest]].tz_convert(zone).isoformat(" ", "minutes")
    logger.warning(
        "%s: %s: %s in %s %s, the longest %d minutes from %s on",
        *(path, role, counted(int(lengths.sum()), "missing reading"), counted(len(lengths), "gap")),
        fate,
        *(lengths[longest] * meters.interval, since),
    )


def runs(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start positions and lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
    return edges[::2], edges[1::2] - edges[::2]
