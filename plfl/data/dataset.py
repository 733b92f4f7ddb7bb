"""The windows of a federation: the clients' scaled series, and where their windows start.

A window is represented by its start row s: its inputs are the rows s … s+T−1, its target is the
load of row s+T−1+L (or of H rows from this one on), and its persistence forecast is the load of row
s+T−1. Windows are never copied; a year of one building at 15 minutes takes less than 2 MB, and 0.14
MB more for each column of covariates.

A series may have gaps: NaN in the load or another feature. A window that reads one, in its inputs,
its covariates or its target, is left out of every set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from plfl.data import arrays
from plfl.layout import WindowShape

Split = Literal["train", "validation", "test"]
WEEK = 7 * 24 * 60
"""Minutes in a week."""
YEAR = 365 * 24 * 60
"""Minutes in a year."""
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
EVALUATED = SPLITS[1:]
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
    """Mean absolute errors of naive forecasts of a client in kWh; see `naive_error`."""

    persistence: float
    """Of persistence, over all targets of the windows in a split."""
    by_target: NDArray[np.float64]
    """The same of each target (H,)."""
    seasonal: float
    """Of the load a day before, in the training set."""


_OF_CLIENTS = (
    *("clients", "bounds", "load_offset", "load_scale", "scaling", "held", "federation"),
    *("whole_bounds", "whole_offset", "whole_scale"),
    *("new_bounds", "new_offset", "new_scale", "new_held"),
)
"""Fields with an entry for each client."""
ROWS = ("features", "covariates", "targets", "load", "stamps")
"""Fields with an entry for each row."""
_BLOCK = 2**20
"""Rows that are searched for gaps at a time."""


def no_clients() -> NDArray[np.int64]:
    """An empty array, for fields that have no value for any client."""
    return np.empty(0, np.int64)


def _no_numbers() -> NDArray[np.float64]:
    return np.empty(0)


@dataclass(frozen=True)
class Dataset:
    """The series of a federation: the rows of all clients in one table, client by client."""

    clients: NDArray[np.str_]
    """Names of the N clients."""
    columns: NDArray[np.str_]
    """Names of the F features."""
    features: NDArray[np.float32]
    """Scaled features (R, F), the load first: the sequence of a window is `look_back` rows."""
    covariates: NDArray[np.float32]
    """Further inputs (R, G) of the window whose last input row this is, read once per window."""
    targets: NDArray[np.float32]
    """Target (R,), in scaled units, of the window whose last input row this is, or (R, H) if there
    are several; NaN where the client's series ends before the target."""
    load: NDArray[np.float64]
    """Load (R,) in kWh per interval."""
    stamps: NDArray[np.datetime64]
    """End of each row's interval (R,)."""
    bounds: NDArray[np.int64]
    """Rows (N, 4) at which a client's training, validation and test sets start, and its end. Rows
    before the training set are left out."""
    load_offset: NDArray[np.float64]
    """Load (N,) in kWh at which the scaled load is 0."""
    load_scale: NDArray[np.float64]
    """Load (N,) in kWh by which the scaled load grows by 1."""
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
    held: NDArray[np.int64] = field(default_factory=no_clients)
    """Number of rows (N,) at the end of each client's history that are held out to choose on: a
    window is for validation if its targets are there. Empty: there is a separate validation set."""
    federation: NDArray[np.int64] = field(default_factory=no_clients)
    """Number (N,) of the federation of each client; empty: all are in one federation."""
    whole_bounds: NDArray[np.int64] = field(default_factory=no_clients)
    """`bounds` of the same clients with their whole history before the test set, not only its
    latest weeks; empty if that is the same. These rows are a copy with another scale."""
    whole_offset: NDArray[np.float64] = field(default_factory=_no_numbers)
    """`load_offset` of these rows."""
    whole_scale: NDArray[np.float64] = field(default_factory=_no_numbers)
    """`load_scale` of these rows."""
    new_bounds: NDArray[np.int64] = field(default_factory=no_clients)
    """`bounds` of the same clients as if they were new, with few weeks before the test set;
    empty if no sharing scheme asks for it. These rows, too, are a copy with another scale."""
    new_offset: NDArray[np.float64] = field(default_factory=_no_numbers)
    """`load_offset` of these rows."""
    new_scale: NDArray[np.float64] = field(default_factory=_no_numbers)
    """`load_scale` of these rows."""
    new_held: NDArray[np.int64] = field(default_factory=no_clients)
    """`held` of these rows."""

    def of(self, clients: NDArray[np.int64]) -> Dataset:
        """A dataset of some of the clients; the rows of the others stay, unused."""
        of_clients = {n: rows[clients] for n in _OF_CLIENTS if len(rows := getattr(self, n))}
        return self._on_the_same_rows(**of_clients)

    def _on_the_same_rows(self, **changes: Any) -> Self:
        """A copy with other fields, but the same rows and the same cached `readable`."""
        dataset = replace(self, **changes)
        dataset.__dict__["readable"] = self.readable
        return dataset

    @property
    def is_rehearsal(self) -> bool:
        """Whether the end of the history is held out to choose on; `refit` trains on it, too."""
        return len(self.held) > 0 and bool((self.bounds[:, 1] < self.bounds[:, 2]).all())

    def refit(self) -> Dataset:
        """The same windows, where those that were held out are also for training."""
        if not self.is_rehearsal:
            return self
        bounds, whole_bounds = self.bounds.copy(), self.whole_bounds.copy()
        for edges in (bounds, whole_bounds):
            if len(edges):
                edges[:, 1] = edges[:, 2]
        return self._on_the_same_rows(bounds=bounds, whole_bounds=whole_bounds)

    @property
    def whole(self) -> Dataset:
        """The same clients with their whole history before the test set."""
        if not len(self.whole_bounds):
            return self
        return self._on_the_same_rows(
            bounds=self.whole_bounds, load_offset=self.whole_offset, load_scale=self.whole_scale
        )

    @property
    def new(self) -> Dataset:
        """The same clients as if they were new."""
        return self._on_the_same_rows(
            bounds=self.new_bounds,
            load_offset=self.new_offset,
            load_scale=self.new_scale,
            held=self.new_held,
        )

    @property
    def form(self) -> tuple[object, ...]:
        """A key, equal for datasets that `joined` accepts: only clients and rows differ."""
        copies = self.whole_bounds, self.new_bounds
        sizes = (len(x) for x in (self.scaling, self.held, self.federation, *copies))
        distances = self.look_ahead, self.horizons, self.interval, self.relative
        return (*self.columns, self.shape, *distances, *map(bool, sizes))

    def federations(self) -> list[NDArray[np.int64]]:
        """The clients of each federation."""
        if not len(self.federation):
            return [np.arange(len(self.clients))]
        return [np.flatnonzero(self.federation == k) for k in np.unique(self.federation)]

    def starts(self, client: int, split: Split) -> NDArray[np.int64]:
        """Start rows of all windows that lie entirely in one split of a client and touch no gap."""
        all_starts = self._all_starts(client, split)
        last = self.persistence_rows(all_starts)
        missing = np.isnan(self.targets[last])
        return all_starts[
            self.readable[last] & ~(missing if missing.ndim == 1 else missing.any(axis=1))
        ]

    def skipped(self, client: int, split: Split) -> int:
        """Number of windows in one split of a client that touch a gap."""
        return len(self._all_starts(client, split)) - len(self.starts(client, split))

    def first_week(self, client: int) -> NDArray[np.int64]:
        """Start rows of the windows in the week that begins with the first one of the test set.

        If windows have several targets, only windows whose targets follow each other are returned.
        They begin with the first window that forecasts at midnight, if there is one on the first
        day.
        """
        starts = self.starts(client, "test")
        if self.horizons > 1:
            starts = self._one_after_the_other(starts)
        return starts[: np.searchsorted(starts, starts[0] + WEEK // self.interval)]

    def _one_after_the_other(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        made_at = self.stamps[self.persistence_rows(starts)]
        midnight = np.flatnonzero(made_at == made_at.astype("datetime64[D]"))
        first = int(midnight[0]) if len(midnight) and midnight[0] * self.interval < WEEK // 7 else 0
        kept_starts = [first]
        for i, start in enumerate(starts):
            if start >= starts[kept_starts[-1]] + self.horizons:
                kept_starts.append(i)
        return starts[kept_starts]

    def _all_starts(self, client: int, split: Split) -> NDArray[np.int64]:
        if split == "validation" and len(self.held):
            end = int(self.bounds[client, 2])
            first = end - int(self.held[client]) - self.look_back - self.look_ahead + 1
            return np.arange(first, end - self.length + 1)
        first, end = self.bounds[client, SPLITS.index(split) :][:2]
        return np.arange(first, end - self.length + 1)

    @cached_property
    def readable(self) -> NDArray[np.bool_]:
        """Whether the window whose last input row this is (R,) reads no gap in its inputs. Rows
        with too few rows before them in the table count as gaps."""
        readable, reach = np.zeros(len(self.load), bool), self.look_back - 1
        for first in range(reach, len(readable), _BLOCK):
            block = slice(first - reach, first + _BLOCK)
            gaps = np.cumsum(np.isnan(self.features[block]).any(axis=1))
            has_no_gap = gaps[reach:] == np.concatenate([[0], gaps])[: len(gaps) - reach]
            readable[first : block.stop] = has_no_gap & ~np.isnan(
                self.covariates[first : block.stop]
            ).any(1)
        return readable

    def target_rows(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows (W,) of the targets of windows, or (W, H) if there are several."""
        first = starts + self.look_back - 1 + self.look_ahead
        return first if self.horizons == 1 else first[:, None] + np.arange(self.horizons)

    def persistence_rows(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Last input rows of windows; their load is the persistence forecast."""
        return starts + self.look_back - 1

    def truth(self, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Loads (W,) or (W, H) of the targets of windows."""
        return self.load[self.target_rows(starts)]

    def persistence(self, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The load of each window's last input row as a forecast, in the shape of `truth`."""
        last = self.load[self.persistence_rows(starts)]
        return last if self.horizons == 1 else np.repeat(last[:, None], self.horizons, axis=1)

    def naive_errors(self, client: int, split: Split) -> NaiveErrors:
        """Errors of naive forecasts of a client, by which scores of a split divide. They are
        computed once: models are scored after every round."""
        if (client, split) not in self._naive_errors:
            starts, (first, end) = self.starts(client, split), self.bounds[client, :2]
            truth, persistence = self.truth(starts), self.persistence(starts)
            pairs = zip(*(x.reshape(len(starts), -1).T for x in (truth, persistence)), strict=True)
            self._naive_errors[client, split] = NaiveErrors(
                naive_error(truth, persistence),
                np.array([naive_error(*pair) for pair in pairs]),
                seasonal_error(self.load[first:end], WEEK // 7 // self.interval),
            )
        return self._naive_errors[client, split]

    @cached_property
    def _naive_errors(self) -> dict[tuple[int, Split], NaiveErrors]:
        return {}

    def at(self, h: int) -> Dataset:
        """The same series with only the target `h`, from 0, of each window."""
        if self.horizons == 1:
            return self
        return self._on_the_same_rows(
            targets=self.targets[:, h], look_ahead=self.look_ahead + h, horizons=1
        )

    @property
    def length(self) -> int:
        """Rows from the first input row to the last target."""
        return self.look_back + self.look_ahead + self.horizons - 1

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
        level = last if self.relative else self.load_offset[client]
        return np.asarray(level + self.load_scale[client] * outputs, float)

    def of_seed(self, seed: int) -> Self:
        """The data as the federation of a seed holds them: the same for all."""
        return self

    def save(self, path: str | PathLike[str]) -> None:
        """Write the dataset as an .npz file of plain arrays."""
        arrays.save(path, {field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def load_file(cls, path: str | PathLike[str]) -> Dataset:
        """Read a file of `save`."""

        def make(arrays: dict[str, Any]) -> Dataset:
            for name in ("look_back", "look_ahead", "horizons", "interval"):
                arrays[name] = int(arrays[name])
            arrays["relative"] = bool(arrays["relative"])
            return cls(**arrays)

        return arrays.load(path, make)


def join_datasets(parts: Iterable[Dataset], folder: Path | None = None) -> Dataset:
    """The clients of several datasets, which are otherwise equal, as one dataset. Their rows are in
    unnamed temporary files in `folder`, or in memory."""
    rows = {name: arrays.Rows(folder) for name in ROWS}
    of_clients: dict[str, list[NDArray[Any]]] = {name: [] for name in _OF_CLIENTS}
    first_row = 0
    for part in parts:
        for name, part_rows in rows.items():
            part_rows.append(getattr(part, name))
        for name, blocks in of_clients.items():
            numbers = getattr(part, name)
            blocks.append(numbers + first_row if name.endswith("bounds") else numbers)
        first_row += len(part.load)
    fields: dict[str, Any] = {name: part_rows.as_array() for name, part_rows in rows.items()}
    fields |= {name: np.concatenate(blocks) for name, blocks in of_clients.items()}
    return replace(part, **fields)


def turns_of(clients: NDArray[np.int64], turns: int) -> list[NDArray[np.int64]]:
    """The clients in groups. Each group is late once, while the others train."""
    groups = min(turns, len(clients))
    return [clients[first::groups] for first in range(groups)]
