"""Linear regressions of the change from the last load, one per client, in closed form."""

from collections.abc import Callable

import numpy as np

from plfl.baselines import features
from plfl.baselines.model import Floats, Rows, per_client
from plfl.baselines.targets import of_each
from plfl.data.dataset import WEEK, Dataset

PENALTY = 1.0
"""Value that ridge regression adds to the diagonal of A'A."""


@per_client
def linear(dataset: Dataset, client: int) -> Callable[[Rows], Floats]:
    """Ordinary least squares on the look-back's loads minus the last one. This is NLinear (Zeng et
    al. 2023, "Are Transformers Effective for Time Series Forecasting?") in closed form."""
    return restored("linear", coefficients("linear", dataset, client), dataset, client)


@of_each
@per_client
def ridge(dataset: Dataset, client: int) -> Callable[[Rows], Floats]:
    """Ridge regression on the look-back's loads, the target's calendar and the further inputs."""
    return restored("ridge", coefficients("ridge", dataset, client), dataset, client)


@of_each
@per_client
def ridge_lags(dataset: Dataset, client: int) -> Callable[[Rows], Floats]:
    """Ridge regression with additional day and week lags, on windows that start at least a week
    after the client's first row, for which all lags are known. If the history is too short, it is
    trained on all windows, without week lags: in training, the last load would replace them, but
    not in the test set."""
    return restored("ridge_lags", coefficients("ridge_lags", dataset, client), dataset, client)


def coefficients(name: str, dataset: Dataset, client: int) -> Floats:
    """The coefficients of a client's regression: of `linear` (T,), or (T, H) of several targets,
    the constant, and the weights of the loads; of a ridge regression of one target (2 K + 1,) the
    constant, and the means and weights of its columns."""
    starts = dataset.starts(client, "train")
    if name == "linear":
        # All targets of a window have the same design.
        changes = dataset.truth(starts) - dataset.persistence(starts)
        return np.asarray(np.linalg.lstsq(_changes(dataset, starts), changes, rcond=None)[0])
    columns = _inputs(dataset, starts)
    if name == "ridge_lags":
        late = starts >= dataset.bounds[client, 0] + WEEK // dataset.interval
        used = starts[late] if late.any() else starts
        columns = _lagged(dataset, client, used)
        if not late.any():
            columns = columns[:, : -len(features.AROUND)]
        starts = used
    change = features.truth(dataset, starts) - features.last(dataset, starts)
    return _ridge(columns, change)


def restored(
    name: str, fitted: Floats, dataset: Dataset, client: int = 0
) -> Callable[[Rows], Floats]:
    """Forecasts of windows of a client, given its `coefficients`."""
    if name == "linear":
        return lambda starts: dataset.persistence(starts) + _changes(dataset, starts) @ fitted
    means, weights = fitted[1:].reshape(2, -1)

    def predict(starts: Rows) -> Floats:
        inputs = _inputs(dataset, starts) if name == "ridge" else _lagged(dataset, client, starts)
        # The week lags come last, and may have been left out.
        moved = fitted[0] + (inputs[:, : len(weights)] - means) @ weights
        return np.asarray(features.last(dataset, starts) + moved, float)

    return predict


def _changes(dataset: Dataset, starts: Rows) -> Floats:
    """A constant, and the loads of the look-back minus the last one (W, T)."""
    loads = features.look_back(dataset, starts)
    return np.insert(loads[:, :-1] - loads[:, -1:], 0, 1.0, axis=1)


def _inputs(dataset: Dataset, starts: Rows) -> Floats:
    parts = [
        features.look_back(dataset, starts),
        features.target_time_of_day(dataset, starts, harmonics=1),
        features.target_weekday(dataset, starts),
        features.inputs(dataset, starts, features.further(dataset)),
    ]
    return np.concatenate(parts, axis=1)


def _lagged(dataset: Dataset, client: int, starts: Rows) -> Floats:
    lags = features.season_lags(dataset, client, starts)
    return np.concatenate([_inputs(dataset, starts), lags], axis=1)


def _ridge(columns: Floats, change: Floats) -> Floats:
    """The coefficients of a ridge regression of the changes (W,) on columns (W, K). Columns are
    standardised, so that the penalty affects them equally. Constant columns have zero weight."""
    varies = np.ptp(columns, axis=0) > 0
    means, deviation = columns.mean(axis=0), np.where(varies, columns.std(axis=0), 1.0)
    a = np.where(varies, (columns - means) / deviation, 0.0)
    gram = a.T @ a + PENALTY * np.eye(a.shape[1])
    weights = np.linalg.solve(gram, a.T @ (change - change.mean())) / deviation
    return np.concatenate([[change.mean()], means, weights])
