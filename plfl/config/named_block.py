"""Blocks that select a class by their key `name`, such as `model` and `task`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from pydantic import SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from plfl import plugins
from plfl.config.messages import UNKNOWN, UNKNOWN_KEY, allowed
from plfl.plugins.registry import Algorithm, Kind


class Named(Algorithm):
    """What such a block selects."""

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
    """What the `name` of a block, or without one the default name, stands for, with the other keys
    of the block. An object of such a class stands for itself.

    `what`: its kind in messages, such as `model`; `names` makes those that a message suggests;
    `beside`: keys that could stand in place of `name`.

    Raises:
        ValueError: it is no block, or has no name where there is no default.
        PydanticCustomError: the name is unknown.
        pydantic.ValidationError: keys are unknown, or values are not possible.
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
        raise refusal(f"name: {name!r} is unknown; {allowed(str(name), names())}") from None
    problems: list[InitErrorDetails] = []
    for key in [key for key in keys if key not in cls.model_fields]:
        known = allowed(str(key), ["name", *beside, *cls.model_fields])
        others = {other: find(other) for other in names() if key in find(other).model_fields}
        first = [n for n, one in others.items() if not {*one.__mro__[1:]} & {*others.values()}]
        if len(first) == 1:  # others have the key from it
            known += f"; the {what} {first[0]} has it: add `name: {first[0]}`"
        line = {"line": f"unknown key of the {what} {name}; {known}"}
        unknown = PydanticCustomError(UNKNOWN_KEY, "{line}", line)
        problems.append({"type": unknown, "loc": (key,), "input": keys.pop(key)})
    try:
        kind = cls.model_validate(keys)
    except ValidationError as error:
        problems += [_again(found) for found in error.errors()]
    if problems:
        raise ValidationError.from_exception_data(what, problems)
    return kind


def _again(found: ErrorDetails) -> InitErrorDetails:
    """An error that pydantic found, to be raised with others."""
    given = found.get("ctx", {}) | {"message": found["msg"]}
    kind = PydanticCustomError(found["type"], "{message}", given)
    return {"type": kind, "loc": found["loc"], "input": found["input"]}


def refusal(message: str) -> PydanticCustomError:
    """An error of a block, as a line of the list of all errors."""
    return PydanticCustomError(UNKNOWN, "{line}", {"line": message})
