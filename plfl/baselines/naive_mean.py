"""The mean of the loads a day and a week before the target."""

from typing import ClassVar

from plfl.baselines.naive import Naive


class NaiveMean(Naive):
    """The mean of the loads a day and a week before the target."""

    name: ClassVar[str] = "naive_mean"
    label: ClassVar[str] = "Seasonal naive (mean of day and week)"
    about: ClassVar[str] = "The mean of the loads a day and a week before the target."
    days: ClassVar[tuple[int, ...]] = (1, 7)
