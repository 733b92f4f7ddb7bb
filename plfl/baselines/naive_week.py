"""The load a week before the target."""

from typing import ClassVar

from plfl.baselines.naive import Naive


class NaiveWeek(Naive):
    """The load a week before the target."""

    name: ClassVar[str] = "naive_week"
    label: ClassVar[str] = "Seasonal naive (week)"
    about: ClassVar[str] = "The load a week before the target."
    days: ClassVar[tuple[int, ...]] = (7,)
