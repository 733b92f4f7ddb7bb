"""What is wrong with a configuration, in words: path, value, what is allowed, the nearest name."""

import copy
import difflib
import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One or more lines for everything that pydantic found wrong with a `model`."""
    return [line for found in error.errors() for line in _lines(found, model)]


def allowed(value: str, known: Iterable[str]) -> str:
    """The `known` names, and which of them `value` may have meant."""
    known = list(known)
    return f"allowed: {', '.join(known)}{_nearest(value, known)}"


def without(raw: Mapping[str, Any], error: ValidationError) -> dict[str, Any]:
    """A copy of `raw` that lacks the entries which pydantic found wrong."""
    pruned: dict[Any, Any] = copy.deepcopy(dict(raw))
    for location in (found["loc"] for found in error.errors()):
        block = pruned
        for part in location:
            if part == location[-1] or not isinstance(block.get(part), dict):
                block.pop(part, None)
                break
            block = block[part]
    return pruned


def _lines(error: Any, model: type[BaseModel]) -> list[str]:
    # Of a number or a list of numbers pydantic names the kind that it tried as if it were a key.
    parts = [str(part) for part in error["loc"]]
    path = ".".join(part for part in parts if "constrained-" not in part)
    kind = error["type"]
    if kind == "value_error" and not path:
        return str(error["ctx"]["error"]).split("\n")
    if kind == "extra_forbidden":
        known = _keys_at(error["loc"][:-1], model)
        return [f"{path}: unknown key; {allowed(str(error['loc'][-1]), known)}"]
    message = error["msg"][0].lower() + error["msg"][1:]
    line = f"{path}: {_SHORT.repr(error['input'])} is not allowed, {message}"
    if kind == "list_type" and not isinstance(error["input"], dict):
        line += f", such as [{error['input']}]"
    if kind == "literal_error" and isinstance(error["input"], str):
        line += _nearest(error["input"], re.findall(r"'([^']+)'", error["ctx"]["expected"]))
    return [line]


def _keys_at(location: Iterable[Any], model: Any) -> list[str]:
    for part in location:
        field = getattr(model, "model_fields", {}).get(part)
        if field is None:
            return []
        model = field.annotation
        if get_args(model):
            return []
    return list(model.model_fields)


def _nearest(value: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(value, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
