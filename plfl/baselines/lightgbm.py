"""LightGBM on the study's own inputs, one model per client."""

from typing import ClassVar

from plfl.baselines.trees import OWN_INPUTS, Design, OwnTrees


class LightGBM(OwnTrees):
    """Forecasts the load from the loads of the look-back and the other features at the last input
    row."""

    name: ClassVar[str] = "lightgbm"
    label: ClassVar[str] = "LightGBM"
    about: ClassVar[str] = "Gradient-boosted trees on the study's own inputs, one model per client."
    design: ClassVar[Design] = OWN_INPUTS

    @property
    def reach(self) -> int:
        return 0
