"""Turns series into supervised windows: splits them by time, scales and indexes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.base.files import digest
from plfl.base.keys import Key
from plfl.base.lazy import pandas as pd
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.config.data import TESTED_WEEKS, count_federations
from plfl.config.windows import Windows
from plfl.data import covariates
from plfl.data.computed import JoinedSeries, compute_targets
from plfl.data.dataset import (
    COMPUTED_FIELDS,
    SPLITS,
    ClientView,
    Dataset,
    JoinedRows,
    ViewName,
    held_out_rows,
    join_datasets,
    no_clients,
)
from plfl.data.features import Unit

Limits = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Minimum and maximum of each feature."""


def build(
    client_series: Mapping[str, pd.DataFrame],
    windows: Windows,
    limits: Limits | None = None,
    *,
    origin: date | None = None,
    new_weeks: int | None = None,
    federation_size: int | None = None,
    folder: Path | None = None,
) -> Dataset:
    """Split and scale the series of clients, in their order, one series at a time.

    Features are scaled by their minimum and maximum in the training sets, to [0, 1]. A feature that
    is constant there becomes 1.

    Args:
        client_series: one series per client, see `plfl.data.features.assemble`; the load comes
            first.
        windows: split, scaling, look-back and look-ahead.
        limits: minimum and maximum (F,) to scale by instead; deployed clients agree on them.
        origin: the date at which the test set begins, see `data.origins`.
        new_weeks: weeks of history in the view `new`; None: no scheme asks for it.
        federation_size: clients per federation; None: all are in one federation.
        folder: where the rows are kept while they are joined; None: in memory, with what is
            computed from them.

    Raises:
        DataError: the clients differ in their features or interval, or a set of a client has no
            window, because it is too short or has too many gaps.
    """
    limits = _common_limits(client_series, windows, limits, origin)
    client_datasets = (
        _build_views(name, table, windows, limits, origin, new_weeks)
        for name, table in _check_equal(client_series)
    )
    dataset = join_datasets(client_datasets, folder)
    if folder is None:
        computed = {name: getattr(dataset, name).every_row for name in COMPUTED_FIELDS}
        dataset = dataset.copy_on_rows(**computed)
    if federation_size is not None:
        federation_numbers = number_federations(list(client_series), federation_size)
        dataset = dataset.copy_on_rows(federation_numbers=federation_numbers)
    _check_windows(dataset, windows)
    return dataset


def _build_views(
    name: str,
    table: pd.DataFrame,
    windows: Windows,
    limits: Limits | None,
    origin: date | None,
    new_weeks: int | None,
) -> Dataset:
    cut = cut_of(name, table, windows, origin)
    dataset = _build_client(name, cut, windows, limits)
    if windows.history is not None:  # what they train on for others, who join late
        all_history = windows.model_copy(update={"history": None})
        counts = cut.held_out_counts
        whole_cut = replace(cut_of(name, table, all_history, origin), held_out_counts=counts)
        whole_dataset = _build_client(name, whole_cut, all_history, limits)
        dataset = _add_view(dataset, "whole", whole_dataset)
    if new_weeks is not None:
        short = windows.model_copy(update={"history": new_weeks})
        new_dataset = _build_client(name, cut_of(name, table, short, origin), short, limits)
        dataset = _add_view(dataset, "new", new_dataset)
    return dataset


def _build_client(name: str, cut: Cut, windows: Windows, limits: Limits | None) -> Dataset:
    scaling, series = _scale_series(cut, windows, *_scales(cut, windows, limits))
    dataset = _dataset(name, series, cut.bounds)
    view = dataset.view.hold_out(cut.held_out_counts) if len(cut.held_out_counts) else dataset.view
    scaling_text = np.array([json.dumps(scaling.as_json())])
    return replace(dataset, scaling=scaling_text, views={"usual": view})


def _check_equal(client_series: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields the tables, read one by one; other features or another interval are refused."""
    first, columns, intervals = "", set[str](), dict[int, str]()
    for name, table in client_series.items():
        if not first:
            first, columns = name, {*table}
        if differing := sorted({*table} ^ columns):
            client = name if differing[0] in columns else first
            text = f"has no {differing[0]}, but other clients of its state do"
            remedy = f"add the column or remove the feature from {Key('data.features')}"
            raise DataError(Problem(f"client {client}", text, remedy, client))
        if minutes := _interval(table):
            intervals.setdefault(minutes, name)
        if len(intervals) > 1:
            interval_list = ", ".join(
                f"{minutes} min ({name})" for minutes, name in intervals.items()
            )
            raise DataError(
                Problem(
                    "",
                    f"the clients of a state have different intervals: {interval_list}",
                    "resample them",
                )
            )
        yield name, table


def _interval(table: pd.DataFrame) -> int:
    """Minutes between the rows of a table; 0 if it has only one."""
    if len(table) < 2:
        return 0
    return int((table.index[1] - table.index[0]) / pd.Timedelta(minutes=1))


def _common_limits(
    client_series: Mapping[str, pd.DataFrame],
    windows: Windows,
    limits: Limits | None,
    origin: date | None,
) -> Limits | None:
    """The common limits by which all clients scale; None if each has its own."""
    if limits is not None or windows.scaling != "pooled":
        return limits
    client_limits = [
        limits_of(name, table, windows, origin) for name, table in _check_equal(client_series)
    ]
    low, high = map(np.stack, zip(*client_limits, strict=True))
    return low.min(0), high.max(0)


def _add_view(dataset: Dataset, name: ViewName, view_dataset: Dataset) -> Dataset:
    """`dataset` with another view of the same client and its rows."""
    views = {**dataset.views, name: view_dataset.view.move(len(dataset.load))}
    rows = JoinedRows()
    rows.append(dataset)
    rows.append(view_dataset)
    return rows.as_dataset(dataset, views=views)


def number_federations(names: Sequence[str], size: int) -> NDArray[np.int64]:
    """Numbers (N,) of the federations of about `size` clients into which they are divided.

    The clients are sorted by the digests of their names, so the division depends on nothing else.
    """
    order = sorted(range(len(names)), key=lambda i: digest(names[i]))
    count = count_federations(len(names), size)
    federations = np.empty(len(names), np.int64)
    federations[order] = np.arange(len(names)) % count
    return federations


def _check_windows(dataset: Dataset, windows: Windows) -> None:
    """Refuse parts without a window."""
    reach = f"shorten the reach of {Key('windows.covariates')}, " if windows.covariates else ""
    remedy = (
        f"{reach}raise {Key('data.meters.max_gap')}, change {Key('windows.split')} or leave this "
        "meter out"
    )
    problems = [
        Problem(
            f"client {name}",
            f"all {dataset.count_skipped(i, split)} windows of its {split} set touch a gap in the "
            "readings",
            remedy,
            name,
            kind=f"no windows in the {split} set",
        )
        for i, name in enumerate(dataset.clients.tolist())
        for split in SPLITS
        if not len(dataset.starts(i, split))
    ]
    if problems:
        raise DataError(*problems)


UNKNOWN = np.datetime64("NaT", "s")


@dataclass(frozen=True)
class Scaling:
    """The estimates of `build` for one client, which also make windows of later readings."""

    offset: NDArray[np.float64]
    """Value (F,) of each feature that is 0 for the model."""
    scale: NDArray[np.float64]
    """Difference (F,) of each feature that is 1 for the model."""
    low: NDArray[np.float64]
    """Least value (F,) of each feature in the client's training set."""
    high: NDArray[np.float64]
    """Greatest value (F,) there."""
    covariates: list[NDArray[np.float64]]
    """What each transform of `windows.covariates` estimates from the training set."""
    known_until: np.datetime64 = UNKNOWN
    """Stamp of the last row that model and widths depend on: the end of the validation set."""

    def as_json(self) -> dict[str, Any]:
        """As values of JSON."""
        numbers = {name: getattr(self, name).tolist() for name in SCALING_ARRAYS}
        covariates = [transform.tolist() for transform in self.covariates]
        return {**numbers, "covariates": covariates, "known": str(self.known_until)}

    @classmethod
    def from_json(
        cls, covariates: list[Any], known: str = str(UNKNOWN), **numbers: list[float]
    ) -> Scaling:
        """The inverse of `as_json`; earlier versions did not have `known`."""
        arrays = {name: np.array(values, float) for name, values in numbers.items()}
        estimated = [np.array(transform, float) for transform in covariates]
        return cls(**arrays, covariates=estimated, known_until=np.datetime64(known, "s"))


SCALING_ARRAYS = [
    field.name for field in fields(Scaling) if field.name not in ("covariates", "known_until")
]
"""The arrays (F,) of a scaling."""


def scalings(dataset: Dataset) -> dict[str, Scaling]:
    """What `build` has estimated for each client, by name."""
    stored_scalings = zip(dataset.clients.tolist(), dataset.scaling.tolist(), strict=True)
    return {name: Scaling.from_json(**json.loads(text)) for name, text in stored_scalings}


def _scale_series(
    cut: Cut, windows: Windows, offset: NDArray[np.float64], scale: NDArray[np.float64]
) -> tuple[Scaling, covariates.Series]:
    """The scaling of a client, and its scaled series."""
    series = _series(cut.table, windows, cut.training_rows, offset, scale)
    last_stamp = series.stamps[cut.bounds[0, 2] - 1]
    return Scaling(
        offset, scale, *_limits(cut), covariates.estimate(series), known_until=last_stamp
    ), series


def scaling_of_new(table: pd.DataFrame, windows: Windows, trained_scaling: Scaling) -> Scaling:
    """The scaling of a new client, which did not take part: all its readings are for training.
    `trained_scaling`: that of a client that took part; with pooled scaling all have the same."""
    cut = Cut(table, np.array([[0, *3 * [len(table)]]]))
    offset, scale = _scales(cut, windows)
    if windows.scaling == "pooled":
        first = 1 if windows.target == "change" else 0  # each client has its own scale of the load
        offset[first:], scale[first:] = (
            trained_scaling.offset[first:],
            trained_scaling.scale[first:],
        )
    return _scale_series(cut, windows, offset, scale)[0]


def build_later(
    client: str,
    table: pd.DataFrame,
    windows: Windows,
    scaling: Scaling,
    *,
    are_for_training: bool = False,
    fills_lags: bool = False,
) -> Dataset:
    """The windows of further readings of a client whose scaling is known.

    Windows that read missing values are left out; with `fills_lags`, the last load of a window
    replaces those of lags that are in a gap. If they `are_for_training`, all windows are;
    otherwise those that begin after `Scaling.known_until` are for test, and none is for training.
    """
    series = _series(table, windows, slice(0, len(table)), scaling.offset, scaling.scale)
    series = replace(series, fills_lags=fills_lags)
    end, known_rows = len(table), int((series.stamps <= scaling.known_until).sum())
    edges = np.array([[0, end, end, end] if are_for_training else [0, 0, known_rows, end]])
    # The estimates are not those of these readings.
    return replace(
        _dataset(client, series, edges),
        covariates=covariates.compute(series, scaling.covariates),
        targets=compute_targets(series),
        series_table=None,
    )


def _scales(
    cut: Cut, windows: Windows, limits: Limits | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`Scaling.offset` and `Scaling.scale` (F,) of a client."""
    low, high = _limits(cut) if limits is None else limits
    spread = high - low
    # A constant feature becomes 1 (authors' code).
    offset, scale = np.where(spread > 0, low, low - 1), np.where(spread > 0, spread, 1)
    if windows.target == "change":
        unit = Unit.from_load(cut.training_loads[:, 0], windows.look_ahead, windows.horizons)
        offset[0], scale[0] = unit.mean, unit.change
    return offset, scale


def _series(
    table: pd.DataFrame,
    windows: Windows,
    training: slice,
    offset: NDArray[np.float64],
    scale: NDArray[np.float64],
) -> covariates.Series:
    """The scaled series of a client, for `covariates`."""
    raw = table.to_numpy(float)
    return covariates.Series(
        load=raw[:, 0],
        features=((raw - offset) / scale).astype(np.float32),
        columns=list(table.columns),
        stamps=table.index.to_numpy("datetime64[s]"),
        training_rows=training,
        offset=offset[0],
        scale=scale[0],
        windows=windows,
        interval=_interval(table),
    )


def _dataset(name: str, series: covariates.Series, edges: NDArray[np.int64]) -> Dataset:
    """The series of a client as a dataset, whose covariates and targets are computed from it."""
    windows = series.windows
    table = JoinedSeries(
        windows=windows,
        interval=series.interval,
        columns=series.columns,
        bounds=np.array([[0, series.training_rows.stop, len(series.load)]]),
        offset=np.array([series.offset]),
        scale=np.array([series.scale]),
        features=series.features,
        load=series.load,
        stamps=series.stamps,
    )
    assert series.training_rows.start == 0
    return Dataset(
        clients=np.array([name], dtype=np.str_),
        columns=np.array(series.columns, dtype=np.str_),
        features=series.features,
        covariates=table.covariates,
        targets=table.targets,
        load=series.load,
        stamps=series.stamps,
        views={
            "usual": ClientView(edges, np.array([series.offset]), np.array([series.scale])),
        },
        relative=windows.is_relative,
        look_back=windows.look_back,
        look_ahead=windows.look_ahead,
        horizons=windows.horizons,
        interval=series.interval,
        series_table=table,
    )


def limits_of(
    name: str, table: pd.DataFrame, windows: Windows, origin: date | None = None
) -> Limits:
    """Minimum and maximum (F,) of each feature in the training set of one client.

    Limits of a load that are not used for scaling are 0, because clients send the limits.
    """
    low, high = _limits(cut_of(name, table, windows, origin))
    if windows.target == "change":
        low[0] = high[0] = 0
    return low, high


@dataclass(frozen=True)
class Cut:
    """The table of a client, cut by time."""

    table: pd.DataFrame
    bounds: NDArray[np.int64]
    """`ClientView.bounds` (1, 4) of this table."""
    held_out_counts: NDArray[np.int64] = field(default_factory=no_clients)
    """`ClientView.held_out_counts`; the training set of `edges` then is the whole history."""

    @property
    def training_rows(self) -> slice:
        """The rows of the training set."""
        return slice(*self.bounds[0, :2].tolist())

    @property
    def training_loads(self) -> NDArray[np.float64]:
        """The values of these rows."""
        return self.table.to_numpy(float)[self.training_rows]


def cut_of(name: str, table: pd.DataFrame, windows: Windows, origin: date | None) -> Cut:
    """Cut a table by `windows.split`, or into a history and a test set."""
    if windows.has_validation and origin is None:
        return Cut(table, _cuts(name, len(table), windows)[None])
    interval = _interval(table)
    first, test, end = _history(name, table, windows, origin, interval)
    held_count = held_out_rows(test - first, interval)
    needed_rows = windows.look_back + windows.farthest
    row_needs = {
        "history, less what is held out to choose on,": (test - first - held_count, needed_rows),
        "part of its history that is held out to choose on": (held_count, windows.horizons),
        "test set": (end - test, needed_rows),
    }
    share = "its fraction in windows.split"
    _check_rows(name, row_needs, windows, share if windows.history is None else "windows.history")
    edges = np.array([[0, test - first, test - first, end - first]])
    return Cut(table.iloc[first:end], edges, np.array([held_count]))


def _history(
    name: str, table: pd.DataFrame, windows: Windows, origin: date | None, interval: int
) -> tuple[int, int, int]:
    """The first row of a client's history and of its test set, and the end of the test set."""
    if origin is None:
        _, _, test, end = _cuts(name, len(table), windows).tolist()
    else:
        begins, ends = pd.Timestamp(origin), pd.Timestamp(origin) + pd.Timedelta(weeks=TESTED_WEEKS)
        test, end = table.index.searchsorted([begins, ends], side="right").tolist()
        if not len(table) or table.index[-1] < ends or not test:
            text = (
                f"its readings, from {table.index.min()} to {table.index.max()}, do not reach from "
                f"before {origin} to {ends}, the end of the test set"
            )
            remedy = f"change {Key('data.origins')}, or leave this client out"
            raise DataError(Problem(f"client {name}", text, remedy, name, "no test set"))
    weeks = windows.history
    return (0 if weeks is None else max(0, test - weeks * MINUTES_PER_WEEK // interval)), test, end


def _check_rows(
    name: str, row_needs: dict[str, tuple[int, int]], windows: Windows, key: str
) -> None:
    """Refuse parts of a series without a window. Each part has its number of rows and the least
    that it needs. `key`: that of the configuration which would give them more rows."""
    for part_name, (rows, fewest_rows) in row_needs.items():
        if rows < fewest_rows:
            horizon_text = (
                f" + windows.horizons {windows.horizons} - 1" if windows.horizons > 1 else ""
            )
            text = (
                f"its {part_name} has {rows} rows, but one window needs {fewest_rows} "
                f"(windows.look_back {windows.look_back} + windows.look_ahead "
                f"{windows.look_ahead}{horizon_text})"
            )
            remedy = f"use a longer series, raise {key}, or use a shorter window"
            kind = f"too few rows in the {part_name}"
            raise DataError(Problem(f"client {name}", text, remedy, name, kind))


def _cuts(name: str, row_count: int, windows: Windows) -> NDArray[np.int64]:
    """Rows at which the training, validation and test sets of a client start, and its end."""
    shares = np.cumsum([0.0, *windows.split[:2], 1.0 - sum(windows.split[:2])])
    cuts = np.round(shares * row_count).astype(np.int64)
    needed_rows = windows.look_back + windows.farthest
    sets = zip(SPLITS, windows.split, np.diff(cuts).tolist(), strict=True)
    row_needs = {f"{split} set": (length, needed_rows) for split, share, length in sets if share}
    _check_rows(name, row_needs, windows, "its fraction in windows.split")
    return cuts


def _limits(cut: Cut) -> Limits:
    """Minimum and maximum (F,) of each feature in the training set; NaN of gaps are left out."""
    return np.fmin.reduce(cut.training_loads), np.fmax.reduce(cut.training_loads)
