"""The facts about a further baseline that a configuration needs, and how it names one."""

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, SerializeAsAny

from plfl.config.named_block import Named, chosen
from plfl.plugins import registry

PACKAGE = "plfl.baselines.further"
"""The package of the further baselines, one file each. Only the files of named baselines are
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
"""The baselines of every study, besides persistence, whose error is the denominator of MASE."""
Crosses = Literal["nothing", "models", "raw data"]
"""What a client sends to others."""


class BaselineRules(Named):
    """The rules of a baseline. `plfl.baselines.further.Further` adds what is computed."""

    about: ClassVar[str]
    """A sentence about what it forecasts."""
    crosses: ClassVar[Crosses] = "nothing"
    """What each client has to send."""

    @property
    def has_seen_the_data(self) -> bool:
        """Whether its pre-training included these series, even the test set."""
        return False


available = partial(registry.available, PACKAGE, BaselineRules)
"""All further baselines by name."""
find = partial(registry.find, PACKAGE, BaselineRules)
"""The further baseline with a name; a KeyError if there is none."""
_chosen = partial(chosen, what="baseline", default=None, find=find, names=available)
ChosenBaseline = Annotated[SerializeAsAny[BaselineRules], BeforeValidator(_chosen)]
"""An item that names a further baseline: a block with its `name`."""
