"""Fills short gaps in the series of a meter; long ones stay gaps."""

from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.config.sections import Meters
from plfl.data.checks import counted


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
                most = _longest(table.index, starts[which], lengths[which], meters.interval)
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


def longest_gap(values: pd.Series, minutes: int) -> str:
    """The longest gap of a series in words, such as `58.5 days from 2017-01-31 23:45`.

    Args:
        values: readings on a regular grid, with NaN in gaps.
        minutes: its step.

    Returns:
        The words; empty if there is no gap.
    """
    starts, lengths = runs(values.isna().to_numpy())
    return _longest(values.index, starts, lengths, minutes) if len(starts) else ""


def _longest(index: pd.Index, starts: np.ndarray, lengths: np.ndarray, minutes: int) -> str:
    at = int(lengths.argmax())
    total = int(lengths[at]) * minutes
    words = f"{total} minutes"
    if total >= 2 * 24 * 60:
        words = f"{total / 24 / 60:.3g} days"
    elif total > 2 * 60:
        words = f"{total / 60:.3g} hours"
    return f"{words} from {index[starts[at]]:%Y-%m-%d %H:%M}"


def runs(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start positions and lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
    return edges[::2], edges[1::2] - edges[::2]
