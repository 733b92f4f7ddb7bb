"""The clients of a study as arrays, for any framework.

They are what every cell and baseline of the study reads: the same windows, sets and scaling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import ConfigError, DataError, Problem
from plfl.base.files import atomic
from plfl.base.keys import Key
from plfl.base.text import list_names
from plfl.config.windows import Windows
from plfl.data import sources
from plfl.data.dataset import Dataset, Split
from plfl.data.examples import Examples
from plfl.data.windows import scalings
from plfl.outside.frozen import open_task
from plfl.results.comparisons import ORIGINS
from plfl.study import Study
from plfl.tasks.loads import LoadTask

SinglePrecision = NDArray[np.float32]
SHORT: dict[Split, str] = {"train": "train", "validation": "val", "test": "test"}
"""The names of the sets in those of arrays."""
CLIENTS_FILE = "clients.parquet"
Datasets = dict[tuple[str, str], Dataset]
"""Datasets by origin and state."""


@dataclass(frozen=True, eq=False)
class Client:
    """One client: W windows in each set, with T rows of F features, G numbers of covariates and H
    targets.

    `base + scale * y` is a load in kWh per interval, if y is a target or a model's output.
    """

    name: str
    """Its name; after that of its state and a slash if the study has several states."""
    origin: str
    """First day of its test set, if the study has several `data.origins`; otherwise empty."""
    features: tuple[str, ...]
    """Names of the F features of `X`, the load first."""
    covariates: tuple[str, ...]
    """Names of the G columns of `C`."""
    interval: int
    """Minutes between two rows of a window."""
    federation: int
    """Number of its federation, within its state."""
    levels: tuple[float, ...]
    """Levels of the quantiles that the study asks for; empty for point forecasts."""
    scale: float
    """Change of the load in kWh per interval by which `y` changes by 1."""
    offset: NDArray[np.float64]
    """Value (F,) of each feature, in its unit, that is 0 in `X`."""
    spread: NDArray[np.float64]
    """Difference (F,) of each feature that is 1 in `X`."""
    X_train: SinglePrecision
    """Scaled features (W, T, F), earliest row first. If `relative`, the load is relative to that of
    the last row."""
    y_train: SinglePrecision
    """Scaled targets (W,), or (W, H) if there are several."""
    X_val: SinglePrecision
    y_val: SinglePrecision
    X_test: SinglePrecision
    y_test: SinglePrecision
    C_train: SinglePrecision
    """Covariates (W, G): further inputs of a window, scaled."""
    C_val: SinglePrecision
    C_test: SinglePrecision
    base_train: NDArray[np.float64]
    """Load (W,) in kWh per interval at which `y` is 0."""
    base_val: NDArray[np.float64]
    base_test: NDArray[np.float64]
    made_at_test: NDArray[np.datetime64]
    """End (W,) of the last interval that a forecast knows."""
    stamp_test: NDArray[np.datetime64]
    """End (W,) or (W, H) of the interval of each target."""
    relative: bool
    """Whether `y` is a change from the last row, so that `base` differs between windows."""

    def flat(self, split: str) -> SinglePrecision:
        """All inputs (W, T * F + G) of a set (`train`, `val` or `test`): rows, then covariates."""
        rows, covariates = getattr(self, f"X_{split}"), getattr(self, f"C_{split}")
        return np.concatenate([rows.reshape(len(rows), -1), covariates], axis=1)

    def kwh(self, outputs: NDArray[Any], split: str = "test") -> NDArray[np.float64]:
        """Loads in kWh per interval, given outputs (W, ...) for the windows of a set."""
        outputs = np.asarray(outputs, float)
        base = getattr(self, f"base_{split}")
        return np.asarray(base.reshape(-1, *[1] * (outputs.ndim - 1)) + self.scale * outputs)

    def predictions(self, outputs: NDArray[Any], seed: int = 0) -> pd.DataFrame:
        """The rows of `plfl score` for the test set.

        Args:
            outputs: a model's outputs in the units of `y`: the shape of `y_test`, and one more axis
                of the study's quantiles if it has any. Axes of length 1 do not matter.
            seed: of the training.

        Raises:
            DataError: the outputs have another shape.
        """
        last = (len(self.levels),) if self.levels else ()
        outputs, expected_shape = np.asarray(outputs, float), (*self.y_test.shape, *last)
        if [n for n in outputs.shape if n != 1] != [n for n in expected_shape if n != 1]:
            raise DataError(
                Problem(
                    f"client {self.name}",
                    f"outputs have the shape {outputs.shape}, but the test set needs "
                    f"{expected_shape}",
                )
            )
        loads = self.kwh(outputs.reshape(expected_shape)).reshape(-1, *last)
        columns = {"forecast": loads}
        if last:
            loads = np.sort(loads, axis=-1)
            columns = {"forecast": loads[:, self.levels.index(0.5)]}
            columns |= {f"forecast_{100 * q:g}": loads[:, i] for i, q in enumerate(self.levels)}
        targets = self.stamp_test.size // max(1, len(self.stamp_test))
        keys = {
            "client": self.name,
            "seed": seed,
            "made_at": self.made_at_test.repeat(targets),
            "stamp": self.stamp_test.ravel(),
        }
        keys |= {"origin": self.origin} if self.origin else {}
        return pd.DataFrame(keys | columns)


def clients(study: Study | str | Path, has_all_rows: bool = False) -> list[Client]:
    """The clients of a study of loads, or of what `open_task` finds, in its order, at each of its
    origins; fetches or generates its data if needed.

    Clients of one origin train together: those of a later one have readings of its test set.

    If a study has `windows.history`, `data.origins` or 0 for validation in `windows.split`, its own
    forecasters choose on `val` and are then trained again on `train` and `val` together.

    Args:
        study: or its file, or the file or name of a frozen task.
        has_all_rows: with all readings before the test set, although `windows.history` is
            shorter. These are the arrays of the others, from whom a client with this short history
            learns.

    Raises:
        ConfigError: the study has axes besides `data.origins`, or is not about loads.
        DataError: see `plfl.load_dataset`.

    >>> import plfl
    >>> data = {"source": "sample", "states": ["NY"], "clients": 2}
    >>> study = plfl.Study.parse({"name": "mine", "data": data}, "my program")
    >>> [(client.name, client.X_test.shape[1:]) for client in plfl.clients(study)]
    [('9360001', (12, 8)), ('9360002', (12, 8))]
    """
    study = study if isinstance(study, Study) else open_task(study)[0]
    if has_all_rows:
        windows = study.windows.model_copy(update={"history": None})
        study = study.model_copy(update={"windows": windows})
    return [
        client
        for state_dataset in datasets(study).items()
        for client in _read_state(study, *state_dataset)
    ]


def datasets(study: Study) -> Datasets:
    """The datasets of a study of loads, by origin (empty if there is only one) and state.

    Raises:
        ConfigError: the study has axes besides `data.origins`, or is not about loads.
    """
    if any(axis.key != ORIGINS for axis in study.plan.axes):
        labels = list_names(list(study.variants), 3)
        problem = f"grid: the study has variants with data of their own; name one: {labels}"
        raise ConfigError(study.name, [problem])
    if not isinstance(study.task, LoadTask):
        raise ConfigError(
            study.name, [Problem(Key("task"), "only forecasts of loads have these arrays")]
        )
    return cast(Datasets, examples(study))


def examples(study: Study) -> Mapping[tuple[str, str], Examples]:
    """The examples of a study with no axes but `data.origins`, by origin and state."""
    return {
        (str(variant.data.origin_date) if study.plan.axes else "", state): sources.source_of(
            variant.data
        ).examples_of(variant, state)
        for variant in study.variants.values()
        for state in study.data.states
    }


def name_of(study: Study, state: str, client: str) -> str:
    """The name of a client outside of its state."""
    return client if len(study.data.states) == 1 else f"{state}/{client}"


def _read_state(study: Study, origin_and_state: tuple[str, str], dataset: Dataset) -> list[Client]:
    origin, state = origin_and_state
    task, scales = study.task, scalings(dataset)
    clients = []
    for i, client in enumerate(dataset.clients.tolist()):
        arrays: dict[str, Any] = {}
        for split, short in SHORT.items():
            starts = dataset.starts(i, split)
            last = dataset.persistence_rows(starts)
            rows = dataset.features[starts[:, None] + np.arange(dataset.look_back)]
            if dataset.relative:
                rows[..., 0] -= rows[:, -1:, 0].copy()
            arrays |= {f"X_{short}": rows, f"y_{short}": dataset.targets[last]}
            arrays |= {f"C_{short}": dataset.covariates[last]}
            arrays[f"base_{short}"] = dataset.in_kwh(i, starts, np.zeros(len(starts)))
        test, numbers = dataset.starts(i, "test"), dataset.federation_numbers
        client_data = Client(
            name=name_of(study, state, client),
            origin=origin,
            features=tuple(dataset.columns.tolist()),
            covariates=covariate_names(study.windows),
            interval=dataset.interval,
            federation=int(numbers[i]) if len(numbers) else 0,
            levels=task.quantile_levels,
            scale=float(dataset.view.scale[i]),
            offset=scales[client].offset,
            spread=scales[client].scale,
            made_at_test=dataset.stamps[dataset.persistence_rows(test)],
            stamp_test=dataset.stamps[dataset.target_rows(test)],
            relative=dataset.relative,
            **arrays,
        )
        clients.append(client_data)
    return clients


def covariate_names(windows: Windows) -> tuple[str, ...]:
    """Names of the columns of the covariates, such as `calendar_3`."""
    return tuple(
        f"{transform.name}_{column}"
        for transform in windows.covariates
        for column in range(transform.width(windows.horizons))
    )


def export(study: Study, folder: Path) -> list[Path]:
    """Write `NAME.npz` for each client, below a folder for each of several origins, and all windows
    of all clients as `clients.parquet`.

    The arrays of a file have the names of the fields of `Client`. The table has a row per window:
    `client` (the column to partition by), `origin`, `federation`, `split` (`train`, `val`,
    `test`), `x` (`Client.flat`), `y`, `base` and `scale`.
    """
    paths: list[Path] = []
    tables: list[pd.DataFrame] = []
    for client in clients(study):
        paths.append(folder / client.origin / f"{client.name}.npz")
        with atomic(paths[-1]) as temporary:
            np.savez(temporary, **{f.name: getattr(client, f.name) for f in fields(client)})
        tables.extend(_windows(client, split) for split in SHORT.values())
    paths.append(folder / CLIENTS_FILE)
    with atomic(paths[-1]) as temporary:
        pd.concat(tables).to_parquet(temporary, index=False, compression="zstd")
    return paths


def _windows(client: Client, split: str) -> pd.DataFrame:
    columns: dict[str, Any] = {"client": client.name, "origin": client.origin}
    columns |= {"federation": client.federation, "split": split, "x": list(client.flat(split))}
    columns["y"] = list(getattr(client, f"y_{split}"))
    columns |= {"base": getattr(client, f"base_{split}"), "scale": client.scale}
    return pd.DataFrame(columns)
