"""Names of forecasters within a variant, as claims and comparisons have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from plfl.config.baselines import BASELINE
from plfl.study.axes import Axis, parse_place
from plfl.study.combinations import Combination

FEDERATION, LOCAL, RAW = "best federation", "best alone", "best on raw data"
WHOLE_KINDS = (FEDERATION, LOCAL, RAW)
"""Names of all forecasters of a kind: clients exchange models, nothing, raw data."""
IN_USE, IN_USE_ALONE = "in use", "in use alone"
USE_NAMES = (IN_USE, IN_USE_ALONE)
"""Names of what `plfl forecast` uses for each client, and of what it would use if clients exchanged
nothing."""
ANY = "*"
"""Stands for all values of an axis."""
_GLOBAL = "-global"


@dataclass(frozen=True)
class ForecasterName:
    """A name that stands for forecasters: for all of a kind, for what is in use, for a baseline, or
    for cells.

    >>> ForecasterName.parse("P2-fedopt-global")
    ForecasterName(sharing='P2', method='fedopt', client_opt='*', server_opt='*', is_global=True)
    >>> str(ForecasterName.from_baseline("ridge"))
    'baseline-ridge'
    """

    sharing: str
    """The sharing scheme of cells, `baseline`, or one of `WHOLE_KINDS` or `USE_NAMES`."""
    method: str = ANY
    """The method of cells, or the name of the baseline."""
    client_opt: str = ANY
    server_opt: str = ANY
    is_global: bool = field(default=False, kw_only=True)
    """Whether the server's models are meant, and not those of the clients."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The name that a text is: `best federation`, `in use`, `baseline-ridge`, or
        `P2-fedopt-*-adam-global`, whose later parts may be left out."""
        if text in (*WHOLE_KINDS, *USE_NAMES):
            return cls(text)
        short = text.removesuffix(_GLOBAL)
        sharing, *parts = short.split("-", 1 if short.startswith(f"{BASELINE}-") else 3)
        name = cls(sharing, *parts)
        return replace(name, is_global=True) if short != text else name

    @classmethod
    def from_baseline(cls, baseline: str) -> Self:
        """The name of a baseline."""
        return cls(BASELINE, baseline)

    @property
    def is_baseline(self) -> bool:
        """Whether it names a baseline."""
        return self.sharing == BASELINE

    @property
    def is_whole_kind(self) -> bool:
        """Whether it names all forecasters of a kind."""
        return self.sharing in WHOLE_KINDS

    @property
    def is_in_use(self) -> bool:
        """Whether it names what is in use."""
        return self.sharing in USE_NAMES

    @property
    def algorithms(self) -> tuple[str, str, str]:
        """The method, the ClientOpt and the ServerOpt of cells."""
        return self.method, self.client_opt, self.server_opt

    @property
    def chosen_axes(self) -> dict[str, str]:
        """The values that it chooses, by axis of `Combination`."""
        values = zip(Combination._fields, (self.sharing, *self.algorithms), strict=True)
        return {axis: value for axis, value in values if value != ANY}

    @property
    def has_algorithms(self) -> bool:
        """Whether it chooses among the algorithms or the models of a scheme."""
        return self != type(self)(self.sharing)

    def __str__(self) -> str:
        parts = [self.sharing, *self.algorithms]
        while len(parts) > 1 and parts[-1] == ANY:
            parts.pop()
        return "-".join(parts) + (_GLOBAL if self.is_global else "")


def parse_name(text: str, axes: Sequence[Axis]) -> tuple[dict[str, str], ForecasterName]:
    """The place on the axes of a study and the name that a text such as `participation=0.1/P2` is.
    A place that is not on the axes raises a ValueError with the reason."""
    place, slash, name = text.rpartition("/")
    return parse_place(place, axes) if slash else {}, ForecasterName.parse(name)
