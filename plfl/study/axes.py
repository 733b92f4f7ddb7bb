"""Axes: keys of a study that its grid varies.

Besides its own keys, `grid` accepts dotted keys of the study, such as `federation.participation:
[0.1, 0.2]`, and whole blocks, such as `model`. Every combination of their values is a *variant*,
which is a study of its own. Axes of `data` and `windows`, and of the `history` of a sharing scheme,
change what the clients' datasets contain, axes of `task` what baselines predict on them.
"""

import copy
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.claims import as_label
from plfl.config.data import Data
from plfl.config.error_messages import list_allowed, show_key
from plfl.config.grid import Grid
from plfl.config.tuning import Tuning
from plfl.plugins.registry import Section

DATA_SECTIONS = ("data", "windows", "task")
"""Blocks of the configuration that decide what the clients' datasets contain, and what the
baselines predict on them."""
FIXED = {
    "name": "names the results of the whole study",
    "plugins": "is imported once for the whole study",
    "grid": "lists its axes itself; write its keys directly under `grid`",
    "tuning": "gives every cell the same trials",
    "public": "names models of the whole study",
    "baselines": "describes what all variants are compared with",
    "claims": "names comparisons of the whole study",
    "tracking": "does not affect the results",
    "compute": "does not affect the results",
    "data.states": "is an axis already; list the states there",
    "data.origins": "is an axis already; list the dates there",
    "data.source": "says what the data of the whole study are",
    "data.folder": "does not affect the results",
}
"""Keys and blocks that cannot be axes, and why."""
_LABEL = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class Axis:
    """A key of the study with the values that it takes."""

    key: str
    """The dotted path of the key, such as `federation.participation`."""
    short: str
    """The short form in the names of variants, such as `participation`."""
    choices: dict[str, Any]
    """The values of the key, by label."""

    @property
    def column(self) -> str:
        """The name of its column in tables, such as `federation.participation`; `BLOCK.*` for a
        whole block, such as `model.*`, because tables already have a column `model`."""
        return self.key if "." in self.key else f"{self.key}.*"

    @property
    def is_of_data(self) -> bool:
        """Whether it changes the datasets of the clients or the baselines on them."""
        names = self.key.split(".")
        if names[0] == "sharing":
            return names[-1] == "history" or any(map(_has_history, self.choices.values()))
        return names[0] in DATA_SECTIONS


def _has_history(block: Any) -> bool:
    """Whether a sharing scheme says how many weeks its clients know."""
    return isinstance(block, Mapping) and "history" in block


def axes(grid: Grid, data: Data) -> list[Axis]:
    """The axes of a grid that has no `problems`, in its order. Several origins are an axis, too."""
    axis_keys = dict(grid.model_extra or {})
    if len(data.origin_dates) > 1:
        axis_keys["data.origins"] = {str(cut): [str(cut)] for cut in data.origin_dates}
    return [
        Axis(key, short, _label_values(values))
        for (key, values), short in zip(axis_keys.items(), short_names(axis_keys), strict=True)
    ]


def short_names(keys: Iterable[str]) -> list[str]:
    """The last part of each dotted key; the whole key if two of them have the same last part."""
    names = {key: key.removesuffix(".name").split(".")[-1] for key in keys}  # model of model.name
    ends = list(names.values())
    return [short if ends.count(short) == 1 else key for key, short in names.items()]


def variants(axes_of_study: Sequence[Axis]) -> dict[str, dict[str, str]]:
    """The label of every variant with its place: the label on each axis, by the axis's key."""
    keys = [axis.key for axis in axes_of_study]
    places = [
        dict(zip(keys, labels, strict=True))
        for labels in itertools.product(*(axis.choices for axis in axes_of_study))
    ]
    return {place_text(place, axes_of_study): place for place in places}


def latest(places: Mapping[str, Mapping[str, str]]) -> str | None:
    """The variant whose models forecast, given the places of all: the study itself (an empty label)
    without further axes, and that of the latest origin if these are the only axis; else None."""
    if all(not place for place in places.values()):
        return ""
    if any([*place] != ["data.origins"] for place in places.values()):
        return None
    return max(places, key=lambda label: places[label]["data.origins"])


def place_text(place: Mapping[str, str], axes_of_study: Sequence[Axis]) -> str:
    """A place on some of the axes as text, as in names: `participation=0.1,model=mlp`."""
    return ",".join(
        f"{axis.short}={place[axis.key]}" for axis in axes_of_study if axis.key in place
    )


def parse_place(text: str, axes_of_study: Sequence[Axis]) -> dict[str, str]:
    """The place that a text such as `participation=0.1,model=mlp` is, see `place_text`. A place
    that is not on the axes raises a ValueError with the reason."""
    by_short, place = {axis.short: axis for axis in axes_of_study}, dict[str, str]()
    for part in text.split(","):
        short, _, value = part.partition("=")
        if short not in by_short:
            raise ValueError(f"{short} is no axis of the grid; {list_allowed(short, by_short)}")
        axis = by_short[short]
        if value not in axis.choices:
            raise ValueError(f"{short}: {value} is unknown; {list_allowed(value, axis.choices)}")
        place[axis.key] = value
    return place


def keys_at(
    study: Section, axes_of_study: Sequence[Axis], place: Mapping[str, str]
) -> dict[str, Any]:
    """The configuration of a variant: that of `study` with the values of the axes at a place, and
    without axes. Where an axis replaces a model, the keys of the replaced model are dropped,
    because the new one may not have them."""
    written_keys = study.model_dump(mode="json", exclude_unset=True)
    written_keys.pop("claims", None)  # they are about all variants
    for axis in axes_of_study:
        written_keys.get("grid", {}).pop(axis.key, None)
        *blocks, key = axis.key.split(".")
        block, defaults = written_keys, study.model_dump(mode="json")
        section: Any = study
        for name in blocks:
            defaults = defaults.get(name, {})
            section = getattr(section, name, None)
            # A mapping whose keys the user chooses, such as `sharing`, has no defaults by key.
            inner = block.get(name, defaults if isinstance(section, dict) else {})
            block[name] = block = inner if isinstance(inner, dict) else {}
        block[key] = copy.deepcopy(axis.choices[place[axis.key]])
    return written_keys


def problems(grid: Grid, tuning: Tuning, study: type[Section]) -> Iterator[Problem]:
    """Why dotted keys of a grid cannot be axes of a `study`: they begin with no key of the study,
    cannot vary, or a value has no label. All else is checked with the variants."""
    for key in grid.model_extra or {}:
        yield from _problems(key, grid, tuning, study)


def _problems(key: str, grid: Grid, tuning: Tuning, study: type[Section]) -> Iterator[Problem]:
    axis_keys = grid.model_extra or {}
    values = axis_keys[key]
    place = Key(f"grid.{show_key(key)}")
    if problem := _unknown(key, study):
        yield Problem(place, problem)
        return
    overlapping = [other_key for other_key in axis_keys if key.startswith(f"{other_key}.")]
    if overlapping:
        yield Problem(place, f"is a part of the axis {overlapping[0]!r}", "keep one of them")
    searched = (path for search in (tuning.search, tuning.alone) for path in search)
    for path in filter(None, (_find_tuned_path(key, path) for path in searched)):
        yield Problem(place, f"`tuning` chooses it, too ({path})", "remove one of them")
    if isinstance(values, Mapping):
        labels = list(values)
    elif isinstance(values, list):
        labels = [as_label(value) for value in values]
    else:
        yield Problem(place, f"{values!r} is not a list", f"list its values, such as [{values}]")
        return
    if not labels:
        yield Problem(place, "has no value", "list one or more, or remove the axis")
    for label in labels:
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            yield Problem(
                place,
                f"{label!r} cannot be part of a name",
                "give each value a label of letters, digits and _.+-, as in {label: value}",
            )
    if len(set(labels)) < len(labels):
        yield Problem(place, "lists a value twice", "remove duplicates")


def _label_values(values: Any) -> dict[str, Any]:
    if isinstance(values, Mapping):
        return {str(label): value for label, value in values.items()}
    return {as_label(value): value for value in values}


def _unknown(key: str, study: type[Section]) -> str | None:
    """What is wrong with a key that is neither one of the grid nor below one of the study, or that
    cannot be an axis."""
    first = key.split(".", maxsplit=1)[0]
    if first not in study.model_fields:
        return f"unknown key; {list_allowed(first, [*Grid.model_fields, *study.model_fields])}"
    for fixed, reason in FIXED.items():
        if key == fixed or key.startswith(f"{fixed}."):
            return f"cannot be an axis: `{fixed}` {reason}"
    return None


def _find_tuned_path(key: str, path: str) -> str | None:
    """`path` if this path of the search refers to the key of an axis."""
    kind, name, last = [*path.split(".", 2), "", ""][:3]
    parts = key.split(".")
    means = parts == ["hyperparameters", kind, name, last] or (
        name == "*" and parts[:2] == ["hyperparameters", kind] and parts[3:] == [last]
    )
    return path if means else None
