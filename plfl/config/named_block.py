"""Blocks that select a class by their key `name`, such as `model` and `task`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from pydantic import SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from plfl import plugins
from plfl.config.messages import allowed, refusal
from plfl.plugins.registry import Algorithm, Kind


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
    `beside`: keys that can replace `name`.

    Raises:
        ValueError: it is not a block, or has no name and there is no default.
        PydanticCustomError: the name is unknown.
        pydantic.ValidationError: keys are unknown, or values are impossible.
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
        others = {other: find(other) for other in names() if key in find(other).model_fields}
        first = [n for n, one in others.items() if not {*one.__mro__[1:]} & {*others.values()}]
        if len(first) == 1:  # the others inherit the key
            known += f"; the {what} {first[0]} has it: add `name: {first[0]}`"
        unknown = refusal(f"unknown key of the {what} {name}; {known}")
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
