"""One line each for a notebook: the loads of a frozen task or a study, the forecasts of a baseline,
and the scores of any forecasts, as tidy tables.

>>> from plfl import datasets
>>> "sample" in datasets.names()
True
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from plfl.base.errors import ConfigError, Problem
from plfl.base.shipped import root
from plfl.baselines import find
from plfl.baselines.fitting import fit
from plfl.baselines.storage import settings_of
from plfl.config.error_messages import list_allowed
from plfl.config.named import STANDARD_BASELINES
from plfl.data.dataset import SPLITS
from plfl.outside.clients import datasets, name_of
from plfl.outside.frozen import open_task
from plfl.outside.score import score as score_file
from plfl.tasks.loads import LoadTask

__all__ = ["forecast", "load", "names", "score"]


def names() -> list[str]:
    """The frozen tasks that come with plfl.

    >>> names()[0]
    'building-1-week'
    """
    return sorted(path.stem for path in (root() / "tasks").glob("*.yaml"))


def load(name: str | Path) -> pd.DataFrame:
    """The loads of a frozen task, of its name, or of the study in a file.

    Data are generated or read in the folder `data` of the working directory; `plfl data fetch NAME`
    downloads those of a task.

    Returns:
        A row per client and interval: `client`, `timestamp` (the end of the interval, local
        standard time), `load` (kWh in the interval; NaN in gaps) and `split` (`train`,
        `validation`, `test`), after `origin`, the first day of the test, if there are several.

    Raises:
        PlflError: there is no such task or study.
        DataError: the data are not there, or are wrong.

    >>> loads = load("sample")
    >>> loads.groupby("split")["client"].nunique().to_dict()
    {'test': 8, 'train': 8, 'validation': 8}
    >>> loads.dtypes["load"]
    dtype('float64')
    """
    study, _ = open_task(name)
    parts = []
    for (origin, state), dataset in datasets(study).items():
        for i, client in enumerate(dataset.clients.tolist()):
            edges = dataset.view.bounds[i].tolist()
            for split, first, end in zip(SPLITS, edges, edges[1:], strict=False):
                columns = {
                    "client": name_of(study, state, client),
                    "timestamp": dataset.stamps[first:end],
                    "load": dataset.load[first:end],
                    "split": split,
                }
                parts.append(pd.DataFrame({"origin": origin} | columns))
    table = pd.concat(parts, ignore_index=True)
    return table if study.plan.axes else table.drop(columns="origin")


def forecast(name: str | Path, baseline: str = "naive_day") -> pd.DataFrame:
    """Forecasts of a baseline for the test set of a task or study; see `load` for `name`.

    Returns:
        A row per client and target: `client`, `made_at` (the last interval that the forecast
        knows), `stamp` (the interval that is forecast), `truth` and `forecast` in kWh, of a task of
        quantiles also these, such as `forecast_5`, and `origin` if there are several. `score` reads
        it.

    Raises:
        ConfigError: the baseline is unknown.

    >>> forecast("sample")[["forecast", "truth"]].notna().all().tolist()
    [True, True]
    """
    study, _ = open_task(name)
    task = study.task
    assert isinstance(task, LoadTask)  # `datasets` refuses others
    if baseline not in STANDARD_BASELINES:
        raise ConfigError(
            "forecast",
            [Problem("", f"{baseline!r} is unknown", list_allowed(baseline, STANDARD_BASELINES))],
        )
    parts = []
    for (origin, state), dataset in datasets(study).items():
        fitted_baseline = fit(find(baseline)(), dataset, settings_of(study), {})
        for i, client in enumerate(dataset.clients.tolist()):
            starts = dataset.starts(i, "test")
            made_at = dataset.stamps[dataset.persistence_rows(starts)]
            columns = {
                "client": name_of(study, state, client),
                "made_at": made_at.repeat(dataset.horizons),
                "stamp": dataset.stamps[dataset.target_rows(starts)].ravel(),
                "truth": dataset.truth(starts).ravel(),
            }
            predictions = fitted_baseline.predict(i, starts)
            columns |= {
                column: values.ravel()
                for column, values in task.columns("forecast", predictions).items()
            }
            parts.append(pd.DataFrame({"origin": origin} | columns))
    table = pd.concat(parts, ignore_index=True)
    return table if study.plan.axes else table.drop(columns="origin")


def score(name: str | Path, predictions: pd.DataFrame) -> pd.DataFrame:
    """The scores of forecasts for the test set of a task or study; see `load` for `name`.

    Args:
        predictions: a row per client and target, with the columns of `forecast`; of quantiles, also
            theirs (docs/benchmark.md). `seed` tells several trainings apart.

    Returns:
        A row per client: `client`, `mase`, `wape` and, of quantiles, `scaled_crps`, as means over
        seeds; with `origin` and `state`.

    Raises:
        DataError: a client, a target or a number is missing or does not fit the task.

    >>> score("sample", forecast("sample", "persistence"))["mase"].round(6).unique().tolist()
    [1.0]
    """
    study, task = open_task(name)
    with TemporaryDirectory() as folder:
        predictions.to_parquet(file := Path(folder, "predictions.parquet"))
        metric = task.metric if task else "mase"
        return score_file(study, file, metric=metric, with_rivals=False).clients
