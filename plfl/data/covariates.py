"""The covariates of windows: numbers that a model reads once per window, besides the rows of the
look-back.

Each transform of `windows.covariates` is one class here. It gets the series of one client and
returns columns. Row l of a column is for the window whose last input row is l. Nothing after row l
is read except the time of the target row g = l + L and, for `known_future`, features that the user
declares known in advance. Estimates come from the client's own training set. If a needed reading
is in a gap, the columns are NaN and there is no window.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from plfl.base.array_types import Floats as Floats
from plfl.base.errors import DataError, Problem
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.config.windows import (
    Calendar,
    Encoding,
    Holidays,
    KnownFuture,
    Lags,
    Level,
    Transform,
    Windows,
)
from plfl.data.features import Unit, days_of, finite_values, time_of_day, weekday

TransformKeys = TypeVar("TransformKeys", bound=Transform)


@dataclass(frozen=True)
class Series:
    """The series of one client, and the shape of its windows."""

    load: Floats
    """Load (R,) in kWh per interval."""
    features: NDArray[np.float32]
    """Scaled features (R, F)."""
    columns: list[str]
    """Names of the features."""
    stamps: NDArray[np.datetime64]
    """End of each row's interval (R,)."""
    training_rows: slice
    """Rows of the training set. Earlier rows are not used."""
    offset: float
    """Load in kWh at which the scaled load is 0."""
    scale: float
    """Load in kWh by which the scaled load grows by 1."""
    windows: Windows
    """T, L and H: the targets of a window are the rows l + L to l + L + H − 1."""
    interval: int
    """Minutes between rows."""
    fills_lags: bool = False
    """Whether the load of a window's last input row replaces one in a gap, too."""

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The numbers of all rows."""
        return np.arange(len(self.load))

    @property
    def targets(self) -> NDArray[np.int64]:
        """The first target row g = l + L of each row; the last row if the series ends earlier."""
        return self.target(0)

    def target(self, h: int) -> NDArray[np.int64]:
        """The target row g + h of each row; the last row if the series ends earlier."""
        return np.minimum(self.row_numbers + self.windows.look_ahead + h, len(self.load) - 1)

    def shift(self, steps: int) -> Floats:
        """The load (R,) a number of rows before l; that of l itself if the series begins later."""
        row_numbers = self.row_numbers - steps
        is_inside = (row_numbers >= self.training_rows.start) & (steps >= 0)
        loads = self.load[np.where(is_inside, row_numbers, self.row_numbers)]
        return np.where(np.isnan(loads), self.load, loads) if self.fills_lags else loads


class Covariate(ABC, Generic[TransformKeys]):
    """What one transform computes."""

    def __init__(self, keys: TransformKeys, windows: Windows):
        self.keys, self.windows = keys, windows
        self.width = keys.width(windows.horizons)
        """Its number of columns."""

    def count_reach_rows(self, interval: int) -> int:
        """Number of rows, up to the last input row, that it reads."""
        return 1

    def public_columns(self, changes: Floats, share: Floats) -> list[Floats]:
        """Its columns of `public_values`, of changes of the load and of numbers from 0 to 1."""
        return [share] * self.width

    def estimate(self, series: Series) -> Floats:
        """What it estimates from the training set; empty if it does not."""
        return np.empty(0)

    @abstractmethod
    def compute(self, series: Series, estimates: Floats) -> Floats | NDArray[np.float32]:
        """Its columns (R, width)."""


class LagColumns(Covariate[Lags]):
    """Loads y_(g−d+j), j = −around … H − 1 + around, of each number of rows d before the target g.

    They are scaled like the loads of the look-back. A load after row l is replaced by the latest
    known one at the same time of day, a day or several earlier. A load before the client's first
    row is replaced by y_l.
    """

    def list_steps(self, interval: int) -> list[int]:
        """The rows of these loads, counted back from the last input row."""
        around, day = self.keys.around, MINUTES_PER_DAY // interval
        rows = range(-around, self.windows.horizons + around)
        distances = self.keys.distances(interval)
        steps = [d - self.windows.look_ahead - j for d in distances for j in rows]
        return [n if n >= 0 else n % day for n in steps]

    def count_reach_rows(self, interval: int) -> int:
        return max(self.list_steps(interval)) + 1

    def public_columns(self, changes: Floats, share: Floats) -> list[Floats]:
        return [changes] * self.width

    def compute(self, series: Series, estimates: Floats) -> Floats:
        steps = self.list_steps(series.interval)
        loads = np.stack([series.shift(n) for n in steps], axis=1)
        zero = series.load[:, None] if self.windows.is_relative else series.offset
        return np.asarray((loads - zero) / series.scale, float)


class LevelColumns(Covariate[Level]):
    """(y_l − m)/σ and log(y_l/m), with mean m and standard deviation σ of the training set.

    If the training set is constant, σ is set to 1, and a mean of 0 is set to 1. In the logarithm,
    loads below a millionth of m, such as zero, are set to that.
    """

    def public_columns(self, changes: Floats, share: Floats) -> list[Floats]:
        return [np.linspace(-2, 3, len(share)), np.linspace(-1.5, 1, len(share))]

    def estimate(self, series: Series) -> Floats:
        load = series.load[series.training_rows]
        unit = Unit.from_load(load, self.windows.look_ahead, self.windows.horizons)
        return np.array([unit.change, unit.mean, unit.deviation])

    def compute(self, series: Series, estimates: Floats) -> Floats:
        return Unit(*estimates.tolist()).level(series.load)


class CalendarColumns(Covariate[Calendar]):
    """Sines and cosines of the time of day, and the day of the week (one-hot, Monday first), of
    g."""

    def public_columns(self, changes: Floats, share: Floats) -> list[Floats]:
        waves = 2 * self.keys.harmonics
        flags = [_alternate(len(share))] * (self.width - waves)
        return [np.linspace(-1, 1, len(share))] * waves + flags

    def compute(self, series: Series, estimates: Floats) -> Floats:
        stamps = series.stamps[series.targets]
        times = time_of_day(stamps, self.keys.harmonics)
        return np.concatenate([times, weekday(stamps)], axis=1)


class EncodingColumns(Covariate[Encoding]):
    """Piecewise-linear encoding of y_l, y_l − y_(l−1), y_l − y_(l−L) and y_l − y_s.

    s is the first row of the window. A number z becomes clip((z − q_i) / (q_(i+1) − q_i), 0, 1) for
    each bin i between quantiles q of z in the client's training windows. A bin without width, which
    a number has that is often or always the same, is 1 above its edge and 0 elsewhere. A load
    before the client's first row is replaced by y_l.

    Source: Yury Gorishniy, Ivan Rubachev and Artem Babenko, "On Embeddings for Numerical Features
    in Tabular Deep Learning", NeurIPS 2022, https://arxiv.org/abs/2203.05556.
    """

    @property
    def steps(self) -> list[int]:
        """The rows of the loads that are compared with the last one, counted back from it."""
        return [1, self.windows.look_ahead, self.windows.look_back - 1]

    def count_reach_rows(self, interval: int) -> int:
        return max(self.steps) + 1

    def _find_numbers(self, series: Series) -> list[Floats]:
        """The four numbers z (R,)."""
        return [series.load, *(series.load - series.shift(n) for n in self.steps)]

    def estimate(self, series: Series) -> Floats:
        """The quantiles (4, bins + 1)."""
        # The last input rows of the training windows.
        first = series.training_rows.start + self.windows.look_back - 1
        last = series.training_rows.stop - self.windows.look_ahead - self.windows.horizons
        shares = np.linspace(0, 1, self.keys.bins + 1)
        values = [finite_values(z[first : last + 1]) for z in self._find_numbers(series)]
        # If all values are missing, no window is left to encode.
        return np.stack(
            [np.quantile(z, shares) if len(z) else np.zeros_like(shares) for z in values]
        )

    def compute(self, series: Series, estimates: Floats) -> Floats:
        encoded = []
        for z, q in zip(self._find_numbers(series), estimates, strict=True):
            above, width = z[:, None] - q[:-1], np.diff(q)
            ramps = np.clip(above / np.where(width > 0, width, 1), 0, 1)
            encoded.append(np.where(np.isnan(above), np.nan, np.where(width > 0, ramps, above > 0)))
        return np.concatenate(encoded, axis=1)


class HolidayColumns(Covariate[Holidays]):
    """1 if the interval of a target is on a public holiday, in standard time, otherwise 0."""

    def public_columns(self, changes: Floats, share: Floats) -> list[Floats]:
        return [_alternate(len(share))] * self.width

    def compute(self, series: Series, estimates: Floats) -> Floats:
        days = days_of(series.stamps)
        years = np.unique(days.astype("datetime64[Y]").astype(int) + 1970).tolist()
        free_days = np.array(self.keys.dates(years), "datetime64[D]")
        is_free = np.isin(days, free_days).astype(float)
        return np.stack([is_free[series.target(h)] for h in range(self.windows.horizons)], axis=1)


class KnownFutureColumns(Covariate[KnownFuture]):
    """The scaled features at every target, as if they had been forecast without error: the columns
    of the first target, then those of the next. Series without such a feature are refused."""

    def compute(self, series: Series, estimates: Floats) -> NDArray[np.float32]:
        if missing := [name for name in self.keys.features if name not in series.columns]:
            raise DataError(
                Problem(
                    Key("windows.covariates"),
                    f"known_future: the clients have no {', '.join(missing)}",
                    "remove it, or add it to data.features and to the series",
                )
            )
        columns = [series.columns.index(name) for name in self.keys.features]
        rows = [series.target(h) for h in range(self.windows.horizons)]
        return np.concatenate([series.features[own_rows][:, columns] for own_rows in rows], axis=1)


COVARIATES: dict[type[Transform], type[Covariate[Any]]] = {
    Lags: LagColumns,
    Level: LevelColumns,
    Calendar: CalendarColumns,
    Encoding: EncodingColumns,
    Holidays: HolidayColumns,
    KnownFuture: KnownFutureColumns,
}
"""The class of each transform, by that of its keys."""


def _alternate(count: int) -> Floats:
    """0, 1, 0, 1, ..."""
    return np.arange(count, dtype=float) % 2


def _covariates_of(windows: Windows) -> list[Covariate[Any]]:
    """The transforms of windows, in their order."""
    return [COVARIATES[type(keys)](keys, windows) for keys in windows.covariates]


def compute(series: Series, estimated: Sequence[Floats] | None = None) -> NDArray[np.float32]:
    """The covariates (R, G) of a client: the columns of all transforms, in their order. `estimated`
    by `estimate`, if the training set is not in these series."""
    if estimated is None:
        estimated = estimate(series)
    columns = np.empty((len(series.load), series.windows.covariates_width), np.float32)
    first = 0
    for covariate, estimates in zip(_covariates_of(series.windows), estimated, strict=True):
        columns[:, first : first + covariate.width] = covariate.compute(series, estimates)
        first += covariate.width
    return columns


def estimate(series: Series) -> list[Floats]:
    """What each transform estimates from the training set; empty for those that do not."""
    return [covariate.estimate(series) for covariate in _covariates_of(series.windows)]


def count_reach_rows(windows: Windows, interval: int) -> int:
    """Number of rows, up to the last input row, that a window and its covariates read."""
    own_counts = (covariate.count_reach_rows(interval) for covariate in _covariates_of(windows))
    return max([windows.look_back, *own_counts])


def public_values(windows: Windows, inputs: int, row_count: int) -> Floats:
    """Values (rows, K) of what a model reads of a window, the sequence row by row and then the
    covariates, from public knowledge alone: ranges, and that changes of the load are mostly small.

    `inputs`: features of the sequence; the loads are those of `windows.target: change`.
    """
    changes: Floats = np.sinh(np.linspace(-3.5, 3.5, row_count))
    share = np.linspace(0, 1, row_count)
    columns: list[Floats] = ([changes] + [share] * (inputs - 1)) * windows.look_back
    for covariate in _covariates_of(windows):
        columns += covariate.public_columns(changes, share)
    return np.stack(columns, axis=1)
