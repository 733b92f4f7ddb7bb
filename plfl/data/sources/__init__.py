"""Sources of data, one file per source: where the clients' examples come from.

`plfl.interfaces.source` has their class, and this file what all sources of series of loads do.
`load_dataset` fetches, saves and reads in one call.

Sources import the code for reading and writing files only when they need it, because the workflow
lists files and clients each time it starts.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from plfl.base import DataFrame
from plfl.base.errors import ConfigError, DataError, Problem
from plfl.base.files import sha256
from plfl.base.minutes import MINUTES_PER_WEEK, MINUTES_PER_YEAR
from plfl.config.data import TESTED_WEEKS, Data
from plfl.config.windows import Windows
from plfl.data.dataset import ClientView, Dataset, held_out_rows
from plfl.data.examples import Examples, LazySeries
from plfl.data.features import assemble, resample
from plfl.data.windows import Limits, build
from plfl.interfaces.annotations import Study
from plfl.interfaces.source import Counts, Receipt
from plfl.interfaces.source import Source as Source


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of files, as a receipt lists them."""
    return {str(path): sha256(path) for path in paths}


def read_receipt(path: Path) -> Receipt:
    """The receipt that the `download` rule wrote at `path`; DataError if missing or damaged."""
    try:
        receipt: Receipt = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(digest, str) for digest in receipt["files"].values()):
            raise ValueError("a digest is not text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            Problem(
                path,
                f"is damaged ({error})",
                "write it again with `plfl study … --forcerun download`",
            )
        ) from None
    return receipt


def verify(receipt: Receipt) -> None:
    """Check that the files of a receipt are there and have not changed; DataError if one has."""
    for name, digest in receipt["files"].items():
        path = Path(name)
        try:
            if sha256(path) == digest:
                continue
            fault = "has changed"
        except FileNotFoundError:
            fault = "was deleted"
        except (OSError, ValueError) as error:
            fault = f"has become unreadable ({error})"
        raise DataError(
            Problem(
                path,
                f"{fault} since the data were fetched",
                "fetch them again with `plfl study … --forcerun download`",
            )
        )


class LoadSource(Source):
    """A source of series of loads: subclasses define `fetch` and `series`."""

    assumption = "a year of data per client"
    blocks_read: ClassVar[tuple[str, ...]] = ()
    """Blocks of keys of `data` that determine the series."""

    def settings(self, data: Data, state: str) -> dict[str, Any]:
        keys = {"source", "folder", "clients", "features", *self.blocks_read}
        if data.resample:
            keys.add("resample")
        ids = self.buildings(data, state)
        return data.model_dump(mode="json", include=keys) | {"buildings": ids}

    @abstractmethod
    def series(self, data: Data, state: str) -> Mapping[str, DataFrame]:
        """The series that `load` reads, before they are resampled and reduced to the features."""

    def load(self, data: Data, state: str) -> LazySeries:
        series = self.series(data, state)

        def table(name: str) -> DataFrame:
            readings = series[name]
            if data.resample:
                try:
                    readings = resample(readings, data.resample)
                except DataError as error:
                    raise error.locate_in(f"client {name}", name) from None
            return assemble(readings, data.features)

        return LazySeries(series, table)

    def save(self, study: Study, state: str, path: Path) -> None:
        build_dataset(study, self.load(study.data, state), folder=path.parent).save(path)

    def read(self, study: Study, path: Path) -> Examples:
        return Dataset.load_file(path)

    def examples_of(self, study: Study, state: str) -> Examples:
        self.fetch(study.data, state)
        return build_dataset(study, self.load(study.data, state))

    def counts(self, data: Data, windows: Windows) -> Counts:
        interval, share = data.interval, sum(windows.split[:2])
        row_count = MINUTES_PER_YEAR // interval
        if windows.has_validation and data.origin_date is None:
            train = int(windows.split[0] * MINUTES_PER_YEAR / interval)
            return Counts(train, row_count - train)
        tested_rows = TESTED_WEEKS * MINUTES_PER_WEEK // interval
        history = round(share * row_count) if data.origin_date is None else row_count - tested_rows
        test = row_count - history
        if windows.history is not None:
            history = min(history, windows.history * MINUTES_PER_WEEK // interval)
        held_count = held_out_rows(history, interval)
        return Counts(history - held_count, held_count + test)

    def noise(self, study: Study, client_count: int = 1) -> Examples:
        """A year of random numbers for each client, or ten windows if that is longer. ConfigError
        if a window is longer than a year."""
        windows, data = study.windows, study.data
        random, year = np.random.default_rng(0), MINUTES_PER_YEAR // data.interval
        window = windows.look_back + windows.farthest
        if window > year:
            problem = (
                f"windows: one window needs {window:,} rows, but a year of data has only {year:,}"
            )
            raise ConfigError(
                study.name, [Problem("", problem, "shorten it, for example windows.look_back")]
            )
        rows_each, columns = max(year, 10 * window), data.inputs
        row_count, test = client_count * rows_each, int(windows.split[0] * rows_each)
        bounds = rows_each * np.arange(client_count)[:, None] + np.array([0, test, test, rows_each])
        targets = row_count if windows.horizons == 1 else (row_count, windows.horizons)
        return Dataset(
            clients=np.array([f"noise {i}" for i in range(client_count)]),
            columns=np.array(columns),
            features=random.random((row_count, len(columns)), dtype=np.float32),
            covariates=random.random((row_count, windows.covariates_width), dtype=np.float32),
            targets=random.random(targets, dtype=np.float32),
            load=np.ones(row_count),
            stamps=np.arange(row_count).astype("datetime64[s]"),
            views={"usual": ClientView(bounds, np.zeros(client_count), np.ones(client_count))},
            relative=windows.is_relative,
            look_back=windows.look_back,
            look_ahead=windows.look_ahead,
            horizons=windows.horizons,
            interval=data.interval,
        )


def build_dataset(
    study: Study,
    client_series: Mapping[str, DataFrame],
    limits: Limits | None = None,
    folder: Path | None = None,
) -> Dataset:
    """The windows of a study's clients, given their tables; see `plfl.data.windows.build`."""
    return build(client_series, study.windows, limits, **build_arguments(study), folder=folder)


def build_arguments(study: Study) -> dict[str, Any]:
    """What decides, besides the series and `windows`, which rows the clients of a study know and
    with whom they train: arguments of `plfl.data.windows.build`."""
    return {
        "origin": study.data.origin_date,
        "new_weeks": max(study.plan.schemes.for_new.values(), default=None),
        "federation_size": study.data.federations,
    }


def source_of(data: Data) -> Source:
    """The source of a study's data."""
    return data.source_class()


def load_dataset(study: Study, state: str) -> Dataset:
    """Fetch, check, split and scale the series of one federation.

    Files that are already in `data.folder` are not downloaded again. Those of sample data are
    generated again, with the same content.

    Args:
        study: names the source, the clients, the inputs and the windows.
        state: the federation, one of `study.data.states`.

    Returns:
        The clients' series as scaled features, indexed by windows. Loads are in kWh per interval.

    Raises:
        ConfigError: the source has no loads.
        DataError: a file is missing, unreachable or damaged, or a series is too short or contains
            values that cannot be used; the message names the file and the remedy.
        PlflError: the disk is full or `data.folder` cannot be written.

    >>> import plfl
    >>> data = {"source": "sample", "states": ["NY"], "clients": 2}
    >>> study = plfl.Study.parse({"name": "mine", "data": data}, "my program")
    >>> plfl.load_dataset(study, "NY").clients.tolist()
    ['9360001', '9360002']
    """
    check_loads(study)
    return cast(Dataset, source_of(study.data).examples_of(study, state))


def check_loads(study: Study) -> None:
    """Refuse a study whose source has other examples than loads, with a ConfigError."""
    if (examples := study.data.source_class.examples) != "loads":
        problem = f"data.source: {study.data.source} has {examples}, but this needs loads"
        raise ConfigError(study.name, [Problem("", problem, "use a study of loads")])
