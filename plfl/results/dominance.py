"""Means over clients that few clients decide.

MASE has no upper end: of a meter whose load hardly changes, every forecast has an error of many
times that of persistence. One such meter among many then decides the mean. Means that it decides
are shown with the median over clients, which leads.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.text import list_names
from plfl.results.tables import Tables

FACTOR = 3
"""A mean above this multiple of the median over clients is decided by few of them."""
FEWEST_DOMINATED = 3
"""Fewest clients of which few can decide a mean."""


def is_decided_by_few(mean: Any, median: Any, clients: Any) -> Any:
    """Whether few of a number of clients decide a mean; also of columns."""
    return (clients >= FEWEST_DOMINATED) & (median > 0) & (mean > FACTOR * median)


def deciding_clients(mase: pd.Series) -> list[str]:
    """The clients that decide the mean of these MASE, by client, the largest first; empty if the
    mean is that of most clients."""
    mase = mase.dropna()
    if not is_decided_by_few(mase.mean(), mase.median(), len(mase)):
        return []
    return [str(name) for name in mase[mase > mase.mean()].sort_values(ascending=False).index]


def notes(tables: Tables) -> Iterator[str]:
    """In each state, which clients decide the means of how many forecasters, at the last round."""
    summary = tables.whole_summary
    summary = summary[summary["model"] != "global"]
    columns = ["mase_mean", "mase_median", "mase_clients"]
    summary = summary.assign(**{name: pd.to_numeric(summary[name]) for name in columns})
    is_decided = is_decided_by_few(*(summary[name] for name in columns))
    for state, rows in summary[is_decided].groupby("state", sort=False):
        mase = _scores(tables, str(state))
        names = deciding_clients(mase) or [str(mase.idxmax())]
        worst = rows.loc[rows["mase_mean"].idxmax()]
        verb = "decides" if len(names) == 1 else "decide"
        text = (
            f"{state}: {list_names(names, 3)} {verb} the mean MASE of "
            f"{len(rows)} of {(summary['state'] == state).sum()} forecasters, up to "
            f"{worst['mase_mean']:,.1f} where the median over clients is "
            f"{worst['mase_median']:.3f}. Medians say more here (`mase_median` in summary.csv)."
        )
        clients = tables.clients[tables.clients["state"] == state].set_index("client")
        share = (clients["persistence_mae_test"] / clients["mean"]).replace(0, np.nan)
        if share.get(names[0], np.nan) < share.median() / FACTOR:
            text += (
                f" MASE divides by the error of repeating the last reading, which is only "
                f"{100 * share[names[0]]:.2g}\N{NO-BREAK SPACE}% of the load of {names[0]}."
            )
        yield text


def _scores(tables: Tables, state: str) -> pd.Series:
    """The test MASE of each client, mean over all forecasters."""
    last: dict[str, Any] = {"split": "test", "round": tables.study.federation.rounds}
    cells = tables.records(["client", "mase"], **last, model="local", state=state)
    baselines = tables.baselines
    is_here = (baselines["state"] == state) & (baselines["split"] == "test")
    rows = pd.concat([cells, baselines.loc[is_here, ["client", "mase"]]])
    return rows.groupby("client")["mase"].mean()
