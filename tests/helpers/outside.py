"""Series, and the features of their windows as a stranger would write them: pandas, by target row.

Nothing here comes from `plfl.baselines`.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from plfl.config.windows import Windows
from plfl.data.dataset import Dataset
from plfl.data.features import assemble
from plfl.data.windows import build

FEATURES = ["load", "time_index", "weekday", "temperature", "floor_area"]


def series(seed: int, days: int = 40, minutes: int = 15, area: float = 100.0) -> pd.DataFrame:
    """A daily and a weekly cycle that follow the temperature, with noise."""
    rng = np.random.default_rng(seed)
    stamps = pd.date_range("2018-02-01 00:15", periods=days * 1440 // minutes, freq=f"{minutes}min")
    hour = stamps.hour + stamps.minute / 60
    degrees = 0.5 + 0.4 * np.sin((hour - 9) / 12 * np.pi) + rng.normal(0, 0.2, len(stamps))
    # In single precision and from 0 to 1, as scaled inputs are: scaling changes nothing.
    temperature = np.clip(degrees, 0, 1).astype(np.float32)
    work = np.where(stamps.day_of_week < 5, 1.0, 0.4) * np.exp(-(((hour - 13) / 4) ** 2))
    noise = pd.Series(rng.normal(0, 0.1, len(stamps))).ewm(alpha=0.3).mean().to_numpy()
    load = np.maximum(0.2 + work + 0.2 * temperature + noise, 0.05) * (1 + seed)
    columns = {"load": load, "temperature": temperature, "floor_area": area}
    return pd.DataFrame(columns, stamps)


def dataset(clients: int = 2, days: int = 40, minutes: int = 15, **windows: object) -> Dataset:
    """The `series` of seeds 0, 1, …, each with a floor area of its own."""
    raw = {f"c{i}": series(i, days, minutes, 100.0 * (i + 1)) for i in range(clients)}
    tables = {name: assemble(table, FEATURES) for name, table in raw.items()}
    return build(tables, Windows.model_validate(windows))


@dataclass(frozen=True)
class Windowed:
    """The windows of a series, indexed by target row."""

    table: pd.DataFrame
    """The series."""
    ahead: int = 4
    first: int = 0
    """First row that is known."""

    @property
    def truth(self) -> "pd.Series[float]":
        load: pd.Series[float] = self.table["load"].reset_index(drop=True)
        return load.where(load.index >= self.first)

    @property
    def last(self) -> "pd.Series[float]":
        return self.truth.shift(self.ahead)

    def part(self, split: str) -> "pd.Index[int]":
        """Target rows of the windows that lie in a part, as the paper cuts a series."""
        n = len(self.table)
        # A history that does not begin with the series ends where the test set begins.
        cuts = {"train": (0.0, 0.9 if self.first else 0.8)}
        cuts |= {"validation": (0.8, 0.9), "test": (0.9, 1.0)}
        begin, end = (round(share * n) for share in cuts[split])
        return pd.RangeIndex(max(begin, self.first) + 11 + self.ahead, end)

    def lags(self) -> pd.DataFrame:
        """The twelve loads of the look-back."""
        return pd.concat(
            {f"l{k}": self.truth.shift(self.ahead + 11 - k) for k in range(12)}, axis=1
        )

    def season_lags(self) -> pd.DataFrame:
        """Loads around one day, two days and a week before."""
        days = {1: 96, 2: 2 * 96, 7: 7 * 96}
        found = {
            f"d{d}{j:+d}": self.truth.shift(rows - j)
            for d, rows in days.items()
            for j in range(-2, 3)
        }
        lags = pd.concat(found, axis=1)
        filled: pd.DataFrame = lags.apply(lambda column: column.fillna(self.last))
        return filled

    def clock(self, harmonics: int) -> pd.DataFrame:
        """Sines and cosines of the time of day, of nine decimals."""
        stamps = pd.DatetimeIndex(self.table.index)
        angle = 2 * np.pi * (60 * stamps.hour + stamps.minute) / 1440
        waves = {f"sin{k}": np.sin(k * angle) for k in range(1, harmonics + 1)}
        waves |= {f"cos{k}": np.cos(k * angle) for k in range(1, harmonics + 1)}
        return pd.DataFrame(waves).round(9)

    def weekdays(self) -> pd.DataFrame:
        """Seven columns, one of them 1."""
        days = pd.Categorical(pd.DatetimeIndex(self.table.index).day_name(), DAYS)
        columns: pd.DataFrame = pd.get_dummies(days, dtype=float)
        return columns

    def input(self, name: str) -> "pd.Series[float]":
        """A column of the series at the last input row."""
        column: pd.Series[float] = self.table[name].reset_index(drop=True).shift(self.ahead)
        return column


DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
