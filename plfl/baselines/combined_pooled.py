"""A convex combination of own forecasts and of those by models of pooled raw data."""

from typing import ClassVar

from plfl.baselines.combined import Combined
from plfl.interfaces.baseline import Crosses


class CombinedPooled(Combined):
    """`combined` with any forecasts: what `combined_received` could have if raw data crossed."""

    name: ClassVar[str] = "combined_pooled"
    label: ClassVar[str] = "Combination with pooled models"
    about: ClassVar[str] = (
        "The weighted mean of own forecasters and of models of the raw data of other clients. Each "
        "client chooses the weights on the last weeks of its history."
    )
    crosses: ClassVar[Crosses] = "raw data"
    fits_each_client: ClassVar[bool | None] = True
