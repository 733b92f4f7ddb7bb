"""The covariates of windows: numbers that a model reads once per window, besides the rows of the
look-back.

Each transform of `windows.covariates` is one function here. It gets the series of one client and
returns columns. Row l of a column is for the window whose last input row is l. Nothing after row l
is read except the time of the target row g = l + L and, for `known_future`, features that the user
declares known in advance. Estimates come from the client's own training set. If a needed reading
is in a gap, the columns are NaN and there is no window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

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


def compute(series: Series, estimated: Sequence[Floats] | None = None) -> NDArray[np.float32]:
    """The covariates (R, G) of a client: the columns of all transforms, in their order. `estimated`
    by `estimate`, if the training set is not in these series."""
    if estimated is None:
        estimated = estimate(series)
    columns = np.empty((len(series.load), series.windows.covariates_width), np.float32)
    first = 0
    for transform, estimates in zip(series.windows.covariates, estimated, strict=True):
        width = transform.width(series.windows.horizons)
        columns[:, first : first + width] = _columns(series, transform, estimates)
        first += width
    return columns


def estimate(series: Series) -> list[Floats]:
    """What each transform estimates from the training set; empty for those that do not."""
    return [_estimate(series, transform) for transform in series.windows.covariates]


def count_reach_rows(windows: Windows, interval: int) -> int:
    """Number of rows, up to the last input row, that a window and its covariates read."""
    row_count = windows.look_back
    for transform in windows.covariates:
        if isinstance(transform, Lags):
            distances, day = transform.distances(interval), MINUTES_PER_DAY // interval
            row_count = max(
                row_count, max(lag_steps(windows, distances, transform.around, day)) + 1
            )
        elif isinstance(transform, Encoding):
            row_count = max(row_count, windows.look_ahead + 1, 2)
    return row_count


def public_values(windows: Windows, inputs: int, row_count: int) -> Floats:
    """Values (rows, K) of what a model reads of a window, the sequence row by row and then the
    covariates, from public knowledge alone: ranges, and that changes of the load are mostly small.

    `inputs`: features of the sequence; the loads are those of `windows.target: change`.
    """
    changes: Floats = np.sinh(np.linspace(-3.5, 3.5, row_count))
    share = np.linspace(0, 1, row_count)
    columns: list[Floats] = ([changes] + [share] * (inputs - 1)) * windows.look_back
    for transform in windows.covariates:
        width = transform.width(windows.horizons)
        match transform:
            case Lags():
                columns += [changes] * width
            case Level():
                columns += [np.linspace(-2, 3, row_count), np.linspace(-1.5, 1, row_count)]
            case Calendar():
                columns += [np.linspace(-1, 1, row_count)] * (2 * transform.harmonics)
                columns += [np.arange(row_count, dtype=float) % 2] * (
                    width - 2 * transform.harmonics
                )
            case Holidays():
                columns += [np.arange(row_count, dtype=float) % 2] * width
            case KnownFuture() | Encoding():
                columns += [share] * width
            case _:
                assert_never(transform)
    return np.stack(columns, axis=1)


def _estimate(series: Series, transform: Transform) -> Floats:
    match transform:
        case Level():
            unit = Unit.from_load(
                series.load[series.training_rows],
                series.windows.look_ahead,
                series.windows.horizons,
            )
            return np.array([unit.change, unit.mean, unit.deviation])
        case Encoding():
            return _quantiles(series, transform.bins)
        case _:
            return np.empty(0)


def _columns(
    series: Series, transform: Transform, estimated: Floats
) -> Floats | NDArray[np.float32]:
    match transform:
        case Lags():
            day = MINUTES_PER_DAY // series.interval
            return lags(series, transform.distances(series.interval), transform.around, day)
        case Level():
            return level(series, Unit(*estimated.tolist()))
        case Calendar():
            return calendar(series, transform)
        case Encoding():
            return encoding(series, estimated)
        case Holidays():
            return holidays(series, transform)
        case KnownFuture():
            return known_future(series, transform.features)
        case _:
            assert_never(transform)


def lags(series: Series, distances: Sequence[int], around: int, day: int) -> Floats:
    """Loads y_(g−d+j), j = −around … H − 1 + around, of each number of rows d before the target g.

    They are scaled like the loads of the look-back. A load after row l is replaced by the latest
    known one at the same time of day, `day` rows or a multiple earlier. A load before the client's
    first row is replaced by y_l.
    """
    steps = lag_steps(series.windows, distances, around, day)
    loads = np.stack([series.shift(n) for n in steps], axis=1)
    zero = series.load[:, None] if series.windows.is_relative else series.offset
    return np.asarray((loads - zero) / series.scale, float)


def lag_steps(windows: Windows, distances: Sequence[int], around: int, day: int) -> list[int]:
    """The rows before the last input row of the loads of `lags`."""
    rows = range(-around, windows.horizons + around)
    steps = [d - windows.look_ahead - j for d in distances for j in rows]
    return [n if n >= 0 else n % day for n in steps]


def level(series: Series, unit: Unit) -> Floats:
    """(y_l − m)/σ and log(y_l/m), with mean m and standard deviation σ of the training set.

    If the training set is constant, σ is set to 1, and a mean of 0 is set to 1. In the logarithm,
    loads below a millionth of m, such as zero, are set to that.
    """
    return unit.level(series.load)


def calendar(series: Series, settings: Calendar) -> Floats:
    """Sines and cosines of the time of day, and the day of the week (one-hot, Monday first), of
    g."""
    stamps = series.stamps[series.targets]
    return np.concatenate([time_of_day(stamps, settings.harmonics), weekday(stamps)], axis=1)


def encoding(series: Series, edges: Floats) -> Floats:
    """Piecewise-linear encoding of y_l, y_l − y_(l−1), y_l − y_(l−L) and y_l − y_s.

    s is the first row of the window. A number z becomes clip((z − q_i) / (q_(i+1) − q_i), 0, 1) for
    each bin i between quantiles q of z in the client's training windows, a row of `edges`. A bin
    without width, which a number has that is often or always the same, is 1 above its edge and 0
    elsewhere. A load before the client's first row is replaced by y_l.

    Source: Yury Gorishniy, Ivan Rubachev and Artem Babenko, "On Embeddings for Numerical Features
    in Tabular Deep Learning", NeurIPS 2022, https://arxiv.org/abs/2203.05556.
    """
    encoded = []
    for z, q in zip(_history_numbers(series), edges, strict=True):
        above, width = z[:, None] - q[:-1], np.diff(q)
        ramps = np.clip(above / np.where(width > 0, width, 1), 0, 1)
        encoded.append(np.where(np.isnan(above), np.nan, np.where(width > 0, ramps, above > 0)))
    return np.concatenate(encoded, axis=1)


def _history_numbers(series: Series) -> list[Floats]:
    """The four numbers of `encoding`."""
    steps = encoded_steps(series.windows)
    return [series.load, *(series.load - series.shift(n) for n in steps)]


def encoded_steps(windows: Windows) -> list[int]:
    """The rows before the last input row of the loads that `encoding` compares with the last."""
    return [1, windows.look_ahead, windows.look_back - 1]


def _quantiles(series: Series, bins: int) -> Floats:
    """The edges (4, bins + 1) of `encoding`, from the client's training windows."""
    # The last input rows of these windows.
    first = series.training_rows.start + series.windows.look_back - 1
    training_rows = slice(
        first, series.training_rows.stop - series.windows.look_ahead - series.windows.horizons + 1
    )
    shares = np.linspace(0, 1, bins + 1)
    values = [finite_values(z[training_rows]) for z in _history_numbers(series)]
    # If all values are missing, no window is left to encode.
    return np.stack([np.quantile(z, shares) if len(z) else np.zeros(bins + 1) for z in values])


def holidays(series: Series, settings: Holidays) -> Floats:
    """1 if the interval of a target is on a public holiday, in standard time, otherwise 0."""
    days = days_of(series.stamps)
    years = np.unique(days.astype("datetime64[Y]").astype(int) + 1970).tolist()
    is_free = np.isin(days, np.array(settings.dates(years), "datetime64[D]")).astype(float)
    return np.stack([is_free[series.target(h)] for h in range(series.windows.horizons)], axis=1)


def known_future(series: Series, features: Sequence[str]) -> NDArray[np.float32]:
    """The scaled features at every target, as if they had been forecast without error: the columns
    of the first target, then those of the next. Series without such a feature are refused."""
    if missing := [name for name in features if name not in series.columns]:
        raise DataError(
            Problem(
                Key("windows.covariates"),
                f"known_future: the clients have no {', '.join(missing)}",
                "remove it, or add it to data.features and to the series",
            )
        )
    columns = [series.columns.index(name) for name in features]
    parts = [series.features[series.target(h)][:, columns] for h in range(series.windows.horizons)]
    return np.concatenate(parts, axis=1)
