"""What the clients' series look like, and what a forecaster should worry about in them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from plfl.study import Windows

ENOUGH_WEEKS = 8
"""Shorter series get a warning: training, validation and test share them, in the order of time."""
OUTLIER = 20
"""A reading of more than this many medians is called an outlier."""
SMALL = 0.01
"""A client whose peak is below this share of the largest client's is called small."""


def describe(tables: Mapping[str, pd.DataFrame], interval: int, windows: Windows) -> pd.DataFrame:
    """One row a client, indexed by `client`.

    Args:
        tables: per client a regular series indexed by stamps, with `load` and other features.
        interval: minutes from one row to the next.
        windows: what the study forecasts, and which rows at the end are its test part.

    Returns:
        - `rows`, `first`, `last`, `weeks`; `features`: the columns there are;
        - `mean`, `std`, `min`, `max` of the load in kWh per interval; `zeros`: share of zeros;
          `load_factor`: mean / max;
        - `persistence_mae`: mean |y_t − y_(t − 1 h)|, the error of the forecast "as an hour ago";
          `persistence_ratio`: that / mean; `test_persistence_mae`: the persistence error of the
          study's test windows, the denominator of MASE;
        - `rises`: whether the load goes up and never down;
        - `flat_hours`: duration of the longest run of one value; `outliers`: number of readings
          above `OUTLIER` medians;
        - `gaps`, `filled`: gaps in the load and readings put there, `<NA>` if the source does
          not know.
    """
    rows = {client: _describe_one(table, interval, windows) for client, table in tables.items()}
    description = pd.DataFrame.from_dict(rows, orient="index").rename_axis("client")
    return description.astype({"gaps": "Int64", "filled": "Int64"})


def _describe_one(table: pd.DataFrame, interval: int, windows: Windows) -> dict[str, object]:
    load = table["load"]
    mean, peak, median = load.mean(), load.max(), load.median()
    hour = max(1, 60 // interval)
    persistence_mae = load.diff(hour).abs().mean()
    # The first window's last input row is where its persistence forecast comes from.
    test = load.iloc[round(sum(windows.split[:2]) * len(load)) + windows.look_back - 1 :]
    changes = (load != load.shift()).cumsum()
    return {
        "rows": len(load),
        "first": load.index[0],
        "last": load.index[-1],
        "weeks": len(load) * interval / (7 * 24 * 60),
        "features": ", ".join(table.columns),
        "mean": mean,
        "std": load.std(ddof=0),
        "min": load.min(),
        "max": peak,
        "zeros": (load == 0).mean(),
        "load_factor": mean / peak if peak > 0 else np.nan,
        "persistence_mae": persistence_mae,
        "persistence_ratio": persistence_mae / mean if mean > 0 else np.nan,
        "test_persistence_mae": test.diff(windows.look_ahead).abs().mean(),
        "rises": load.is_monotonic_increasing and load.iloc[0] < load.iloc[-1],
        "flat_hours": changes.value_counts().max() * interval / 60,
        "outliers": int((load > OUTLIER * median).sum()) if median > 0 else 0,
        "gaps": table.attrs.get("gaps"),
        "filled": table.attrs.get("filled"),
    }


def judge(description: pd.DataFrame, windows: Windows) -> list[str]:
    """Sentences, client by client, on what may spoil a study of the clients of `describe`.

    `windows` are those of `describe`. No sentence is an error: the study runs all the same.
    """
    # Scaled by itself a client may be of any size.
    largest = description["max"].max() if windows.scaling == "pooled" else -np.inf
    worries = [
        f"{client.Index}: {worry}"
        for client in description.itertuples()
        for worry in _worries(client, largest)
    ]
    return worries + _spans(description)


def _worries(client: Any, largest: float) -> Iterator[str]:
    if client.test_persistence_mae == 0:
        yield (
            "the load does not change in the test part from any window's last input to its target, "
            "so its persistence error is zero and MASE cannot be computed; leave this client out "
            "or choose another span"
        )
    if client.rises:
        yield (
            "the load never goes down, as the register of a meter; give what was used in each "
            "interval, the differences of its readings"
        )
    if client.weeks < ENOUGH_WEEKS:
        yield (
            f"only {client.weeks:.1f} weeks of data; with less than {ENOUGH_WEEKS} the test part "
            "is a few days, which say little about any others"
        )
    if client.flat_hours > 24:
        yield (
            f"the load keeps one value for {client.flat_hours:g} hours; check whether the meter "
            "stood still"
        )
    if client.outliers:
        yield (
            f"{client.outliers} readings are more than {OUTLIER} times the median, up to "
            f"{client.max:g} kWh; min-max scaling squeezes all others, check them"
        )
    if client.zeros > 0.5:
        yield f"{client.zeros:.0%} of the readings are zero; check that the meter was in use"
    if pd.notna(client.filled) and client.filled > 0.01 * client.rows:
        yield (
            f"{client.filled} of {client.rows} readings are filled by straight lines, which are "
            "easier to forecast than real ones"
        )
    if client.max < SMALL * largest:
        yield (
            f"its peak of {client.max:g} kWh is below {SMALL:.0%} of the largest client's "
            f"{largest:g}; pooled scaling will squeeze it, consider windows.scaling: per_client"
        )


def _spans(description: pd.DataFrame) -> list[str]:
    first, last = description["first"], description["last"]
    if first.min() == first.max() and last.min() == last.max():
        return []
    return [
        f"the clients cover different spans, which begin from {first.min()} to {first.max()} and "
        f"end from {last.min()} to {last.max()}; each is split by its own, so their test parts are "
        "of different dates"
    ]
