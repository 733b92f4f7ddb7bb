"""The windows of a federation: the clients' scaled series, and where their windows start.

A window is represented by its start row s: its inputs are the rows s … s+T−1, its target is the
load of row s+T−1+L (or of H rows from this one on), and its persistence forecast is the load of row
s+T−1. Windows are never copied, and what follows from the series, covariates and targets, is not
stored (`plfl.data.computed`); a year of one building at 15 minutes takes less than 2 MB.

A series may have gaps: NaN in the load or another feature. A window that reads one, in its inputs,
its covariates or its target, is left out of every set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.config.windows import Windows
from plfl.data import arrays
from plfl.data.computed import ComputedRows, JoinedSeries, RowTable
from plfl.layout import WindowShape

Split = Literal["train", "validation", "test"]
ViewName = Literal["usual", "whole", "new"]
"""What clients know of their rows, see `Dataset.views`."""
VIEWS: tuple[ViewName, ...] = ("usual", "whole", "new")
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
EVALUATED_SPLITS = SPLITS[1:]
"""The splits that models are scored on."""

NEGLIGIBLE = 1e-3
"""A naive forecast with an error below this share of the mean load has none to speak of: the load
is constant, but for rounding and for the meter, which is accurate to 0.2 % at best (class 0.2 S of
IEC 62053-22)."""


def naive_error(truth: NDArray[np.float64], naive: NDArray[np.float64]) -> float:
    """Mean absolute error of a naive forecast, by which scores divide. It is 0 if it is
    `NEGLIGIBLE`: a ratio to it would be huge, and one such client would decide every mean."""
    error = float(np.abs(truth - naive).mean())
    return error if error > NEGLIGIBLE * float(np.abs(truth).mean()) else 0.0


def seasonal_error(loads: NDArray[np.float64], season: int) -> float:
    """`naive_error` of the seasonal naive forecast of loads (R,), in order of time, with `season`
    rows per season; 0 without a pair of loads."""
    pairs = np.stack([loads[season:], loads[:-season]])
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    return naive_error(*pairs) if pairs.size else 0.0


class NaiveErrors(NamedTuple):
    """Mean absolute errors of naive forecasts of a client in kWh, see `naive_error`, and its mean
    loads."""

    persistence: float
    """Of persistence, over all targets of the windows in a split."""
    by_target: NDArray[np.float64]
    """The same of each target (H,)."""
    seasonal: float
    """Of the load a day before, in the training set."""
    mean_load: float
    """Over all targets of the windows in a split."""
    mean_absolute_load: float
    """The same of absolute loads."""


ROW_FIELDS = ("features", "load", "stamps")
"""Fields with an entry for each row."""
COMPUTED_FIELDS = ("covariates", "targets")
"""Further ones, which follow from those if the dataset has a `series_table`."""
ROWS_PER_PASS = 2**16
"""Rows that are searched for gaps at a time."""


def no_clients() -> NDArray[np.int64]:
    """An empty array, for fields that have no value for any client."""
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class ClientView:
    """Which rows of a table N clients know, what these are for, and the scale of their loads."""

    bounds: NDArray[np.int64]
    """Rows (N, 4) at which a client's training, validation and test sets start, and its end. Rows
    before the training set are left out."""
    offset: NDArray[np.float64]
    """Load (N,) in kWh at which the scaled load is 0."""
    scale: NDArray[np.float64]
    """Load (N,) in kWh by which the scaled load grows by 1."""
    held_out_counts: NDArray[np.int64] = field(default_factory=no_clients)
    """Number of rows (N,) at the end of each client's history that are held out to choose on: a
    window is for validation if its targets are there. Empty: there is a separate validation set."""

    @property
    def is_rehearsal(self) -> bool:
        """Whether rows are held out, and not for training too."""
        return len(self.held_out_counts) > 0 and bool((self.bounds[:, 1] < self.bounds[:, 2]).all())

    def select(self, clients: NDArray[np.int64]) -> ClientView:
        """The view of some of the clients."""
        counts, bounds = self.held_out_counts, self.bounds[clients]
        counts = counts[clients] if len(counts) else counts
        return ClientView(bounds, self.offset[clients], self.scale[clients], counts)

    def move(self, row_count: int) -> ClientView:
        """The view of the same clients in a table with so many more rows before theirs."""
        return replace(self, bounds=self.bounds + row_count)

    def hold_out(self, counts: NDArray[np.int64]) -> ClientView:
        """The view with this many rows (N,) at the end of the history held out."""
        bounds = self.bounds.copy()
        bounds[:, 1] = bounds[:, 2] - counts
        return replace(self, bounds=bounds, held_out_counts=counts)

    def refit(self) -> ClientView:
        """The view in which the rows that are held out are also for training."""
        bounds = self.bounds.copy()
        bounds[:, 1] = bounds[:, 2]
        return replace(self, bounds=bounds)


@dataclass(frozen=True)
class Dataset:
    """The series of a federation: the rows of all clients in one table, client by client."""

    clients: NDArray[np.str_]
    """Names of the N clients."""
    columns: NDArray[np.str_]
    """Names of the F features."""
    features: NDArray[np.float32]
    """Scaled features (R, F), the load first: the sequence of a window is `look_back` rows."""
    covariates: RowTable
    """Further inputs (R, G) of the window whose last input row this is, read once per window."""
    targets: RowTable
    """Target (R,), in scaled units, of the window whose last input row this is, or (R, H) if there
    are several; NaN where the client's series ends before the target."""
    load: NDArray[np.float64]
    """Load (R,) in kWh per interval."""
    stamps: NDArray[np.datetime64]
    """End of each row's interval (R,)."""
    views: Mapping[ViewName, ClientView]
    """What the clients know of their rows. `usual`: as they train. `whole`: their whole history
    before the test set, not only its latest weeks; absent if they train on all of it. `new`: as if
    they were new, with few weeks before the test set; absent if no sharing scheme asks for it. The
    rows of each view are a copy with another scale."""
    relative: bool
    """Whether the target, and the load in the sequence of a window, is relative to the load of the
    last input row. The last row of the sequence is then subtracted when a window is read:
    `features` has the same load for every window."""
    look_back: int
    """T, input rows of a window."""
    look_ahead: int
    """L, steps from the last input row to the first target."""
    interval: int
    """Minutes between rows."""
    horizons: int = 1
    """H, targets of a window."""
    scaling: NDArray[np.str_] = field(default_factory=lambda: np.empty(0, np.str_))
    """`plfl.data.windows.Scaling` (N,) of each client as JSON, which makes windows of later
    readings; empty for made-up series."""
    federation_numbers: NDArray[np.int64] = field(default_factory=no_clients)
    """Number (N,) of the federation of each client; empty: all are in one federation."""
    view_name: ViewName = "usual"
    """The one of `views` whose windows these are."""
    series_table: JoinedSeries | None = None
    """What covariates and targets are computed from; None: they are stored."""

    @property
    def view(self) -> ClientView:
        """What the clients know of the windows of this dataset."""
        return self.views[self.view_name]

    def with_view(self, name: ViewName) -> Self:
        """The windows of the same clients in one of `views`. DataError: the dataset lacks it, so
        that it was made for another study."""
        if name not in self.views:
            table = self.series_table
            if name == "new" or (table is not None and table.windows.history is not None):
                raise DataError(
                    Problem(
                        "the clients' windows",
                        f"have no view {name!r}, which the study needs",
                        "make them again with `plfl study … --forcerun windows`",
                    )
                )
            name = "usual"
        return self.copy_on_rows(view_name=name)

    def select(self, clients: NDArray[np.int64]) -> Self:
        """A dataset of some of the clients; the rows of the others stay, unused."""
        optional = {"scaling": self.scaling, "federation_numbers": self.federation_numbers}
        return self.copy_on_rows(
            clients=self.clients[clients],
            views={name: view.select(clients) for name, view in self.views.items()},
            **{name: values[clients] for name, values in optional.items() if len(values)},
        )

    def copy_on_rows(self, **changes: Any) -> Self:
        """A copy with other fields, but the same rows and the same cached `is_readable`, and
        `_has_targets` if the targets are the same."""
        dataset = replace(self, **changes)
        dataset.__dict__["is_readable"] = self.is_readable
        if "targets" not in changes:
            dataset.__dict__["_has_targets"] = self._has_targets
        return dataset

    def refit(self) -> Self:
        """The same windows, where those that were held out are also for training. New clients
        still hold theirs out."""
        if not self.view.is_rehearsal:
            return self
        views = {n: view if n == "new" else view.refit() for n, view in self.views.items()}
        return self.copy_on_rows(views=views)

    def clients_of_federations(self) -> list[NDArray[np.int64]]:
        """The clients of each federation."""
        if not len(self.federation_numbers):
            return [np.arange(len(self.clients))]
        numbers = self.federation_numbers
        return [np.flatnonzero(numbers == k) for k in np.unique(numbers)]

    def starts(self, client: int, split: Split) -> NDArray[np.int64]:
        """Start rows of all windows that lie entirely in one split of a client and touch no gap."""
        all_starts = self._all_starts(client, split)
        last = self.persistence_rows(all_starts)
        return all_starts[self.is_readable[last] & self._has_targets[last]]

    def count_skipped(self, client: int, split: Split) -> int:
        """Number of windows in one split of a client that touch a gap."""
        return len(self._all_starts(client, split)) - len(self.starts(client, split))

    def _all_starts(self, client: int, split: Split) -> NDArray[np.int64]:
        view = self.view
        if split == "validation" and len(view.held_out_counts):
            end = int(view.bounds[client, 2])
            first = end - int(view.held_out_counts[client]) - self.look_back - self.look_ahead + 1
            return np.arange(first, end - window_length(self) + 1)
        first, end = view.bounds[client, SPLITS.index(split) :][:2]
        return np.arange(first, end - window_length(self) + 1)

    @cached_property
    def is_readable(self) -> NDArray[np.bool_]:
        """Whether the window whose last input row this is (R,) reads no gap in its inputs. Rows
        with too few rows before them in the table count as gaps."""
        readable, reach = np.zeros(len(self.load), bool), self.look_back - 1
        for first in range(reach, len(readable), ROWS_PER_PASS):
            block = slice(first - reach, first + ROWS_PER_PASS)
            gaps = np.cumsum(np.isnan(self.features[block]).any(axis=1))
            has_no_gap = gaps[reach:] == np.concatenate([[0], gaps])[: len(gaps) - reach]
            readable[first : block.stop] = has_no_gap & ~np.isnan(
                self.covariates[first : block.stop]
            ).any(1)
        return readable

    @cached_property
    def _has_targets(self) -> NDArray[np.bool_]:
        """Whether no target of the window whose last input row this is (R,) is missing."""
        has_targets, H = np.ones(len(self.load), bool), self.horizons
        for first in range(0, len(has_targets), ROWS_PER_PASS):
            if not isinstance(self.targets, ComputedRows):
                is_missing = np.isnan(self.targets[first : first + ROWS_PER_PASS])
                is_complete = np.asarray(~is_missing.reshape(-1, H).any(axis=1))
            else:  # they are missing where the load is
                loads = self.load[first + self.look_ahead :][: ROWS_PER_PASS + H - 1]
                gaps = np.cumsum(np.concatenate([[0], np.isnan(loads)]))
                is_complete = gaps[H:] == gaps[:-H]
                if self.relative:
                    is_complete &= ~np.isnan(self.load[first : first + len(is_complete)])
            has_targets[first : first + len(is_complete)] = is_complete
        if isinstance(self.targets, ComputedRows) and self.series_table is not None:
            # Those after a series' last load are those of another one.
            for first, _, end in self.series_table.bounds.tolist():
                has_targets[max(first, end - self.look_ahead - H + 1) : end] = False
        return has_targets

    def target_rows(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows (W,) of the targets of windows, or (W, H) if there are several."""
        first = starts + self.look_back - 1 + self.look_ahead
        return first if self.horizons == 1 else first[:, None] + np.arange(self.horizons)

    def persistence_rows(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Last input rows of windows; their load is the persistence forecast."""
        return starts + self.look_back - 1

    def truth(self, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Loads (W,) or (W, H) of the targets of windows."""
        first = starts + self.look_back - 1 + self.look_ahead
        if self.horizons == 1:
            return self.load[first]
        return np.lib.stride_tricks.sliding_window_view(self.load, self.horizons)[first]

    def persistence(self, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The load of each window's last input row as a forecast, in the shape of `truth`."""
        last = self.load[self.persistence_rows(starts)]
        return last if self.horizons == 1 else np.repeat(last[:, None], self.horizons, axis=1)

    def naive_errors(self, client: int, split: Split) -> NaiveErrors:
        """Errors of naive forecasts and mean loads of a client, by which scores of a split divide.
        They are computed once: models are scored after every round."""
        if (client, split) not in self._naive_errors:
            starts, (first, end) = self.starts(client, split), self.view.bounds[client, :2]
            truth, persistence = self.truth(starts), self.persistence(starts)
            pairs = zip(*(x.reshape(len(starts), -1).T for x in (truth, persistence)), strict=True)
            self._naive_errors[client, split] = NaiveErrors(
                naive_error(truth, persistence),
                np.array([naive_error(*pair) for pair in pairs]),
                seasonal_error(self.load[first:end], MINUTES_PER_DAY // self.interval),
                float(truth.mean()),
                float(np.abs(truth).mean()),
            )
        return self._naive_errors[client, split]

    @cached_property
    def _naive_errors(self) -> dict[tuple[int, Split], NaiveErrors]:
        return {}

    def select_target(self, h: int) -> Dataset:
        """The same series with only the target `h`, from 0, of each window."""
        if self.horizons == 1:
            return self
        targets = self.targets
        if isinstance(targets, ComputedRows):
            assert self.series_table is not None
            target: RowTable = self.series_table.target(h)
        else:
            target = targets[:, h]
        return self.copy_on_rows(
            targets=target, look_ahead=self.look_ahead + h, horizons=1, series_table=None
        )

    @property
    def shape(self) -> WindowShape:
        """What a model reads of a window."""
        return WindowShape(self.features.shape[1], self.look_back, self.covariates.shape[1])

    def in_kwh(
        self, client: int, starts: NDArray[np.int64], outputs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Forecasts in kWh per interval, given a model's outputs in scaled units (W, ...) for the
        windows of a client that start at `starts` (W,)."""
        last = self.load[self.persistence_rows(starts)].reshape(-1, *[1] * (outputs.ndim - 1))
        level = last if self.relative else self.view.offset[client]
        return np.asarray(level + self.view.scale[client] * outputs, float)

    def divide_by_seed(self, seed: int) -> Self:
        """The data as the federation of a seed holds them: the same for all."""
        return self

    def save(self, path: str | PathLike[str]) -> None:
        """Write the dataset as an .npz file of plain arrays, without what is computed."""
        own_arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        del own_arrays["views"]
        for name, view in self.views.items():
            own_arrays |= {f"views/{name}/{key}": values for key, values in vars(view).items()}
        del own_arrays["series_table"]
        if (table := source_table(self)) is not None:
            for computed in COMPUTED_FIELDS:
                del own_arrays[computed]
            own_arrays["series/windows"] = table.windows.model_dump_json()
            if holidays := table.windows.holidays_digest:  # others need another training
                own_arrays["series/holidays"] = holidays
            own_arrays |= {f"series/{name}": getattr(table, name) for name in PART_ARRAYS}
        own_arrays["readable"] = self.is_readable
        arrays.save(path, own_arrays)

    @classmethod
    def load_file(cls, path: str | PathLike[str]) -> Dataset:
        """Read a file of `save`."""

        view_fields = fields(ClientView)

        def make(own_arrays: dict[str, Any]) -> Dataset:
            for name in ("look_back", "look_ahead", "horizons", "interval"):
                own_arrays[name] = int(own_arrays[name])
            own_arrays["relative"] = bool(own_arrays["relative"])
            own_arrays["view_name"] = str(own_arrays["view_name"])
            views: dict[ViewName, ClientView] = {}
            for view_name in VIEWS:
                if f"views/{view_name}/bounds" in own_arrays:
                    keys = {field.name: f"views/{view_name}/{field.name}" for field in view_fields}
                    view_arrays = {n: own_arrays.pop(key) for n, key in keys.items()}
                    views[view_name] = ClientView(**view_arrays)
            readable = own_arrays.pop("readable")
            own_arrays.pop("series/holidays", None)
            if (window_keys := own_arrays.pop("series/windows", None)) is not None:
                windows = Windows.model_validate_json(str(window_keys))
                part_arrays = {name: own_arrays.pop(f"series/{name}") for name in PART_ARRAYS}
                interval, columns = own_arrays["interval"], own_arrays["columns"]
                own_arrays |= _compute_fields(windows, interval, columns, part_arrays, own_arrays)
            dataset = cls(**own_arrays, views=views)
            dataset.__dict__["is_readable"] = readable
            return dataset

        return arrays.load(path, make)


PART_ARRAYS = ("bounds", "offset", "scale")
"""The arrays of a `JoinedSeries` with an entry for each part."""


def window_length(dataset: Dataset) -> int:
    """Rows from the first input row of a window to its last target."""
    return dataset.look_back + dataset.look_ahead + dataset.horizons - 1


def source_table(dataset: Dataset) -> JoinedSeries | None:
    """What covariates and targets are computed from; None if others have taken their place."""
    table = dataset.series_table
    if table is None:
        return None
    pairs = (dataset.covariates, table.covariates), (dataset.targets, table.targets)
    return table if all(computed.has_same_rows(rows) for rows, computed in pairs) else None


def _compute_fields(
    windows: Windows,
    interval: int,
    columns: NDArray[np.str_],
    part_arrays: Mapping[str, Any],
    rows: Mapping[str, Any],
) -> dict[str, Any]:
    """The fields of a dataset whose covariates and targets are computed from its `ROW_FIELDS`,
    given the arrays of the `PART_ARRAYS` of these."""
    row_arrays = {name: rows[name] for name in ROW_FIELDS}
    table = JoinedSeries(windows, interval, columns.tolist(), **part_arrays, **row_arrays)
    return {"covariates": table.covariates, "targets": table.targets, "series_table": table}


def form_of(dataset: Dataset) -> tuple[object, ...]:
    """A key, equal for datasets that `join_datasets` accepts: only clients and rows differ."""
    counts = dataset.view.held_out_counts
    sizes = (len(x) for x in (dataset.scaling, counts, dataset.federation_numbers))
    distances = dataset.look_ahead, dataset.horizons, dataset.interval, dataset.relative
    columns, views = dataset.columns.tolist(), sorted(dataset.views)
    is_computed = source_table(dataset) is not None
    return (*columns, dataset.shape, *distances, *map(bool, sizes), *views, is_computed)


def join_datasets(datasets: Iterable[Dataset], folder: Path | None = None) -> Dataset:
    """The clients of several datasets, which are otherwise equal, as one dataset. Their rows are in
    unnamed temporary files in `folder`, or in memory."""
    names, scalings, federation_numbers, first_row = [], [], [], 0
    views: dict[ViewName, list[ClientView]] = {}
    rows = JoinedRows(folder)
    for client_dataset in datasets:
        rows.append(client_dataset)
        names.append(client_dataset.clients)
        scalings.append(client_dataset.scaling)
        federation_numbers.append(client_dataset.federation_numbers)
        for view_name, view in client_dataset.views.items():
            views.setdefault(view_name, []).append(view.move(first_row))
        first_row += len(client_dataset.load)
    return rows.as_dataset(
        client_dataset,
        clients=np.concatenate(names),
        scaling=np.concatenate(scalings),
        federation_numbers=np.concatenate(federation_numbers),
        views={name: _join_views(blocks) for name, blocks in views.items()},
    )


class JoinedRows:
    """The rows of several datasets, one after the other."""

    def __init__(self, folder: Path | None = None):
        """Begin; `folder`: that of temporary files, or None for memory."""
        self._folder = folder
        self._rows: dict[str, arrays.GrowingArray] = {}
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name in PART_ARRAYS}
        self._readable: list[NDArray[np.bool_]] = []
        self._count = 0

    def append(self, dataset: Dataset) -> None:
        """Append the rows of a dataset; PlflError if the disk is full."""
        table = source_table(dataset)
        stored_fields = ROW_FIELDS if table is not None else (*ROW_FIELDS, *COMPUTED_FIELDS)
        for name in stored_fields:
            self._rows.setdefault(name, arrays.GrowingArray(self._folder)).append(
                getattr(dataset, name)
            )
        if table is not None:
            for name, values in self._parts.items():
                part = getattr(table, name)
                values.append(part + self._count if name == "bounds" else part)
        self._readable.append(dataset.is_readable)
        self._count += len(dataset.load)

    def as_dataset(self, model: Dataset, **changes: Any) -> Dataset:
        """All rows, as those of a dataset that is otherwise like `model`, with `changes`."""
        rows: dict[str, Any] = {name: x.as_array() for name, x in self._rows.items()}
        if (table := source_table(model)) is not None:
            part_arrays = {name: np.concatenate(values) for name, values in self._parts.items()}
            settings = table.windows, model.interval, model.columns
            rows |= _compute_fields(*settings, part_arrays, rows)
        dataset = replace(model, **rows, **changes)
        dataset.__dict__["is_readable"] = np.concatenate(self._readable)
        return dataset


def _join_views(views: Sequence[ClientView]) -> ClientView:
    """The view of the clients of several views."""
    by_field = zip(*(vars(view).values() for view in views), strict=True)
    return ClientView(*map(np.concatenate, by_field))


def split_targets(dataset: Dataset) -> list[Dataset]:
    """For each target, the dataset with only this target."""
    return [dataset.select_target(h) for h in range(dataset.horizons)]


def held_out_rows(row_count: int, interval: int) -> int:
    """The rows, one every `interval` minutes, at the end of a history that are held out to choose
    on: a fifth, but at least a day.

    >>> held_out_rows(168, 60), held_out_rows(48, 60)
    (33, 24)
    """
    return max(row_count // 5, MINUTES_PER_DAY // interval)


def turns_of(clients: NDArray[np.int64], turns: int) -> list[NDArray[np.int64]]:
    """The clients in groups. Each group is late once, while the others train."""
    turn_count = min(turns, len(clients))
    return [clients[first::turn_count] for first in range(turn_count)]
