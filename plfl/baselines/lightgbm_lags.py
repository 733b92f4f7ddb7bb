"""LightGBM with day and week lags and the target's calendar, one model per client."""

from typing import ClassVar

from plfl.baselines.trees import OwnTrees


class LightgbmLags(OwnTrees):
    """Forecasts the change from the last load; it also sees day and week lags and the target's
    calendar."""

    name: ClassVar[str] = "lightgbm_lags"
    label: ClassVar[str] = "LightGBM, day and week lags"
    about: ClassVar[str] = (
        "Gradient-boosted trees that also see the loads around one day, two days and a week before "
        "the target and the target's calendar, one model per client."
    )
