"""What forecasts of the test set come to over the clients of a state: their sum, window by window,
and their errors by lead time, which `plfl.forecast.kept_errors` makes tables of.

They are added up where the forecasts are scored, so that none is computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plfl.base.minutes import MINUTES_PER_DAY, MINUTES_PER_WEEK
from plfl.baselines.naive import latest_loads
from plfl.data.arrays import arrays_under
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Floats

TOTALS_KEY = "totals"
"""Where they are among the arrays of a file."""
TOTAL_LOADS = ("truth", "last", "naive_day", "naive_week")
"""What is added up beside the forecasts: the load at the targets, that of the last reading, and
those a day and a week before the targets, or twice as long for targets that are farther, and so
on."""


@dataclass(frozen=True)
class ForecasterTotals:
    """The totals of one forecaster over clients."""

    loads: Floats
    """Sum (T, H) of its forecasts; NaN where one is missing."""
    percents: Floats
    """Sums (2, H) over clients of its error and of that of `naive_day` at each lead time, in
    percent of the client's load there."""
    counts: Floats
    """Number (H,) of clients in these sums: those with a load."""
    meters: int
    """Number of clients with a forecast."""


class Totals:
    """Sums over clients. A window of a client belongs to those of others that are made at the same
    time; forecasts for which not all of `TOTAL_LOADS` are known are left out."""

    def __init__(self, forecasters: Iterable[str], horizons: int):
        """Begin without a client."""
        self.made_at: NDArray[np.datetime64] = np.empty(0, "datetime64[s]")
        """Times (T,) of the last readings, ascending."""
        self.clients = np.zeros(0)
        """Number (T,) of the clients with a forecast made at each time."""
        self._sums = {name: np.zeros((0, horizons)) for name in [*TOTAL_LOADS, *forecasters]}
        self._errors = {name: np.zeros((4, horizons)) for name in forecasters}

    @property
    def loads(self) -> Mapping[str, Floats]:
        """The sums (T, H) of each of `TOTAL_LOADS`; NaN where one is missing."""
        return {name: self._sums[name] for name in TOTAL_LOADS}

    @property
    def forecasters(self) -> list[str]:
        """The names of the forecasters."""
        return [*self._errors]

    def totals_of(self, forecaster: str) -> ForecasterTotals:
        """The totals of a forecaster."""
        *percents, counts, meters = self._errors[forecaster]
        return ForecasterTotals(
            self._sums[forecaster], np.array(percents), counts, int(meters.max(initial=0))
        )

    def add(self, dataset: Dataset, client: int, forecasts: Mapping[str, Floats]) -> None:
        """Add the forecasts, in the shape of `Dataset.truth`, of all test windows of a client."""
        starts = dataset.starts(client, "test")
        shape = len(starts), dataset.horizons
        loads = {
            "truth": dataset.truth(starts),
            "last": dataset.persistence(starts),
            "naive_day": latest_loads(dataset, client, starts, MINUTES_PER_DAY),
            "naive_week": latest_loads(dataset, client, starts, MINUTES_PER_WEEK),
        }
        numbers = {name: x.reshape(shape) for name, x in {**loads, **forecasts}.items()}
        made_at = dataset.stamps[dataset.persistence_rows(starts)].astype("datetime64[s]")
        self._add_sums(made_at, np.ones(len(made_at)), numbers)
        for name in forecasts:
            self._errors[name] += _errors(numbers, numbers[name])

    def _add_sums(
        self, made_at: NDArray[np.datetime64], clients: Floats, numbers: Mapping[str, Floats]
    ) -> None:
        if not np.array_equal(made_at, self.made_at):
            times = np.union1d(self.made_at, made_at)
            row_numbers = np.searchsorted(times, self.made_at)
            self.clients = _spread(self.clients, row_numbers, len(times))
            self._sums = {
                name: _spread(x, row_numbers, len(times)) for name, x in self._sums.items()
            }
            self.made_at = times
        row_numbers = np.searchsorted(self.made_at, made_at)
        self.clients[row_numbers] += clients
        for name, sums in self._sums.items():
            sums[row_numbers] += numbers[name]

    @classmethod
    def join(cls, state_totals: Sequence[Totals]) -> Totals:
        """The totals of all clients of several."""
        total = cls(state_totals[0].forecasters, state_totals[0].loads["truth"].shape[1])
        for totals in state_totals:
            total._add_sums(totals.made_at, totals.clients, totals._sums)
            for name, errors in totals._errors.items():
                total._errors[name] += errors
        return total

    def arrays(self) -> Arrays:
        """As arrays of a file, whose names begin with `TOTALS_KEY`."""
        made_at = self.made_at.astype(np.int64).astype(float)
        stored_arrays: dict[str, NDArray[np.float64]] = {
            "made_at": made_at,
            "clients": self.clients,
        }
        stored_arrays |= {f"sums/{name}": sums for name, sums in self._sums.items()}
        stored_arrays |= {f"errors/{name}": errors for name, errors in self._errors.items()}
        return {f"{TOTALS_KEY}/{name}": array for name, array in stored_arrays.items()}

    @staticmethod
    def other_arrays(arrays: Arrays) -> Arrays:
        """All arrays of a file but those of `arrays`."""
        return {name: x for name, x in arrays.items() if not name.startswith(f"{TOTALS_KEY}/")}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Totals | None:
        """The inverse of `arrays`, given all arrays of a file; None if they are not among them."""
        stored_arrays = arrays_under(arrays, TOTALS_KEY)
        if not stored_arrays:
            return None
        errors = arrays_under(stored_arrays, "errors")
        totals = cls(errors, stored_arrays["sums/truth"].shape[1])
        totals.made_at = stored_arrays["made_at"].astype(np.int64).astype("datetime64[s]")
        totals.clients = stored_arrays["clients"]
        totals._sums, totals._errors = arrays_under(stored_arrays, "sums"), errors
        return totals


def _errors(numbers: Mapping[str, Floats], forecast: Floats) -> Floats:
    """The errors in percent of the load of a forecast (W, H) and of `naive_day`, whether there is
    such a load, and whether there is a forecast (4, H)."""
    truth, day = numbers["truth"], numbers["naive_day"]
    is_known = np.isfinite(forecast)
    for name in TOTAL_LOADS:
        is_known &= np.isfinite(numbers[name])
    size = np.where(is_known, np.abs(truth), 0.0).sum(axis=0)
    errors = [np.where(is_known, np.abs(x - truth), 0.0).sum(axis=0) for x in (forecast, day)]
    has_load = size > 0
    shares = [np.where(has_load, 100 * x / np.where(has_load, size, 1.0), 0.0) for x in errors]
    return np.array([*shares, has_load, np.full(len(size), is_known.any())], float)


def _spread(values: Floats, row_numbers: NDArray[np.int64], length: int) -> Floats:
    """Values at these rows of a longer array, 0 elsewhere."""
    spread = np.zeros((length, *values.shape[1:]))
    spread[row_numbers] = values
    return spread
