"""Describes the clients' series and warns of properties that may invalidate a study."""

from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import DataError, Problem, shared_lines
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.base.text import count_in_words
from plfl.config.windows import Windows
from plfl.data.dataset import NEGLIGIBLE, SPLITS, naive_error
from plfl.data.windows import build

ENOUGH_WEEKS = 8
"""Series with fewer weeks get a warning."""
OUTLIER = 10
"""A reading above this multiple of the 99 % quantile of those above zero is an outlier. Homes reach
many times their median every evening."""
FAR = 20
"""Values of an input are far from all others if the distance exceeds this multiple of their range.
"""
VARIED = 10
"""Different values that tell the range of an input; with fewer, none is far from them."""
MANY_SHARE = 0.1
"""A client that loses more than this fraction of its windows to gaps gets a warning."""
SMALL = 0.01
"""A client whose peak is below this fraction of the largest client's peak gets a warning."""


def describe(
    client_series: Mapping[str, pd.DataFrame],
    interval: int,
    windows: Windows,
    origin: date | None = None,
) -> pd.DataFrame:
    """One row per client, indexed by `client`, given regular series with `load` (kWh per interval)
    and other features, the minutes between their rows, and the origin, a date where the test set
    begins, if any.

    Returns:
        - `rows`, `first`, `last`, `weeks`; `features`: the names of the columns;
        - `kwh`: the sum of the load, which a bill can confirm; `mean`, `min`, `max` of it in kWh
          per interval; `zeros`: fraction of zeros;
        - `test_persistence_mae`: the persistence error of the study's test windows, which is the
          denominator of MASE, 0 if it is negligible, NaN without windows;
        - `flat_hours`: duration of the longest run of equal values; `outliers`: number of readings
          above `OUTLIER` times the 99 % quantile; `far_inputs`: the inputs with values that are far
          from all others, each with these in words;
        - `gaps`, `filled`, `missing`: number of gaps in the load, of readings filled there and of
          readings that stay missing; `<NA>` for sources without this information; `remarks`: what
          was changed, in words;
        - `windows`, `skipped`: number of windows that the study uses, and of those that touch a gap
          and are left out; `<NA>` if a set of the client has no window.
    """
    rows = {
        client: _describe_one(table, interval) | _windows(table, windows, origin)
        for client, table in client_series.items()
    }
    description = pd.DataFrame.from_dict(rows, orient="index").rename_axis("client")
    counts = ("gaps", "filled", "missing", "windows", "skipped")
    return description.astype(dict.fromkeys(counts, "Int64"))


def _describe_one(table: pd.DataFrame, interval: int) -> dict[str, object]:
    load = table["load"]
    kwh = load.to_numpy()
    usual = np.quantile(kwh[kwh > 0], 0.99) if (kwh > 0).any() else np.nan
    changes = np.flatnonzero(np.concatenate([[True], kwh[1:] != kwh[:-1], [True]]))
    return {
        "rows": len(load),
        "first": load.index[0],
        "last": load.index[-1],
        "weeks": len(load) * interval / MINUTES_PER_WEEK,
        "features": ", ".join(table.columns),
        "kwh": load.sum(),
        "mean": load.mean(),
        "min": load.min(),
        "max": load.max(),
        "zeros": (kwh == 0).mean(),
        "flat_hours": np.diff(changes).max() * interval / 60,
        "outliers": int((kwh > OUTLIER * usual).sum()),
        "far_inputs": [
            (str(name), values)
            for name in table
            if name != "load" and (values := _far_values(table[name]))
        ],
        "gaps": table.attrs.get("gaps"),
        "filled": table.attrs.get("filled"),
        "missing": table.attrs.get("missing"),
        "remarks": table.attrs.get("remarks", ""),
    }


def _far_values(column: pd.Series) -> str:
    """The values of an input that are far from most, in words; empty if there are none. A mark of
    missing values, such as -9999, is far from all measurements, even if it is frequent."""
    values = np.sort(column.dropna().to_numpy(dtype=float))
    steps = np.diff(values)
    if not len(steps) or not steps.any():
        return ""
    widest = int(steps.argmax()) + 1
    majority, minority = sorted((values[:widest], values[widest:]), key=len, reverse=True)
    span = majority[-1] - majority[0]
    if len(np.unique(majority)) < VARIED or steps[widest - 1] <= FAR * span:
        return ""
    return (
        f"{count_in_words(len(minority), 'value')} from {minority[0]:g} to "
        f"{minority[-1]:g}, far from all others, which are between {majority[0]:g} and "
        f"{majority[-1]:g}"
    )


def _windows(table: pd.DataFrame, windows: Windows, origin: date | None) -> dict[str, float | None]:
    """How many windows a client has, how many more touch a gap, and the error of persistence in
    those of the test set."""
    try:
        dataset = build({"client": table}, windows, origin=origin)
    except DataError:
        return {"windows": None, "skipped": None, "test_persistence_mae": np.nan}
    test = dataset.starts(0, "test")
    return {
        "windows": sum(len(dataset.starts(0, split)) for split in SPLITS),
        "skipped": sum(dataset.count_skipped(0, split) for split in SPLITS),
        "test_persistence_mae": naive_error(dataset.truth(test), dataset.persistence(test)),
    }


def list_warnings(
    description: pd.DataFrame,
    windows: Windows,
    origin: date | None = None,
    client_word: str = "client",
) -> list[str]:
    """Warnings about clients that may spoil a study, as sentences; see `describe`. `client_word`:
    the word for one in them."""
    # The size of a client does not matter if its load is scaled separately.
    pooled = windows.scaling == "pooled" and not windows.is_relative
    largest = description["max"].max() if pooled else -np.inf
    warnings = shared_lines(
        (
            warning
            for client in description.itertuples()
            for warning in _warnings_of(client, largest, windows, client_word)
        ),
        noun=client_word,
    )
    # From an origin on, all clients have the same test set.
    return warnings if origin is not None else warnings + _spans(description, client_word)


def _warnings_of(
    client: Any, largest: float, windows: Windows, client_word: str
) -> Iterator[Problem]:
    """What may spoil the study."""
    warn = partial(Problem, client.Index, meter=client.Index)
    if client.test_persistence_mae == 0:
        yield warn(
            "in the test set, the load hardly differs from that at the last input row, by less "
            f"than {100 * NEGLIGIBLE:g} % of it on average, so MASE is undefined and means over "
            f"{client_word}s leave this one out",
            "leave it out of the study, or choose another period",
        )
    if client.weeks < ENOUGH_WEEKS:
        yield warn(
            f"only {client.weeks:.1f} weeks of data",
            f"with fewer than {ENOUGH_WEEKS} weeks, the test set covers only a few days and its "
            "scores say little about other days",
        )
    if client.flat_hours > 24:
        yield warn(
            f"the load is constant for {client.flat_hours:g} hours",
            "check whether the meter was working",
        )
    if client.outliers:
        is_scaled = not windows.is_relative
        reason = ", because min-max scaling compresses all others" if is_scaled else ""
        yield warn(
            f"{count_in_words(client.outliers, 'reading')} above {OUTLIER} times almost all others,"
            f" up to {client.max:g} kWh",
            f"check them{reason}",
        )
    for name, far_input in client.far_inputs:
        yield warn(
            f"{name}: {far_input}",
            "check them, because min-max scaling compresses all others; a mark of missing values "
            f"belongs into {Key('data.meters.missing')}",
            kind=f"far values of {name}",
        )
    if client.zeros > 0.5:
        yield warn(
            f"{client.zeros:.0%} of the readings are zero",
            "check that the meter was in use",
        )
    if pd.notna(client.filled) and client.filled > 0.01 * client.rows:
        yield warn(
            f"{client.filled} of {client.rows} readings are filled with the reading before their "
            "gap",
            "constant readings are easier to forecast than a load",
        )
    if pd.notna(client.skipped) and client.skipped > MANY_SHARE * (client.skipped + client.windows):
        yield warn(
            f"{client.skipped} of {client.skipped + client.windows} windows touch a gap longer "
            f"than {Key('data.meters.max_gap')} and are left out",
            "its scores say little about such times",
        )
    if client.max < SMALL * largest:
        yield warn(
            f"its peak of {client.max:g} kWh is below {SMALL:.0%} of the largest {client_word}'s "
            f"{largest:g} kWh",
            f"pooled scaling compresses it, consider {Key('windows.scaling', 'per_client')}",
        )


def _spans(description: pd.DataFrame, client_word: str) -> list[str]:
    day = pd.Timedelta(days=1)
    spans = [
        f"{verb} between {description[column].min()} and {description[column].max()}"
        for verb, column in (("begin", "first"), ("end", "last"))
        if description[column].max() - description[column].min() >= day
    ]
    if not spans:
        return []
    return [
        f"the {client_word}s cover different periods, which {' and '.join(spans)}; each is split "
        "by its "
        "own period, so their test sets have different dates"
    ]
