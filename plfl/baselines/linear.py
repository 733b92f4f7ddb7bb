"""Linear regressions of the change from the last load, one per client, in closed form."""

from collections.abc import Callable

import numpy as np

from plfl.baselines import features, naive
from plfl.baselines.model import Floats, Rows, per_client
from plfl.baselines.targets import of_each
from plfl.data.dataset import WEEK, Dataset

PENALTY = 1.0
"""Value that ridge regression adds to the diagonal of A'A."""


@per_client
def linear(dataset: Dataset, client: int) -> Callable[[Rows], Floats]:
    """Ordinary least squares on the look-back's loads minus the last one.

    This is NLinear (Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?")
    in closed form.
    """

    def design(starts: Rows) -> Floats:
        loads = features.look_back(dataset, starts)
        return np.insert(loads[:, :-1] - loads[:, -1:], 0, 1.0, axis=1)

    starts = dataset.starts(client, "train")
    # All targets of a window have the same design.
    changes = dataset.truth(starts) - dataset.persistence(starts)
    weights = np.linalg.lstsq(design(starts), changes, rcond=None)[0]
    return lambda starts: dataset.persistence(starts) + design(starts) @ weights


@of_each
@per_client
def ridge(dataset: Dataset, client: int) -> Callable[[Rows], Floats]:
    """Ridge regression on the look-back's loads, the target's calendar and the further inputs."""
    return _ridge(dataset, dataset.starts(client, "train"), lambda s: _inputs(dataset, s))


@of_each
@per_client
def ridge_lags(dataset: Dataset, client: int) -> Callable[[Rows], Floats]:
    """Ridge regression with additional day and week lags.

    It is trained on windows that start at least a week after the client's first row, for which all
    lags are known. If the history is too short for such windows, it is trained on all windows,
    without week lags: in training, the last load would replace them, but not in the test set.
    """
    starts = dataset.starts(client, "train")
    late = starts[starts >= dataset.bounds[client, 0] + WEEK // dataset.interval]
    seasons = features.SEASONS if len(late) else (naive.DAY, 2 * naive.DAY)

    def design(starts: Rows) -> Floats:
        lags = features.season_lags(dataset, client, starts, seasons)
        return np.concatenate([_inputs(dataset, starts), lags], axis=1)

    return _ridge(dataset, late if len(late) else starts, design)


def _inputs(dataset: Dataset, starts: Rows) -> Floats:
    parts = [
        features.look_back(dataset, starts),
        features.target_time_of_day(dataset, starts, harmonics=1),
        features.target_weekday(dataset, starts),
        features.inputs(dataset, starts, features.further(dataset)),
    ]
    return np.concatenate(parts, axis=1)


def _change(dataset: Dataset, starts: Rows) -> Floats:
    return features.truth(dataset, starts) - features.last(dataset, starts)


def _ridge(
    dataset: Dataset, starts: Rows, design: Callable[[Rows], Floats]
) -> Callable[[Rows], Floats]:
    """Ridge regression on a `design`, trained on windows that begin at `starts`.

    Columns are standardised, so that the penalty affects them equally. Constant columns have zero
    weight.
    """
    a, change = design(starts), _change(dataset, starts)
    varies = np.ptp(a, axis=0) > 0
    mean, deviation = a.mean(axis=0), np.where(varies, a.std(axis=0), 1.0)
    a = np.where(varies, (a - mean) / deviation, 0.0)
    gram = a.T @ a + PENALTY * np.eye(a.shape[1])
    weights = np.linalg.solve(gram, a.T @ (change - change.mean())) / deviation

    def predict(starts: Rows) -> Floats:
        moved = change.mean() + (design(starts) - mean) @ weights
        return np.asarray(features.last(dataset, starts) + moved, float)

    return predict
