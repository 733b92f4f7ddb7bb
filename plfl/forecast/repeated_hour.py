"""The hour that clocks repeat in autumn, of which a new file may have only one reading."""

from __future__ import annotations

import pandas as pd

from plfl.forecast.misfits import EQUAL_PART

HOUR = pd.Timedelta(hours=1)


def place_lone(readings: pd.DataFrame, known_load: pd.Series) -> pd.DataFrame:
    """Readings of a client in which those of local times that are there once, though clocks repeat
    them (`attrs["lone"]`), are of the second hour if other loads are known of the first one, and
    none, or the same, of the second one. So are the last readings of a file if loads are known that
    came after them in the first hour, unless the file has the reading just before them. Both are in
    the same standard time. Adjacent readings are of one hour."""
    lone_times = pd.DatetimeIndex(readings.attrs.get("lone", ())).to_series()
    if lone_times.empty:
        return readings
    tolerance = EQUAL_PART * known_load.abs().mean()
    step = pd.Timedelta(minutes=readings.attrs["minutes"])
    run_of_time = (lone_times.diff() > step).cumsum()

    def differ(known_then: pd.Series[float]) -> pd.Series[bool]:
        """Of each time, whether loads of its run are known, and are others."""
        differences = (readings["load"][lone_times] - known_then.to_numpy()).abs()
        largest: pd.Series = differences.groupby(run_of_time).transform("max")
        return largest > tolerance

    runs = lone_times.groupby(run_of_time)
    begin_of_run, end_of_run = runs.transform("min"), runs.transform("max")
    is_last = end_of_run == readings["load"].last_valid_index()
    is_continued = (begin_of_run - step).isin(readings["load"].dropna().index)
    is_moved = differ(known_load.reindex(lone_times))
    is_moved |= is_last & ~is_continued & (end_of_run < known_load.index.max())
    is_moved &= ~differ(known_load.reindex(lone_times + HOUR))
    moved_times = pd.DatetimeIndex(lone_times[is_moved])
    moved_rows = readings.loc[moved_times].set_axis(moved_times + HOUR)
    other_rows = readings.drop(moved_times)
    rows = pd.concat([other_rows.dropna(subset=["load"]), moved_rows, other_rows])
    rows.attrs = dict(readings.attrs)
    return rows[~rows.index.duplicated()].sort_index().rename_axis("timestamp")
