"""Tables of errors by day of which the MASE is known."""

from pathlib import Path

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE
from plfl.results.records import CELL, write_table


def by_day(
    scores: pd.DataFrame, rng: np.random.Generator, days: int = 28, noise: float = 0.05
) -> pd.DataFrame:
    """Errors by day whose sums give the `mase` of each row; one without a MASE has no scale.

    Args:
        scores: labels of a row, its `client`, and `mase`.
        rng: source of chance.
        days: days of the test set.
        noise: standard deviation of what a day adds to the MASE, over its mean.
    """
    mase = scores["mase"].to_numpy(float)
    # One training under several names has the same errors.
    different, which = np.unique(mase, return_inverse=True)
    parts = rng.normal(1, noise, (len(different), days))[which]
    parts /= parts.mean(axis=1, keepdims=True)
    table = scores.loc[scores.index.repeat(days)].reset_index(drop=True)
    scale = np.where(np.isnan(mase), 0, 1)
    return table.drop(columns="mase").assign(
        day=np.tile(pd.date_range("2018-12-01", periods=days), len(scores)),
        error=np.float32((np.nan_to_num(mase)[:, None] * parts).ravel()),
        forecasts=np.int32(1),
        scale=np.float32(scale.repeat(days)),
    )


def write(folder: Path, records: pd.DataFrame, baselines: pd.DataFrame, last: int) -> None:
    """Write `errors.parquet` for the test scores of round `last` and of baselines."""
    rng = np.random.default_rng(11)
    rows = records[(records["split"] == "test") & (records["round"] == last)]
    cells = rows[[*CELL, "model", "client", "mase"]].reset_index(drop=True)
    test = baselines[baselines["split"] == "test"].rename(columns={"baseline": "method"})
    labels = {"sharing": BASELINE, "client_opt": "none", "server_opt": "none", "model": BASELINE}
    others = test[["state", "method", "client", "mase"]].assign(**labels).reset_index(drop=True)
    tables = [by_day(cells, rng), by_day(others, rng)]
    write_table(pd.concat(tables, ignore_index=True), folder / "errors.parquet")
