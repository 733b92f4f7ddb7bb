"""The rows of summary.csv with the scores of what is in use: what `plfl forecast` takes for each
client (`plfl.results.assignment`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from plfl.results import words
from plfl.results.selection import contenders_in_use
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.tasks.metrics import worst_tenth

MEAN_SCORES = ("mase", "mae", "rmse", "nrmse", "wape", "seasonal_mase")
"""The scores that have a column with their mean over clients."""
NUMBER_COLUMNS = ("validation_mase", "bytes_down", "bytes_up")
"""Other columns of numbers."""


def summarise_use(variant: Variant) -> pd.DataFrame:
    """A row of each state for what is in use, and for what would be without a federation if that
    is different (`contenders_in_use`), in those columns of `plfl.results.collect.summarise` that
    apply. `sharing` and `model` are `in use` or `in use alone`; `method` has the short names of the
    forecasters."""
    return pd.DataFrame([*_rows(variant)])


def read_use(tables: Tables) -> pd.DataFrame:
    """These rows as they stand in summary.csv; none if the study was not collected."""
    table = tables.whole_summary
    rows = table[table["sharing"].isin(list(words.USE_WORDS))].reset_index(drop=True)
    numbers = [c for c in rows if str(c).endswith("_mean") or c in NUMBER_COLUMNS]
    return rows.assign(**rows[numbers].apply(pd.to_numeric, errors="coerce"))


def _rows(variant: Variant) -> Iterator[dict[str, Any]]:
    tables = variant.tables
    for state in tables.study.data.states:
        for use in contenders_in_use(variant, state):
            name = use.forecaster.combination.sharing
            assignments = variant.assignments[name, state]
            names = [assignments[client].forecaster for client in use.forecaster.clients]
            method = words.word_mixture(names, tables.study.client_word)
            scores = {score: use.by_client(score) for score in MEAN_SCORES}
            means = {f"{score}_mean": by_client.mean() for score, by_client in scores.items()}
            yield {
                **{"state": state, "sharing": name, "method": method},
                **{"client_opt": "none", "server_opt": "none", "model": name},
                **means,
                "mase_median": scores["mase"].median(),
                "mase_clients": scores["mase"].count(),
                "mase_worst_tenth": worst_tenth(np.asarray(scores["mase"], np.float64)),
                "validation_mase": use.validation,
                # Means over seeds, whose messages may differ in size.
                "bytes_up": round(use.bytes_up),
                "bytes_down": round(use.bytes_down),
                "diverged": False,
                "data": tables.study.data.source,
            }
