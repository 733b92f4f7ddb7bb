"""The model's inputs: what each feature is, and the calendar columns made from stamps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Feature:
    """A column of a client's series."""

    unit: str
    meaning: str


FEATURES: dict[str, Feature] = {
    "load": Feature("kWh per interval", "electricity used in the interval that ends at the stamp"),
    "time_index": Feature("quarter-hours", "quarter of the day the stamp falls on, 0 to 95"),
    "weekday": Feature("days", "day of the week, Monday = 0"),
    "temperature": Feature("°C", "outdoor dry-bulb temperature"),
    "wind_speed": Feature("m/s", "wind speed"),
    "floor_area": Feature("ft²", "floor area of the building"),
    "wall_area": Feature("m²", "area of the exterior walls"),
    "window_area": Feature("m²", "area of the exterior windows"),
}
"""All features by name, in the paper's order."""


CALENDAR = ("time_index", "weekday")
"""The features that are made from the stamps, whatever the source."""


def calendar(stamps: pd.DatetimeIndex) -> pd.DataFrame:
    """Columns `time_index`, int(4 · hour + minute / 15), and `weekday`, Monday = 0, of stamps."""
    return pd.DataFrame(
        {
            "time_index": np.asarray(4 * stamps.hour + stamps.minute // 15, dtype=float),
            "weekday": np.asarray(stamps.day_of_week, dtype=float),
        },
        index=stamps,
    )


def assemble(series: pd.DataFrame, features: Sequence[str]) -> pd.DataFrame:
    """A client's table: the wanted `features` that `series` has, in order, as float64.

    `series` is indexed by local stamps at the end of each interval and has `load` and whichever
    other columns its source knows; calendar columns are added. Features that are absent drop out.
    """
    table = pd.concat([series, calendar(pd.DatetimeIndex(series.index))], axis=1)
    table = table[[name for name in features if name in table]].astype(float)
    table.attrs = dict(series.attrs)
    return table
