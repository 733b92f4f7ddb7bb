"""The mean of the loads one, two, three and four weeks before the target."""

from typing import ClassVar

from plfl.baselines.naive import Naive


class NaiveWeeks(Naive):
    """The mean of the loads one, two, three and four weeks before the target."""

    name: ClassVar[str] = "naive_weeks"
    label: ClassVar[str] = "Seasonal naive (mean of 4 weeks)"
    about: ClassVar[str] = "The mean of the loads one, two, three and four weeks before the target."
    days: ClassVar[tuple[int, ...]] = (7, 14, 21, 28)
