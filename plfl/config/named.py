"""What the keys of a study can name, with the facts that a configuration needs about it: sources of
data, baselines, models, tasks and codecs; and blocks that select a class by their key `name`.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny, ValidationError
from pydantic_core import InitErrorDetails

from plfl.config.error_messages import list_allowed, refusal
from plfl.interfaces.baseline import Baseline
from plfl.interfaces.codec import Codec
from plfl.interfaces.model import DEFAULT, OWN_MODULE, Model
from plfl.interfaces.named import Selectable
from plfl.interfaces.source import Source
from plfl.interfaces.task import Task
from plfl.plugins import registry
from plfl.plugins.registry import Kind, Section

FEATURE_UNITS = {
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


MeterKind = Literal["homes", "buildings"]
"""The kinds of meters for which there are public models."""


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


SOURCES_PACKAGE = "plfl.data.sources"
BASELINES_PACKAGE = "plfl.baselines"
MODELS_PACKAGE = "plfl.models"
TASKS_PACKAGE = "plfl.tasks"
CODECS_PACKAGE = "plfl.federated.codecs"
"""The packages of the sources, baselines, models, tasks and codecs, one file each. Only the files
of those that are named are imported."""


def make_chosen(
    block: object,
    *,
    kind_name: str,
    default: str | None,
    find: Callable[[str], type[Kind]],
    names: Callable[[], Iterable[str]],
    other_keys: Iterable[str] = (),
) -> Kind:
    """An object of the class that a block's `name`, or the default name, selects, with the block's
    other keys. An object of such a class is returned as it is.

    `kind_name`: the kind in messages, such as `model`; `names` makes the names that a message
    suggests; `other_keys`: keys that can replace `name`. ValueError: it is not a block, or has no
    name and there is no default; errors of pydantic: the name or keys are unknown, or values are
    impossible.
    """
    if isinstance(block, Selectable):
        return cast(Kind, block)
    if not isinstance(block, Mapping):
        suggestion = next((name for name in names() if name == block), default)
        raise ValueError(f"it is a block of keys, such as `{kind_name}: {{name: {suggestion}}}`")
    keys = dict(block)
    name = keys.pop("name", default)
    if name is None:
        raise ValueError(f"it needs a `name`; {list_allowed('', names())}")
    try:
        cls = find(name)
    except (KeyError, TypeError):
        raise refusal(
            f"{name!r} is unknown; {list_allowed(str(name), names())}", key="name"
        ) from None
    problems: list[InitErrorDetails] = []
    for key in [key for key in keys if key not in cls.model_fields]:
        keys_allowed = list_allowed(str(key), ["name", *other_keys, *cls.model_fields])
        unknown = refusal(f"unknown key of the {kind_name} {name}; {keys_allowed}")
        problems.append({"type": unknown, "loc": (key,), "input": keys.pop(key)})
    try:
        chosen = cls.model_validate(keys)
    except ValidationError as error:
        problems += [registry.make_init_error(problem) for problem in error.errors()]
    if problems:
        raise ValidationError.from_exception_data(kind_name, problems)
    return chosen


available_sources = partial(registry.available, SOURCES_PACKAGE, Source)
"""All sources by name."""
find_source = partial(registry.find, SOURCES_PACKAGE, Source)
"""The source with a name; a KeyError if there is none."""


def added_blocks() -> dict[str, type[Section]]:
    """The blocks of keys that the sources of plug-ins add to `data`, by name."""
    plugged_sources = registry.plugged_algorithms(SOURCES_PACKAGE).values()
    sources = (cls for cls in plugged_sources if issubclass(cls, Source))
    return {name: block for cls in sources for name, block in cls.blocks.items()}


STANDARD_BASELINES = (
    *("persistence", "naive_day", "naive_week", "naive_mean", "naive_weeks"),
    *("linear", "ridge", "ridge_lags"),
    *("lightgbm", "lightgbm_lags", "lightgbm_covariates", "lightgbm_pooled"),
)
"""The baselines of every study, the simplest first."""


def _can_be_left_out(name: str) -> str:
    names = [
        standard_name for standard_name in STANDARD_BASELINES if standard_name != "persistence"
    ]
    if name not in names:
        raise refusal(f"{name!r} is unknown; {list_allowed(name, names)}")
    return name


LeftOut = Annotated[
    str,
    AfterValidator(_can_be_left_out),
    Field(
        json_schema_extra={"enum": [name for name in STANDARD_BASELINES if name != "persistence"]}
    ),
]
"""The name of a baseline of every study, other than persistence."""


find_baseline = partial(registry.find, BASELINES_PACKAGE, Baseline)
"""The baseline with a name; a KeyError if there is none."""


def available_baselines() -> dict[str, type[Baseline]]:
    """The baselines that a study can list, by name: all that not every study has."""
    classes = registry.available(BASELINES_PACKAGE, Baseline)
    return {name: cls for name, cls in classes.items() if name not in STANDARD_BASELINES}


def _find_further(name: str) -> type[Baseline]:
    if name in STANDARD_BASELINES:
        raise KeyError(name)
    return find_baseline(name)


_choose_baseline = partial(
    make_chosen, kind_name="baseline", default=None, find=_find_further, names=available_baselines
)
ChosenBaseline = Annotated[SerializeAsAny[Baseline], BeforeValidator(_choose_baseline)]
"""An item that names a further baseline: a block with its `name`."""


available_models = partial(registry.available, MODELS_PACKAGE, Model)
"""All models by name. This imports torch."""
find_model = partial(registry.find, MODELS_PACKAGE, Model)
"""The model with a name; a KeyError if there is none."""


def _model(raw: Any) -> Any:
    """The model that a block of a configuration names."""
    is_own = isinstance(raw, Mapping) and "module" in raw
    if is_own and "name" in raw:
        raise refusal("a module of your own has no name; remove it or `module`", key="name")
    return make_chosen(
        raw,
        kind_name="model",
        default=OWN_MODULE if is_own else DEFAULT,
        find=find_model,
        names=lambda: [name for name in available_models() if name != OWN_MODULE],
        other_keys=() if isinstance(raw, Mapping) and ("name" in raw or is_own) else ("module",),
    )


ChosenModel = Annotated[SerializeAsAny[Model], BeforeValidator(_model)]
"""A key that names a model: a block with its `name`, or with the user's own `module`."""


DEFAULT_TASK = "forecast"
available_tasks = partial(registry.available, TASKS_PACKAGE, Task)
"""All tasks by name. This imports torch."""
find_task = partial(registry.find, TASKS_PACKAGE, Task)
"""The task with a name; a KeyError if there is none."""
_task = partial(
    make_chosen, kind_name="task", default=DEFAULT_TASK, find=find_task, names=available_tasks
)
ChosenTask = Annotated[SerializeAsAny[Task], BeforeValidator(_task)]
"""A key that names a task: a block with its `name`."""


CodecMemory = Literal["ef14", "ef21", "delta"]
MEMORIES: dict[str, tuple[CodecMemory, ...]] = {"up": ("ef14", "ef21"), "down": ("delta",)}
"""The memories that a direction can have."""
ENTROPY = "rc"
"""The stage that shortens the whole numbers of a codec without loss."""


@dataclass(frozen=True)
class Chain:
    """The stages of one direction."""

    codec: Codec
    memory: CodecMemory | None
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


def _codec(stage: str) -> Codec:
    """The codec of a stage: its name, and the number that is its only hyperparameter, if any."""
    (name_and_bits,) = re.findall(r"^(\D*)(.*)$", stage, re.DOTALL)
    for name, number in ((stage, ""), name_and_bits):
        cls = registry.algorithm(CODECS_PACKAGE, name)
        if cls is None or not issubclass(cls, Codec):
            continue
        value = int(number) if number.isdigit() else number
        keys = dict.fromkeys(list(cls.model_fields)[: bool(number)], value)
        try:
            return cls.model_validate(keys)
        except ValidationError as error:
            raise ValueError(f"{stage}: {error.errors()[0]['msg']}") from None
    codecs = registry.available(CODECS_PACKAGE, Codec)
    raise ValueError(f"{stage!r} is no codec; {list_allowed(name_and_bits[0], codecs)}")
