"""A convex combination of own forecasts and of those by models that are received."""

from typing import ClassVar

from plfl.baselines.combined import Combined
from plfl.interfaces.baseline import Crosses


class CombinedReceived(Combined):
    """`combined` with forecasts by received models among them, for which no raw data cross."""

    name: ClassVar[str] = "combined_received"
    label: ClassVar[str] = "Combination with received models"
    about: ClassVar[str] = (
        "The weighted mean of own forecasters and of models that other clients have trained. Each "
        "client chooses the weights on the last weeks of its history."
    )
    crosses: ClassVar[Crosses] = "models"
    fits_each_client: ClassVar[bool | None] = True
