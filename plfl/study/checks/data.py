"""Data: sources, features, meters and public models."""

from collections.abc import Collection, Iterator
from pathlib import Path

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.baselines import Baselines
from plfl.config.data import Data
from plfl.config.error_messages import list_allowed
from plfl.config.meters import METER_ROLES, Meters
from plfl.config.named import CALENDAR, FEATURE_UNITS, UNITS
from plfl.config.public import PublicModels


def check_data(data: Data) -> Iterator[Problem]:
    """Check states, buildings, features and the columns of own meters."""
    for state in data.buildings:
        if state not in data.states:
            yield Problem(
                Key(f"data.buildings.{state}"),
                f"not one of data.states {data.states}",
                "add or remove it",
            )
    if data.resample and data.resample <= data.read_interval:
        yield Problem(
            Key("data.resample"),
            f"{data.resample} minutes are not more than the {data.read_interval} between readings",
            "remove it, or choose a longer interval",
        )
    yield from _check_features(data)
    yield from _check_columns(data.meters, data.features)
    yield from _check_units(data.meters)
    yield from _check_exports(data)


def _check_features(data: Data) -> Iterator[Problem]:
    features, is_meters = data.features, data.source == "meters"
    feature_names = dict.fromkeys(
        [*FEATURE_UNITS, *(data.meters.input_columns if is_meters else ())]
    )
    for feature in features:
        if feature not in feature_names:
            remedy = (
                f"; for a column of your own, add it to {Key('data.meters.columns')}"
                if is_meters
                else ""
            )
            yield Problem(
                Key("data.features"),
                f"{feature!r} is unknown",
                f"{list_allowed(feature, FEATURE_UNITS)}{remedy}",
            )


def _check_columns(meters: Meters, features: list[str]) -> Iterator[Problem]:
    columns = meters.columns
    mappable = [*METER_ROLES, *(name for name in FEATURE_UNITS if name not in CALENDAR)]
    for role, column in columns.items():
        if role not in mappable and (role in CALENDAR or role not in features):
            yield Problem(
                Key("data.meters.columns"),
                f"{role!r} is unknown",
                f"{list_allowed(role, mappable)}, or a name of your own that data.features "
                "lists, too",
            )
        if (first := next(r for r, c in columns.items() if c == column)) != role:
            yield Problem(
                Key("data.meters.columns"),
                f"{first!r} and {role!r} are both {column!r}",
                "name different columns, or remove one",
            )
    if "time_of_day" in columns and "timestamp" not in columns:
        yield Problem(
            Key("data.meters.columns"),
            "'time_of_day' is a column beside one of dates",
            "add that as 'timestamp'",
        )


def _check_units(meters: Meters) -> Iterator[Problem]:
    roles = list(meters.input_columns)
    for role, unit in meters.units.items():
        if role not in roles:
            remedy = (
                f"; the unit of the load is {Key('data.meters.unit')}" if role == "load" else ""
            )
            yield Problem(
                Key("data.meters.units"),
                f"{role!r} is not one of the inputs in {Key('data.meters.columns')}",
                f"{list_allowed(role, roles)}{remedy}",
            )
        elif role in UNITS and unit not in UNITS[role]:
            key = Key(f"data.meters.units.{role}")
            yield Problem(key, f"{unit!r} is unknown", list_allowed(unit, UNITS[role]))


def _check_exports(data: Data) -> Iterator[Problem]:
    """Report exports that do not fit the study, and options that exclude each other."""
    meters = data.meters
    patterns = [*map(str, meters.exports), *meters.only]
    is_alike = meters.exports and "exports" not in meters.by_state
    if is_alike and len(data.states) > 1 and not any("{state}" in text for text in patterns):
        yield Problem(
            Key("data.meters.exports"),
            f"the {len(data.states)} states would have the same meters",
            "write {state} into a path, or into a pattern of data.meters.only, or the exports of "
            "each state by its name",
        )
    if meters.cumulative and meters.unit in ("kW", "W", "MW"):
        yield Problem(
            Key("data.meters.cumulative"),
            f"a register counts energy, but {Key('data.meters.unit')} is {meters.unit}",
            f"use kWh, Wh or MWh, or remove {Key('data.meters.cumulative')}",
        )
    if meters.cumulative and "start" in meters.by_state.get("stamp", {"": meters.stamp}).values():
        yield Problem(
            Key("data.meters.cumulative"),
            "the reading of a register belongs to the end of its interval",
            f"set {Key('data.meters.stamp', 'end')}",
        )


def check_public(
    public: PublicModels, data: Data, baselines: Baselines, folder: Path, files: Collection[Path]
) -> Iterator[Problem]:
    """Report public models that cannot be made of the study's meters, and baselines that name a
    file in the `folder` of such models that is none of the study's `files`."""
    for state in public.states:
        if state not in data.states:
            yield Problem(
                Key("public.states"),
                f"{state!r} is not one of data.states {data.states}",
                "add or remove it",
            )
    if public.kind is None:
        if public.states:
            yield Problem(
                Key("public.states"), "no model is made", "set public.kind, or remove them"
            )
    elif data.source_class.examples != "loads":
        yield Problem(Key("public.kind"), f"data.source {data.source} has no meters", "remove it")
    elif data.interval > 60 or 60 % data.interval:
        yield Problem(
            Key("public.kind"),
            f"readings every {data.interval} minutes do not add up to hours",
            "remove it",
        )
    for baseline in baselines.further:
        named_file = getattr(baseline, "file", None)
        for file in named_file if isinstance(named_file, list) else [named_file]:
            if isinstance(file, Path) and file.parent == folder and file not in files:
                remedy = f"name one of {', '.join(map(str, files))}" if files else "set public.kind"
                yield Problem(
                    Key("baselines.further"), f"{baseline.name}: the study makes no {file}", remedy
                )
