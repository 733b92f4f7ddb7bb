"""Blocks of a configuration that name what they configure, such as `model` and `task`."""

from collections.abc import Callable, Iterable, Mapping

from pydantic_core import PydanticCustomError

from plfl.config.messages import UNKNOWN, allowed
from plfl.registry import Kind


def chosen(
    block: object,
    *,
    what: str,
    default: str,
    find: Callable[[str], type[Kind]],
    names: Callable[[], Iterable[str]],
) -> Kind:
    """What the `name` of a block, or without one the default name, stands for, with the block's
    other keys.

    Args:
        what: its kind in messages, such as `model`.
        find: the class of a name; raises KeyError if there is none.
        names: the names that a message suggests.

    Raises:
        ValueError: it is no block.
        PydanticCustomError: the name or a key is unknown.
        pydantic.ValidationError: a value is not possible.
    """
    if not isinstance(block, Mapping):
        meant = next((name for name in names() if name == block), default)
        raise ValueError(f"it is a block of keys, such as `{what}: {{name: {meant}}}`")
    keys = dict(block)
    name = keys.pop("name", default)
    try:
        cls = find(name)
    except (KeyError, TypeError):
        raise refusal(f"name: {name!r} is unknown; {allowed(str(name), names())}") from None
    for key in keys:
        if key not in cls.model_fields:
            known = allowed(str(key), ["name", *cls.model_fields])
            others = [other for other in names() if key in find(other).model_fields]
            if len(others) == 1:
                known += f"; the {what} {others[0]} has it: add `name: {others[0]}`"
            raise refusal(f"{key}: unknown key of the {what} {name}; {known}")
    return cls.model_validate(keys)


def refusal(message: str) -> PydanticCustomError:
    """An error of a block, as a line of the list of all errors."""
    return PydanticCustomError(UNKNOWN, "{line}", {"line": message})
