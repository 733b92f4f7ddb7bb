"""The load a day before the target."""

from typing import ClassVar

from plfl.baselines.naive import Naive


class NaiveDay(Naive):
    """The load a day before the target."""

    name: ClassVar[str] = "naive_day"
    label: ClassVar[str] = "Seasonal naive (day)"
    about: ClassVar[str] = "The load a day before the target."
    days: ClassVar[tuple[int, ...]] = (1,)
