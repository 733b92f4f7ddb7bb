"""Ridge regression with additional day and week lags, one model per client."""

from typing import ClassVar

from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.baselines import features
from plfl.baselines.ridge import Ridge, inputs_of, solve
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Floats


class RidgeLags(Ridge):
    """`ridge` with day and week lags, on windows that start at least a week after the client's
    first row, for which all lags are known. If the history is too short, it is trained on all
    windows, without week lags: in training, the last load would replace them, but not in the test
    set."""

    name: ClassVar[str] = "ridge_lags"
    label: ClassVar[str] = "Ridge, day and week lags"
    about: ClassVar[str] = (
        "Ridge regression that also sees the loads around one day, two days and a week before the "
        "target, one per client."
    )
    has_lags: ClassVar[bool] = True

    @property
    def reach(self) -> int:
        return MINUTES_PER_WEEK

    def _solve(self, dataset: Dataset, client: int) -> Floats:
        starts = dataset.starts(client, "train")
        late = starts >= dataset.view.bounds[client, 0] + MINUTES_PER_WEEK // dataset.interval
        used_starts = starts[late] if late.any() else starts
        inputs = inputs_of(dataset, client, used_starts, has_lags=True)
        if not late.any():
            inputs = inputs[:, : -len(features.STEPS_AROUND)]
        return solve(dataset, used_starts, inputs)
