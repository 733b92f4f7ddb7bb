"""A model of fev on a task of plfl: fev_tasks.py sample windows.parquet predictions.parquet"""

import sys
from pathlib import Path

import fev
import numpy as np
import pandas as pd

from plfl.outside.clients import datasets
from plfl.outside.frozen import open_task
from plfl.study import Study


class SeasonalNaive(fev.ForecastingModel):
    """Repeats the last season, as fev's models do: for every window of a task."""

    def _fit_predict(self, task: fev.Task) -> list[list[dict]]:
        pasts = (window.get_input_data()[0]["target"] for window in task.iter_windows())
        days = [[np.resize(y[-task.seasonality :], task.horizon) for y in past] for past in pasts]
        return [[{"predictions": day} for day in window] for window in days]


def as_fev_task(study: Study, path: Path) -> fev.Task:
    """The test windows of a study with one state and origin, whose clients have the same times."""
    (dataset,) = datasets(study).values()
    tables, made_at = [], []
    for i, client in enumerate(dataset.clients.tolist()):
        rows = slice(*dataset.view.bounds[i, [0, -1]].tolist())
        loads = {"timestamp": dataset.stamps[rows], "target": dataset.load[rows], "id": client}
        tables.append(pd.DataFrame(loads))
        made_at.append(dataset.stamps[dataset.persistence_rows(dataset.starts(i, "test"))])
    assert all(np.array_equal(times, made_at[0]) for times in made_at)
    pd.concat(tables).to_parquet(path, index=False)
    return fev.Task(
        dataset_path=str(path), horizon=study.windows.farthest, num_windows=len(made_at[0]),
        initial_cutoff=str(made_at[0][0]), window_step_size=f"{dataset.interval}min",
        seasonality=24 * 60 // dataset.interval, eval_metric="MAE",
    )  # fmt: skip


def as_predictions(study: Study, task: fev.Task, windows: list[list[dict]]) -> pd.DataFrame:
    """Forecasts of a model of fev as the rows of `plfl score`."""
    clients, targets = sorted(pd.read_parquet(task.dataset_path)["id"].unique()), []
    for made_at, forecasts in zip(pd.to_datetime(task.cutoffs), windows, strict=True):
        stamps = pd.date_range(made_at, periods=task.horizon + 1, freq=task.window_step_size)[1:]
        for client, forecast in zip(clients, forecasts, strict=True):
            rows = pd.DataFrame({"stamp": stamps, "forecast": forecast["predictions"]})
            targets.append(rows.assign(client=client, made_at=made_at)[-study.windows.horizons :])
    return pd.concat(targets)


if __name__ == "__main__":
    study = open_task(sys.argv[1])[0]
    task = as_fev_task(study, Path(sys.argv[2]))
    windows = SeasonalNaive().fit_predict(task)  # or any other model of fev
    print(f"MAE: {task.evaluation_summary(windows, 'seasonal_naive')['test_error']}")
    as_predictions(study, task, windows).to_parquet(sys.argv[3])
