"""The load of the last input row. MASE divides by its error."""

from typing import ClassVar

from plfl.baselines.naive import Naive


class Persistence(Naive):
    """The load of the last input row."""

    name: ClassVar[str] = "persistence"
    label: ClassVar[str] = "Persistence"
    about: ClassVar[str] = "The load of the last input row."
