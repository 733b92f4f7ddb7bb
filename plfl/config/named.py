"""What the keys of a study can name, with the facts that a configuration needs about it: sources of
data, baselines and codecs; and blocks that select a class by their key `name`.

`plfl.config.rules` has models, tasks and methods.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic_core import InitErrorDetails

from plfl import plugins
from plfl.config.messages import allowed, refusal
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm, Kind, Section

FEATURES = {
    "load": "kWh per interval",  # in the interval that ends at the timestamp
    "time_index": "quarter-hours",  # of the day at the timestamp, 0 to 95
    "weekday": "days",  # Monday = 0
    "temperature": "°C",
    "wind_speed": "m/s",
    "floor_area": "ft²",
    "wall_area": "m²",
    "window_area": "m²",
}
"""The units of all features by name, in the paper's order."""


CALENDAR = ("time_index", "weekday")
"""The features that are derived from the timestamps, for every source."""


UNITS: dict[str, dict[str, tuple[float, float]]] = {
    "temperature": {"°C": (1, 0), "°F": (5 / 9, -160 / 9), "K": (1, -273.15)},
    "wind_speed": {
        "m/s": (1, 0),
        "km/h": (1 / 3.6, 0),
        "mph": (0.44704, 0),
        "kn": (1852 / 3600, 0),
    },
    "floor_area": {"ft²": (1, 0), "m²": (1 / 0.3048**2, 0)},
    "wall_area": {"m²": (1, 0), "ft²": (0.3048**2, 0)},
    "window_area": {"m²": (1, 0), "ft²": (0.3048**2, 0)},
}
"""Factor and summand that convert each unit that a column may have into that of its feature."""

PLAUSIBLE = {
    "temperature": (-90.0, 60.0),
    "wind_speed": (0.0, 115.0),
    "floor_area": (0.0, math.inf),
    "wall_area": (0.0, math.inf),
    "window_area": (0.0, math.inf),
}
"""The lowest and highest value of features, in their units. Those of the weather are the extremes
that have been measured on Earth, rounded outwards (World Meteorological Organization)."""


SOURCES = "plfl.data.sources"
BASELINES = "plfl.baselines.further"
CODECS = "plfl.federated.codecs"
"""The packages of the sources, of the further baselines and of the codecs, one file each. Only the
files of those that are named are imported."""


class Named(Algorithm):
    """A class that such a block selects."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that determines what it computes."""
        settings: dict[str, Any] = self.model_dump(mode="json")
        if plugin := plugins.of(type(self)):
            settings["plugin"] = plugin.digest
        return settings

    @model_serializer(mode="wrap")
    def _with_name(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        keys: dict[str, Any] = dump(self)
        return {"name": self.name} | keys


def chosen(
    block: object,
    *,
    what: str,
    default: str | None,
    find: Callable[[str], type[Kind]],
    names: Callable[[], Iterable[str]],
    beside: Iterable[str] = (),
) -> Kind:
    """The class that a block's `name`, or the default name, selects, with the block's other keys.
    An object of such a class is returned as it is.

    `what`: the kind in messages, such as `model`; `names` makes the names that a message suggests;
    `beside`: keys that can replace `name`. ValueError: it is not a block, or has no name and there
    is no default; errors of pydantic: the name or keys are unknown, or values are impossible.
    """
    if isinstance(block, Named):
        return cast(Kind, block)
    if not isinstance(block, Mapping):
        meant = next((name for name in names() if name == block), default)
        raise ValueError(f"it is a block of keys, such as `{what}: {{name: {meant}}}`")
    keys = dict(block)
    name = keys.pop("name", default)
    if name is None:
        raise ValueError(f"it needs a `name`; {allowed('', names())}")
    try:
        cls = find(name)
    except (KeyError, TypeError):
        raise refusal(f"{name!r} is unknown; {allowed(str(name), names())}", key="name") from None
    problems: list[InitErrorDetails] = []
    for key in [key for key in keys if key not in cls.model_fields]:
        known = allowed(str(key), ["name", *beside, *cls.model_fields])
        unknown = refusal(f"unknown key of the {what} {name}; {known}")
        problems.append({"type": unknown, "loc": (key,), "input": keys.pop(key)})
    try:
        kind = cls.model_validate(keys)
    except ValidationError as error:
        problems += [registry.repeated(problem) for problem in error.errors()]
    if problems:
        raise ValidationError.from_exception_data(what, problems)
    return kind


@dataclass(frozen=True)
class Origin:
    """The origin of data: what they are, where they come from, and under which licence."""

    label: str
    """A few words, as shown on the page and in MLflow."""
    text: str
    """A phrase that says whether they were measured, simulated or generated."""
    licence: str | None = None
    """The address of their licence; None if only their owner knows it."""


CC_BY = "https://spdx.org/licenses/CC-BY-4.0"


class SourceRules(Algorithm):
    """The rules of a source. `plfl.data.sources.Source` adds fetching and reading."""

    examples: ClassVar[str] = "loads"
    """The kind of its examples, in one word. A task names the kind that it needs alike."""
    origin: ClassVar[Origin]
    """The origin of the data."""
    blocks: ClassVar[Mapping[str, type[Section]]] = {}
    """Blocks of keys that a source of a plug-in adds to `data`, by name. Sources that share a block
    name the same class."""
    simulation_only: ClassVar[str | None] = None
    """Why deployed clients cannot have such data (`plfl.deploy`); None if they can."""


available_sources = partial(registry.available, SOURCES, SourceRules)
"""All sources by name."""
find_source = partial(registry.find, SOURCES, SourceRules)
"""The source with a name; a KeyError if there is none."""


def added_blocks() -> dict[str, type[Section]]:
    """The blocks of keys that the sources of plug-ins add to `data`, by name."""
    added = registry.plugged(SOURCES).values()
    sources = (cls for cls in added if issubclass(cls, SourceRules))
    return {name: block for cls in sources for name, block in cls.blocks.items()}


Crosses = Literal["nothing", "models", "raw data"]
"""What a client sends to others."""


LAGS = (1, 2, 7)
"""Days before the target around which the baselines with day and week lags read loads."""


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
    covariates: bool = False
    """Whether it needs a study with covariates."""
    days: tuple[int, ...] = ()
    """Days before its target of the loads that it reads besides those of the look-back."""

    @property
    def reach(self) -> int:
        """Minutes before its target of the earliest of these loads; 0: there are none."""
        return 24 * 60 * max(self.days, default=0)

    @property
    def trains(self) -> bool:
        """Whether a meter has to train it."""
        return self.module != "naive"

    @property
    def needs_a_week(self) -> bool:
        """Whether it needs no training, and no more than a week of readings."""
        return not self.trains and self.reach <= 7 * 24 * 60


STANDARD = {
    baseline.name: baseline
    for baseline in (
        Standard("persistence", "naive", "Persistence", "The load of the last input row."),
        Standard(
            "naive_day",
            "naive",
            "Seasonal naive (day)",
            "The load a day before the target.",
            days=(1,),
        ),
        Standard(
            "naive_week",
            "naive",
            "Seasonal naive (week)",
            "The load a week before the target.",
            days=(7,),
        ),
        Standard(
            "naive_mean",
            "naive",
            "Seasonal naive (mean of day and week)",
            "The mean of the loads a day and a week before the target.",
            days=(1, 7),
        ),
        Standard(
            "naive_weeks",
            "naive",
            "Seasonal naive (mean of 4 weeks)",
            "The mean of the loads one, two, three and four weeks before the target.",
            days=(7, 14, 21, 28),
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
            days=LAGS,
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
            days=LAGS,
        ),
        Standard(
            "lightgbm_covariates",
            "trees",
            "LightGBM, the study's covariates",
            "Gradient-boosted trees on the study's look-back and its covariates, one model per "
            "client.",
            covariates=True,
        ),
        Standard(
            "lightgbm_pooled",
            "trees",
            "LightGBM, pooled",
            "One model of gradient-boosted trees with day and week lags, trained on the raw "
            "data of all clients in one place.",
            crosses="raw data",
            days=LAGS,
        ),
    )
}
"""The baselines of every study, the simplest first. MASE divides by the error of persistence."""


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

    is_storable: ClassVar[bool] = False
    """Whether a study can keep it for later readings, if it can keep all that it `needs`."""
    trains: ClassVar[bool] = True
    """Whether a meter that did not take part has to train it."""
    reach: ClassVar[int] = 7 * 24 * 60
    """Minutes before its target of the earliest load that it reads, at most."""
    needs_received: ClassVar[bool] = False
    """Whether all that it `needs` must be received."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of other baselines, whose forecasts it uses."""
        return ()

    @property
    def is_received(self) -> bool:
        """Whether no reading of the client that it forecasts has trained it."""
        return False

    @property
    def has_seen_the_data(self) -> bool:
        """Whether its pre-training included these series, even the test set."""
        return False


available_baselines = partial(registry.available, BASELINES, BaselineRules)
"""All further baselines by name."""
find_baseline = partial(registry.find, BASELINES, BaselineRules)
"""The further baseline with a name; a KeyError if there is none."""
_further = partial(
    chosen, what="baseline", default=None, find=find_baseline, names=available_baselines
)
ChosenBaseline = Annotated[SerializeAsAny[BaselineRules], BeforeValidator(_further)]
"""An item that names a further baseline: a block with its `name`."""


Memory = Literal["ef14", "ef21", "delta"]
MEMORIES: dict[str, tuple[Memory, ...]] = {"up": ("ef14", "ef21"), "down": ("delta",)}
"""The memories that a direction can have."""
ENTROPY = "rc"
"""The stage that shortens the whole numbers of a codec without loss."""


class CodecRules(Algorithm):
    """The rules of a codec. `plfl.federated.codecs.Codec` adds its computations."""

    has_codes: ClassVar[bool] = False
    """Whether a message ends with whole numbers, which `rc` can shorten."""

    unbiased: ClassVar[bool] = False
    """Whether E C(v) = v without a memory, so that the mean of many clients is exact."""

    contraction: ClassVar[float | None] = None
    """α of E‖C(v) − v‖² ≤ (1 − α)‖v‖², for normal values. None if α is not positive: then no memory
    can be used."""


@dataclass(frozen=True)
class Chain:
    """The stages of one direction."""

    codec: CodecRules
    memory: Memory | None
    """The memory of earlier messages, at both ends or only the sender."""
    entropy: bool
    """Whether the codes are shortened."""


def chain_of(text: str, direction: str) -> Chain | None:
    """The stages that a string names, such as `ef21+q3+rc`; None for `none`; ValueError, with the
    reason, if they are not possible."""
    if text == "none":
        return None
    stages, memories = text.split("+"), MEMORIES[direction]
    memory = next((name for name in memories if name == stages[0]), None)
    if memory:
        del stages[0]
    if entropy := stages[-1:] == [ENTROPY]:
        del stages[-1]
    if len(stages) != 1:
        raise ValueError(
            f"its stages are {' or '.join(memories)} (if any), one codec, and {ENTROPY} (if any), "
            f"such as {memories[-1]}+q3+{ENTROPY}"
        )
    codec = _codec(stages[0])
    if entropy and not codec.has_codes:
        raise ValueError(f"{stages[0]} has no whole numbers that {ENTROPY} could shorten")
    if memory and codec.contraction is None:
        raise ValueError(f"{memory} needs a codec whose error is smaller than what it encodes")
    return Chain(codec, memory, entropy)


def _codec(stage: str) -> CodecRules:
    """The codec of a stage: its name, and the number that is its only hyperparameter, if any."""
    (named,) = re.findall(r"^(\D*)(.*)$", stage, re.DOTALL)
    for name, number in ((stage, ""), named):
        cls = registry.algorithm(CODECS, name)
        if cls is None or not issubclass(cls, CodecRules):
            continue
        value = int(number) if number.isdigit() else number
        keys = dict.fromkeys(list(cls.model_fields)[: bool(number)], value)
        try:
            return cls.model_validate(keys)
        except ValidationError as error:
            raise ValueError(f"{stage}: {error.errors()[0]['msg']}") from None
    known = registry.available(CODECS, CodecRules)
    raise ValueError(f"{stage!r} is no codec; {allowed(named[0], known)}")
