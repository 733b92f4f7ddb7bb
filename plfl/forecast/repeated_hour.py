"""The hour that clocks repeat in autumn, of which a new file may have only one reading."""

from __future__ import annotations

import numpy as np
import pandas as pd

from plfl.base.errors import DataError, Problem

HOUR = pd.Timedelta(hours=1)
ROUNDING = 1e-4
"""Loads are the same if they differ by at most this part."""


def place_lone(client: str, readings: pd.DataFrame, known_load: pd.Series) -> pd.DataFrame:
    """Readings of a client in which those of a local time that is there once, though clocks repeat
    it (`attrs["lone"]`), are of the second hour if other loads are known of the first one. Both are
    in the same standard time, and neither has filled gaps.

    Raises:
        DataError: other loads are known of both hours.
    """
    lone_times = pd.DatetimeIndex(readings.attrs.get("lone", ()))
    days = lone_times.normalize()
    for day in days.unique():
        times = lone_times[days == day]
        later_times = times + HOUR
        loads = readings["load"].reindex(times)
        if not _differ(loads, known_load.reindex(times)):
            continue
        if _differ(loads, known_load.reindex(later_times)):
            raise DataError(
                Problem(
                    client,
                    f"its loads of {times[0]:%Y-%m-%d} in the hour that clocks repeat are those of "
                    "neither hour that are known",
                    "give the readings of both hours, or stamps with UTC offsets",
                    client,
                )
            )
        moved_rows = readings.loc[times].set_axis(later_times)
        rows = pd.concat([moved_rows, readings.drop(times)])
        rows.attrs = dict(readings.attrs)
        readings = rows[~rows.index.duplicated()].sort_index().rename_axis("timestamp")
    return readings


def _differ(loads: pd.Series, known_load: pd.Series) -> bool:
    """Whether loads are known of the same intervals, and are others."""
    is_known = known_load.notna().to_numpy()
    pairs = loads.to_numpy()[is_known], known_load.to_numpy()[is_known]
    return not np.allclose(*pairs, rtol=ROUNDING, atol=1e-9)
