"""From series to supervised windows: split by time, scale, and index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError
from plfl.base.files import digest
from plfl.config.sections import TESTED, Windows
from plfl.data import context
from plfl.data.dataset import SPLITS, WEEK, Dataset
from plfl.data.units import Unit, known

Limits = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Minimum and maximum of each feature."""


def build(
    tables: Mapping[str, pd.DataFrame],
    windows: Windows,
    limits: Limits | None = None,
    *,
    origin: date | None = None,
    lends: bool = False,
    size: int | None = None,
) -> Dataset:
    """Split and scale the clients' tables, in their order.

    Features are scaled by their minimum and maximum in the training sets, to [0, 1], or by their
    mean and standard deviation there. A feature that is constant there becomes 1.

    Args:
        tables: one table per client, see `plfl.data.features.assemble`; the load comes first.
        windows: split, scaling, look-back and look-ahead.
        limits: minimum and maximum (F,) to scale by instead, as deployed clients agree on them.
        origin: the date at which the test set begins, see `data.origins`.
        lends: whether clients lend all that they know to others, as where some join late.
        size: clients of a federation; None: they are one.

    Raises:
        DataError: the clients differ in their features or interval, or a set of a client has no
            window, because it is too short or has too many gaps.
    """
    cut = cut_of(tables, windows, origin)
    dataset = _built(cut, windows, limits)
    if size is not None:
        dataset = replace(dataset, federation=federations_of(list(tables), size))
    if len(cut.held):
        dataset = replace(dataset, held=cut.held, bounds=_held_out(dataset.bounds, cut.held))
    _check_windows(dataset, windows)
    if lends and windows.history is not None:
        everything = windows.model_copy(update={"history": None})
        whole = _built(cut_of(tables, everything, origin), everything, limits)
        dataset = _with_whole(dataset, whole)
    return dataset


def _built(cut: Cut, windows: Windows, limits: Limits | None) -> Dataset:
    raw = [table.to_numpy(float) for table in cut.tables.values()]
    offset, scale = _scales(raw, cut.edges, windows, limits)
    parts = _series(cut.tables, windows, _training(raw, cut.edges), offset, scale)
    columns = [context.compute(part, windows.context) for part in parts]
    return _dataset(cut.tables, windows, parts, columns, cut.edges)


def _held_out(bounds: NDArray[np.int64], held: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bounds whose training sets end where the rows that are held out begin."""
    found = bounds.copy()
    found[:, 1] = found[:, 2] - held
    return found


def _with_whole(dataset: Dataset, whole: Dataset) -> Dataset:
    """`dataset` with the rows of `whole` behind its own."""

    def both(name: str) -> Any:
        return np.concatenate([getattr(dataset, name), getattr(whole, name)])

    return replace(
        dataset,
        features=both("features"),
        context=both("context"),
        targets=both("targets"),
        load=both("load"),
        stamps=both("stamps"),
        whole_bounds=_held_out(whole.bounds, dataset.held) + len(dataset.load),
        whole_offset=whole.load_offset,
        whole_scale=whole.load_scale,
    )


def federations_of(names: Sequence[str], size: int) -> NDArray[np.int64]:
    """Numbers (N,) of the federations of about `size` clients into which they are divided.

    The clients are put in the order of the digests of their names, so that the division depends on
    nothing else.
    """
    order = sorted(range(len(names)), key=lambda i: digest(names[i]))
    count = max(1, round(len(names) / size))
    found = np.empty(len(names), np.int64)
    found[order] = np.arange(len(names)) % count
    return found


def _check_windows(dataset: Dataset, windows: Windows) -> None:
    """Refuse parts without a window."""
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
    tables: Mapping[str, pd.DataFrame],
    windows: Windows,
    limits: Limits | None = None,
    origin: date | None = None,
) -> list[Scaling]:
    """What `build` estimates for each of the clients, given the same. Raises the same errors."""
    cut = cut_of(tables, windows, origin)
    tables, edges = cut.tables, cut.edges
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

    `trained`: that of a client that took part; with pooled scaling all have the same.
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

    Values may be missing; so are the windows that read them. With `training` all windows are for
    training; otherwise those that begin after `Scaling.known` are for test, and none for training.
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


def limits_of(
    name: str, table: pd.DataFrame, windows: Windows, origin: date | None = None
) -> Limits:
    """Minimum and maximum (F,) of each feature in the training set of one client.

    Those of a load that is not scaled by them are left at 0, because clients send them.
    """
    cut = cut_of({name: table}, windows, origin)
    low, high = _limits([cut.tables[name].to_numpy(float)], cut.edges, "per_client")
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


@dataclass(frozen=True)
class Cut:
    """The clients' tables, cut by time."""

    tables: Mapping[str, pd.DataFrame]
    edges: NDArray[np.int64]
    """`Dataset.bounds` of these tables."""
    held: NDArray[np.int64]
    """`Dataset.held`; the training sets of `edges` then are the whole histories."""


def cut_of(tables: Mapping[str, pd.DataFrame], windows: Windows, origin: date | None) -> Cut:
    """Cut tables with the same columns by `windows.split`, or into a history and a test set."""
    interval = _common_interval(tables)
    _common_columns(tables)
    lies_within = windows.history is not None or origin is not None
    kept, bounds, held, before = {}, [], [], 0
    for name, table in tables.items():
        if lies_within:
            first, test, end = _history(name, table, windows, origin, interval)
            kept[name] = table.iloc[first:end]
            cuts = np.array([0, test - first, test - first, end - first])
            held.append(max((test - first) // 5, WEEK // 7 // interval))
            _check_history(name, test - first, held[-1], end - test, windows)
        else:
            kept[name], cuts = table, _cuts(name, len(table), windows)
        bounds.append(before + cuts)
        before += int(cuts[3])
    return Cut(kept, np.array(bounds), np.array(held, np.int64))


def _history(
    name: str, table: pd.DataFrame, windows: Windows, origin: date | None, interval: int
) -> tuple[int, int, int]:
    """The first row of a client's history, and the first and the last, exclusive, of its test."""
    if origin is None:
        _, _, test, end = _cuts(name, len(table), windows).tolist()
    else:
        begins, ends = pd.Timestamp(origin), pd.Timestamp(origin) + pd.Timedelta(weeks=TESTED)
        test, end = table.index.searchsorted([begins, ends], side="right").tolist()
        if not len(table) or table.index[-1] < ends or not test:
            raise DataError(
                f"client {name}: its readings, from {table.index.min()} to {table.index.max()}, do "
                f"not reach from before {origin} to {ends}, the end of the test set; change "
                "data.origins, or leave this client out"
            )
    weeks = windows.history
    return (0 if weeks is None else max(0, test - weeks * WEEK // interval)), test, end


def _check_history(name: str, rows: int, held: int, tested: int, windows: Windows) -> None:
    needed = windows.look_back + windows.farthest
    parts = {
        "history, less what is held out to choose on,": (rows - held, needed),
        "part of its history that is held out to choose on": (held, windows.horizons),
        "test set": (tested, needed),
    }
    for part, (there, least) in parts.items():
        if there < least:
            raise DataError(
                f"client {name}: the {part} has {there} rows, but {least} are needed for a window; "
                "raise windows.history, use a longer series or a shorter window"
            )


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
