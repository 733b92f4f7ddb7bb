"""The baselines that a configuration names."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from plfl.config.messages import allowed, refusal
from plfl.config.named_block import Named, chosen
from plfl.plugins import registry

PACKAGE = "plfl.baselines.further"
"""The package of the further baselines, one file each. Only the files of named baselines are
imported."""
Crosses = Literal["nothing", "models", "raw data"]
"""What a client sends to others."""


@dataclass(frozen=True)
class Standard:
    """A baseline of every study."""

    name: str
    """The name in tables, which is also that of its function."""
    module: str
    """The module of `plfl.baselines` that has the function."""
    label: str
    """The name in figures and reports."""
    about: str
    """A sentence about what it forecasts."""
    crosses: Crosses = "nothing"
    """What each client has to send."""
    context: bool = False
    """Whether it needs a study with a context."""


STANDARD = {
    baseline.name: baseline
    for baseline in (
        Standard("persistence", "naive", "Persistence", "The load of the last input row."),
        Standard("naive_day", "naive", "Seasonal naive (day)", "The load a day before the target."),
        Standard(
            "naive_week", "naive", "Seasonal naive (week)", "The load a week before the target."
        ),
        Standard(
            "naive_mean",
            "naive",
            "Seasonal naive (mean of day and week)",
            "The mean of the loads a day and a week before the target.",
        ),
        Standard(
            "naive_weeks",
            "naive",
            "Seasonal naive (mean of 4 weeks)",
            "The mean of the loads one, two, three and four weeks before the target.",
        ),
        Standard(
            "linear",
            "linear",
            "Linear",
            "Least squares of the change from the last load on the look-back's loads, one per"
            " client.",
        ),
        Standard(
            "ridge",
            "linear",
            "Ridge",
            "Ridge regression on the look-back's loads, the target's calendar and the study's"
            " further inputs, one per client.",
        ),
        Standard(
            "ridge_lags",
            "linear",
            "Ridge, day and week lags",
            "Ridge regression that also sees the loads around one day, two days and a week "
            "before the target, one per client.",
        ),
        Standard(
            "lightgbm",
            "trees",
            "LightGBM",
            "Gradient-boosted trees on the study's own inputs, one model per client.",
        ),
        Standard(
            "lightgbm_lags",
            "trees",
            "LightGBM, day and week lags",
            "Gradient-boosted trees that also see the loads around one day, two days and a "
            "week before the target and the target's calendar, one model per client.",
        ),
        Standard(
            "lightgbm_context",
            "trees",
            "LightGBM, the study's context",
            "Gradient-boosted trees on the study's look-back and its context, one model per "
            "client.",
            context=True,
        ),
        Standard(
            "lightgbm_pooled",
            "trees",
            "LightGBM, pooled",
            "One model of gradient-boosted trees with day and week lags, trained on the raw "
            "data of all clients in one place.",
            crosses="raw data",
        ),
    )
}
"""The baselines of every study, by name, the simplest first. The error of persistence is the
denominator of MASE."""


def _can_be_left_out(name: str) -> str:
    known = [other for other in STANDARD if other != "persistence"]
    if name not in known:
        raise refusal(f"{name!r} is unknown; {allowed(name, known)}")
    return name


LeftOut = Annotated[
    str,
    AfterValidator(_can_be_left_out),
    Field(json_schema_extra={"enum": [name for name in STANDARD if name != "persistence"]}),
]
"""The name of a baseline of every study, other than persistence."""


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
