"""A convex combination of own forecasts and of those by a model of public meters."""

from typing import ClassVar

from plfl.baselines.combined import Combined


class CombinedPublic(Combined):
    """`combined` with the forecasts of `public` among them, beside one without."""

    name: ClassVar[str] = "combined_public"
    label: ClassVar[str] = "Combination with the public model"
    about: ClassVar[str] = (
        "The weighted mean of own forecasters and of a model of public meters. Each client chooses "
        "the weights on the last weeks of its history."
    )
