"""What a configuration must know about a further baseline, and how it names one."""

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, SerializeAsAny

from plfl.config.named_block import Named, chosen
from plfl.plugins import registry

PACKAGE = "plfl.baselines.further"
"""Holds the further baselines, one file each. Only the files of those that are named are
imported."""
Standard = Literal[
    "naive_day",
    "naive_week",
    "naive_mean",
    "naive_weeks",
    "linear",
    "ridge",
    "ridge_lags",
    "lightgbm",
    "lightgbm_lags",
    "lightgbm_context",
    "lightgbm_pooled",
]
"""The baselines of every study, beside persistence, by which MASE divides."""
Crosses = Literal["nothing", "models", "raw data"]
"""What a client sends to others."""


class BaselineRules(Named):
    """The rules of a baseline. `plfl.baselines.further.Further` adds what is computed."""

    about: ClassVar[str]
    """What it forecasts, in one sentence."""
    crosses: ClassVar[Crosses] = "nothing"
    """What each client has to send."""

    @property
    def has_seen_the_data(self) -> bool:
        """Whether it was trained on these series, the test set included, before the study."""
        return False


available = partial(registry.available, PACKAGE, BaselineRules)
"""All further baselines by name."""
find = partial(registry.find, PACKAGE, BaselineRules)
"""The further baseline with a name; a KeyError if there is none."""
_chosen = partial(chosen, what="baseline", default=None, find=find, names=available)
ChosenBaseline = Annotated[SerializeAsAny[BaselineRules], BeforeValidator(_chosen)]
"""An item that names a further baseline: a block with its `name`."""
