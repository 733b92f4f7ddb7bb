"""The mean of LightGBMs of one client that get forecasts of received models as inputs (stacking).

Source: Wolpert (1992), "Stacked Generalization", Neural Networks 5.
"""

from typing import ClassVar

from pydantic import Field

from plfl.baselines.lightgbm_bagged import LightgbmBagged
from plfl.interfaces.baseline import Crosses


class LightgbmStacked(LightgbmBagged):
    """`lightgbm_bagged` with received forecasts among its inputs. Before the test set, these are
    of the models that were trained without the end of the history."""

    name: ClassVar[str] = "lightgbm_stacked"
    label: ClassVar[str] = "LightGBM, stacked"
    about: ClassVar[str] = (
        "Gradient-boosted trees of each client, as bagged, to which forecasts by models that other "
        "clients have trained are inputs."
    )
    crosses: ClassVar[Crosses] = "models"
    needs_received: ClassVar[bool] = True

    of: list[str] = Field(min_length=1)
    """Baselines before it that others have trained."""

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.of))
