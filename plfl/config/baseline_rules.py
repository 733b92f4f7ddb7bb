"""What a configuration must know about a further baseline, and how it names one."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from plfl.config.messages import allowed
from plfl.config.named_block import chosen
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm

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


class BaselineRules(Algorithm):
    """The rules of a baseline. `plfl.baselines.further.Further` adds what is computed."""

    about: ClassVar[str]
    """What it forecasts, in one sentence."""
    crosses: ClassVar[Crosses] = "nothing"
    """What each client has to send."""

    @property
    def has_seen_the_data(self) -> bool:
        """Whether it was trained on these series, the test set included, before the study."""
        return False

    @model_serializer(mode="wrap")
    def _with_name(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        keys: dict[str, Any] = dump(self)
        return {"name": self.name} | keys


available = partial(registry.available, PACKAGE, BaselineRules)
"""All further baselines by name."""
find = partial(registry.find, PACKAGE, BaselineRules)
"""The further baseline with a name; a KeyError if there is none."""


def _chosen(raw: Any) -> Any:
    """The baseline that a block of a configuration names."""
    if isinstance(raw, BaselineRules):
        return raw
    if isinstance(raw, Mapping) and "name" not in raw:
        raise ValueError(f"it needs a `name`; {allowed('', available())}")
    return chosen(raw, what="baseline", default="", find=find, names=available)


ChosenBaseline = Annotated[SerializeAsAny[BaselineRules], BeforeValidator(_chosen)]
"""An item that names a further baseline: a block with its `name`."""
