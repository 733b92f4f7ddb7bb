"""From series to supervised windows: split by time, scale, and index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.config.sections import Windows
from plfl.data import context
from plfl.data.dataset import SPLITS, WEEK, Dataset
from plfl.data.units import Unit, known
from plfl.errors import DataError

Limits = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Minimum and maximum of each feature."""


def build(
    tables: Mapping[str, pd.DataFrame], windows: Windows, limits: Limits | None = None
) -> Dataset:
    """Split and scale the clients' tables, in their order.

    Features are scaled by their minimum and maximum in the training sets, to [0, 1], or by their
    mean and standard deviation there. A feature that is constant there becomes 1.

    Args:
        tables: one table per client, see `plfl.data.features.assemble`; the load comes first.
        windows: split, scaling, look-back and look-ahead.
        limits: minimum and maximum (F,) to scale by instead, as deployed clients agree on them.

    Raises:
        DataError: the clients differ in their features or interval, or a set of a client has no
            window, because it is too short or has too many gaps.
    """
    interval = _common_interval(tables)
    edges = _edges(tables, windows, interval)
    raw = [table.to_numpy(float) for table in tables.values()]
    offset, scale = _scales(raw, edges, windows, limits)
    parts = _series(tables, windows, _training(raw, edges), offset, scale)
    columns = [context.compute(part, windows.context) for part in parts]
    dataset = _dataset(tables, windows, parts, columns, edges)
    _check_windows(dataset, windows)
    return dataset


def _check_windows(dataset: Dataset, windows: Windows) -> None:
    """Refuse parts without a window.

    Raises:
        DataError: the message lists those of all clients.
    """
    problems = [
        f"client {name}: all {dataset.skipped(i, split)} windows of its {split} set touch a gap "
        "in the readings; "
        + ("shorten the reach of windows.context, " if windows.context else "")
        + "raise data.meters.max_gap, change windows.split or leave this meter out"
        for i, name in enumerate(dataset.clients.tolist())
        for split in SPLITS
        if not len(dataset.starts(i, split))
    ]
    if problems:
        raise DataError("\n".join(problems))


UNKNOWN = np.datetime64("NaT")


@dataclass(frozen=True)
class Scaling:
    """What `build` estimates for one client, with which later readings become windows, too."""

    offset: NDArray[np.float64]
    """Value (F,) of each feature at which it is 0 for the model."""
    scale: NDArray[np.float64]
    """What (F,) makes 1 for the model."""
    low: NDArray[np.float64]
    """Least value (F,) of each feature in the client's training set."""
    high: NDArray[np.float64]
    """Greatest value (F,) there."""
    context: list[NDArray[np.float64]]
    """What each transform of `windows.context` takes from that part."""
    known: np.datetime64 = UNKNOWN
    """Stamp of the last row that the model and the margins of its intervals come from: the end of
    the validation set."""


def scalings(
    tables: Mapping[str, pd.DataFrame], windows: Windows, limits: Limits | None = None
) -> list[Scaling]:
    """What `build` estimates for each of the clients, given the same. Raises the same errors."""
    edges = _edges(tables, windows, _common_interval(tables))
    raw = [table.to_numpy(float) for table in tables.values()]
    offset, scale = _scales(raw, edges, windows, limits)
    low, high = _limits(raw, edges, "per_client")
    parts = _series(tables, windows, _training(raw, edges), offset, scale)
    stamps = np.concatenate([part.stamps for part in parts])
    return [
        Scaling(
            *(offset[i], scale[i], low[i], high[i], context.estimate(part, windows.context)),
            known=stamps[edges[i, 2] - 1],
        )
        for i, part in enumerate(parts)
    ]


def scaling_of_new(client: str, table: pd.DataFrame, windows: Windows, trained: Scaling) -> Scaling:
    """The scaling of a client that did not take part, all of whose readings are for training.

    Args:
        client: its name.
        table: its readings.
        windows: those of the training.
        trained: the scaling of a client that took part; with pooled scaling all have the same.
    """
    tables, raw = {client: table}, [table.to_numpy(float)]
    everything = np.array([[0, *3 * [len(table)]]])
    offset, scale = _scales(raw, everything, windows)
    if windows.scaling == "pooled":
        first = 1 if windows.target == "change" else 0  # that of the load is its own
        offset[0, first:], scale[0, first:] = trained.offset[first:], trained.scale[first:]
    low, high = _limits(raw, everything, "per_client")
    (part,) = _series(tables, windows, _training(raw, everything), offset, scale)
    estimated = context.estimate(part, windows.context)
    return Scaling(offset[0], scale[0], low[0], high[0], estimated, known=part.stamps[-1])


def build_later(
    client: str,
    table: pd.DataFrame,
    windows: Windows,
    scaling: Scaling,
    *,
    training: bool = False,
) -> Dataset:
    """The windows of further readings of a client whose scaling is known.

    Args:
        client: its name.
        table: its readings, with the columns that it was trained with. Values may be missing; so
            are the windows that read them.
        windows: those of the training.
        scaling: what was estimated then.
        training: whether all windows are for training; otherwise those that begin after
            `Scaling.known` are for test, and none for training.
    """
    tables = {client: table}
    parts = _series(
        *(tables, windows, [slice(0, len(table))]), scaling.offset[None], scaling.scale[None]
    )
    columns = [context.compute(part, windows.context, scaling.context) for part in parts]
    end, known = len(table), int((parts[0].stamps <= scaling.known).sum())
    edges = np.array([[0, end, end, end] if training else [0, 0, known, end]])
    return _dataset(tables, windows, parts, columns, edges)


def _scales(
    raw: list[NDArray[np.float64]],
    edges: NDArray[np.int64],
    windows: Windows,
    limits: Limits | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`Scaling.offset` and `Scaling.scale` (N, F) of all clients."""
    if windows.scaling == "z_score":
        low, spread = _moments(raw, edges)
    else:
        low, high = _limits(raw, edges, windows.scaling)
        if limits is not None:
            low[:], high[:] = limits
        spread = high - low
    # A constant feature becomes 1 (authors' code).
    offset, scale = np.where(spread > 0, low, low - 1), np.where(spread > 0, spread, 1)
    if windows.target == "change":
        units = [
            Unit.of(r[part, 0], windows.look_ahead, windows.horizons)
            for r, part in zip(raw, _training(raw, edges), strict=True)
        ]
        offset[:, 0], scale[:, 0] = [u.mean for u in units], [u.change for u in units]
    return offset, scale


def _series(
    tables: Mapping[str, pd.DataFrame],
    windows: Windows,
    training: list[slice],
    offset: NDArray[np.float64],
    scale: NDArray[np.float64],
) -> list[context.Series]:
    """The scaled series of the clients, for `context`."""
    columns, interval = _common_columns(tables), _common_interval(tables)
    series = []
    for i, table in enumerate(tables.values()):
        raw = table.to_numpy(float)
        series.append(
            context.Series(
                load=raw[:, 0],
                # Client by client, because intermediate arrays are twice as large as the result.
                features=((raw - offset[i]) / scale[i]).astype(np.float32),
                columns=columns,
                stamps=table.index.to_numpy("datetime64[s]"),
                training=training[i],
                offset=offset[i, 0],
                scale=scale[i, 0],
                relative=windows.is_relative,
                look_back=windows.look_back,
                look_ahead=windows.look_ahead,
                horizons=windows.horizons,
                interval=interval,
            )
        )
    return series


def _dataset(
    tables: Mapping[str, pd.DataFrame],
    windows: Windows,
    parts: list[context.Series],
    columns: list[NDArray[np.float32]],
    edges: NDArray[np.int64],
) -> Dataset:
    """The clients' series and context as one dataset."""
    return Dataset(
        clients=np.array(list(tables), dtype=np.str_),
        columns=np.array(parts[0].columns, dtype=np.str_),
        features=np.concatenate([part.features for part in parts]),
        context=np.concatenate(columns),
        targets=np.concatenate([_targets(part) for part in parts]),
        load=np.concatenate([part.load for part in parts]),
        stamps=np.concatenate([part.stamps for part in parts]),
        bounds=edges,
        load_offset=np.array([part.offset for part in parts]),
        load_scale=np.array([part.scale for part in parts]),
        relative=parts[0].relative,
        look_back=windows.look_back,
        look_ahead=windows.look_ahead,
        horizons=windows.horizons,
        interval=parts[0].interval,
    )


def limits_of(name: str, table: pd.DataFrame, windows: Windows) -> Limits:
    """Minimum and maximum (F,) of each feature in the training set of one client.

    Those of a load that is not scaled by them are left at 0, because clients send them.
    """
    tables = {name: table}
    edges = _edges(tables, windows, _common_interval(tables))
    low, high = _limits([table.to_numpy(float)], edges, "per_client")
    if windows.target == "change":
        low[0, 0] = high[0, 0] = 0
    return low[0], high[0]


def _targets(series: context.Series) -> NDArray[np.float32]:
    """`Dataset.targets` of one client."""
    if series.horizons == 1:
        return _target(series, series.look_ahead)
    steps = range(series.look_ahead, series.look_ahead + series.horizons)
    return np.stack([_target(series, one) for one in steps], axis=1)


def _target(series: context.Series, steps: int) -> NDArray[np.float32]:
    """The target (R,) so many rows after the last input row."""
    target = np.full(len(series.load), np.nan, np.float32)
    if series.relative:
        target[:-steps] = (series.load[steps:] - series.load[:-steps]) / series.scale
    else:
        target[:-steps] = series.features[steps:, 0]
    return target


def _edges(
    tables: Mapping[str, pd.DataFrame], windows: Windows, interval: int
) -> NDArray[np.int64]:
    """`Dataset.bounds` of the tables, which have the same columns."""
    _common_columns(tables)
    bounds, first = [], 0
    for name, table in tables.items():
        bounds.append(first + _cuts(name, len(table), windows))
        first += len(table)
    edges = np.array(bounds)
    if windows.history is not None:
        kept = windows.history * WEEK // interval
        edges[:, 0] = np.maximum(edges[:, 0], edges[:, 1] - kept)
    return edges


def _common_columns(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    wanted, *_ = sorted({tuple(table.columns) for table in tables.values()}, key=len, reverse=True)
    for name, table in tables.items():
        if missing := [column for column in wanted if column not in table]:
            raise DataError(
                f"client {name}: has no {', '.join(missing)}, but other clients of its state "
                "do; add the column or remove the feature from data.features"
            )
    return list(wanted)


def _common_interval(tables: Mapping[str, pd.DataFrame]) -> int:
    intervals: dict[int, str] = {}
    for name, table in tables.items():
        if len(table) > 1:
            minutes = int((table.index[1] - table.index[0]) / pd.Timedelta(minutes=1))
            intervals.setdefault(minutes, name)
    if len(intervals) > 1:
        seen = ", ".join(f"{minutes} min ({name})" for minutes, name in intervals.items())
        raise DataError(f"the clients of a state have different intervals: {seen}; resample them")
    return next(iter(intervals), 0)


def _cuts(name: str, rows: int, windows: Windows) -> NDArray[np.int64]:
    """Rows at which the training, validation and test sets of a client start, and its end."""
    shares = np.cumsum([0.0, *windows.split[:2], 1.0 - sum(windows.split[:2])])
    cuts = np.round(shares * rows).astype(np.int64)
    needed = windows.look_back + windows.farthest
    several = f" + windows.horizons {windows.horizons} - 1" if windows.horizons > 1 else ""
    for split, length in zip(SPLITS, np.diff(cuts), strict=True):
        if length < needed:
            raise DataError(
                f"client {name}: its {split} set has {length} of {rows} rows, but one window "
                f"needs {needed} (windows.look_back {windows.look_back} + windows.look_ahead "
                f"{windows.look_ahead}{several}); use a longer series, a larger fraction in "
                "windows.split or a shorter window"
            )
    return cuts


def _training(raw: list[NDArray[np.float64]], edges: NDArray[np.int64]) -> list[slice]:
    """Rows of the training set of each client, counted from the client's first row."""
    before = np.cumsum([0, *map(len, raw)])[:-1, None]
    return [slice(first, end) for first, end in (edges[:, :2] - before).tolist()]


def _moments(
    raw: list[NDArray[np.float64]], edges: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation (N, F) of each feature in the client's own training set.

    The deviation of a constant feature is 0, whatever the rounding of its mean. A feature that has
    no value there has mean and deviation 0.
    """
    mean, deviation = (np.zeros((len(raw), raw[0].shape[1])) for _ in range(2))
    for i, (rows, part) in enumerate(zip(raw, _training(raw, edges), strict=True)):
        for f, column in enumerate(rows[part].T):
            if len(values := known(column)):
                mean[i, f] = values.mean()
                deviation[i, f] = values.std() if np.ptp(values) > 0 else 0.0
    return mean, deviation


def _limits(raw: list[NDArray[np.float64]], edges: NDArray[np.int64], scaling: str) -> Limits:
    """Minimum and maximum (N, F) of each feature in the training sets."""
    parts = [r[part] for r, part in zip(raw, _training(raw, edges), strict=True)]
    # `fmin` and `fmax` leave out the NaN of gaps.
    low = np.stack([np.fmin.reduce(p) for p in parts])
    high = np.stack([np.fmax.reduce(p) for p in parts])
    if scaling == "pooled":
        low[:], high[:] = low.min(0), high.max(0)
    return low, high
