"""The baselines of the scarcity study: what a client could use instead of a federation."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from plfl.baselines import linear, trees
from plfl.baselines.model import Fit
from plfl.data.dataset import Dataset
from plfl.experiments.baselines import FITS
from plfl.results.scarcity import (
    LIGHTGBM,
    LIGHTGBM_POOLED,
    NAIVE,
    PERSISTENCE,
    RIDGE,
)
from plfl.tasks import metrics as scores

BOOSTING = trees.Boosting(trees=150, early_stopping=False)
"""LightGBM at every history. The networks take a fixed number of steps too: no model of this
study is stopped by the validation set, which a meter with a week of history does not have."""

_TRAINED: dict[str, Fit] = {
    LIGHTGBM: partial(trees.with_lags, boosting=BOOSTING),
    LIGHTGBM_POOLED: partial(trees.pooled, boosting=BOOSTING),
    RIDGE: linear.ridge_lags,
}


def trained(dataset: Dataset) -> pd.DataFrame:
    """Test MASE of the baselines that learn from the history of `dataset`, and from nothing else.

    `lightgbm` is the baseline `lightgbm_lags` with `BOOSTING`, `lightgbm_pooled` the same on
    the windows of all clients together; for both the validation set is never looked at.

    Returns:
        One row per forecaster and client: `forecaster`, `model` ("baseline"), `seed` (none),
        `client`, `mase`.
    """
    return _scored(dataset, _TRAINED)


def naive(dataset: Dataset) -> pd.DataFrame:
    """Test MASE of persistence and of the seasonal naive forecasts, as `trained` gives it."""
    return _scored(dataset, {name: FITS[name] for name in (PERSISTENCE, *NAIVE)})


def _scored(dataset: Dataset, fits: Mapping[str, Fit]) -> pd.DataFrame:
    rows = []
    for forecaster, fit in fits.items():
        predict = fit(dataset)
        for i, client in enumerate(dataset.clients.tolist()):
            forecast = predict(i, dataset.starts(i, "test"))
            mase = scores.of_split(dataset, i, "test", forecast)["mase"]
            rows.append({"forecaster": forecaster, "client": client, "mase": mase})
    return pd.DataFrame(rows).assign(model="baseline", seed=np.nan)
