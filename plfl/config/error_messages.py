"""Reads a configuration strictly, in which a duplicate key is an error, and explains its errors:
path, value, what is allowed and the most similar name."""

import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from plfl.base.errors import ConfigError, Problem, as_problem, suggest_name
from plfl.base.keys import Key
from plfl.plugins.registry import Section

REFUSAL_KEY = "refusal"
"""Type of a pydantic error whose message follows the path of a key."""

_IN_WORDS = {
    r"^[A-Za-z0-9_]+$": "use only letters, digits and '_'",
    r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.+=,-]*)?$": (
        "use only letters, digits, '_', '.' and '-', and begin with a letter or a digit"
    ),
    r"^.+\.py:[A-Za-z_]\w*$": "write the file and the class, such as mine.py:Net",
}
"""The patterns of names in words."""

_BLOCKS = ("dict_type", "mapping_type", "model_type", "model_attributes_type")
"""Types of the errors about a value that is not a block of keys."""

_SCALARS = ("int_type", "float_type", "bool_type", "string_type", "literal_error", "path_type")
"""Types of the errors about a value that is not a single number, truth value or text."""

_TEXTS = ("string_type", "path_type")
"""Types of the errors about a value that is not a text."""
_UNQUOTED = {
    "bool": "YAML reads no, off, yes and on, in any case, as a truth value; put it in quotes, "
    "such as 'NO'",
    "other": "YAML reads it as a number or a date, and 007 as 7; put it in quotes, such as '007'",
}
"""What to do about a text without quotes, by its kind in YAML."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_LONGEST_KEY = 100
"""Characters of a key that messages show as it is."""
_SHORT_KEY = reprlib.Repr()
_SHORT_KEY.maxstring = 40


def read(path: str | Path, problems: list[Problem] | None = None) -> object:
    """The content of a YAML file. ConfigError: it is missing or is not YAML, or a block has a
    duplicate key (PyYAML would silently keep the last one), or YAML reads a number otherwise than
    people do. The last are added to the `problems`, if they are given, so that one message can have
    all of the file."""
    try:
        loader = _Loader(Path(path).read_text(encoding="utf-8"))
        node = loader.get_single_node()
        misread = list(dict.fromkeys(_misread(node, "", set()))) if node else []
        content: object = loader.construct_document(node) if node else None
    except FileNotFoundError:
        raise ConfigError(
            str(path), [Problem("", "the file does not exist", "check the path")]
        ) from None
    except IsADirectoryError:
        raise ConfigError(
            str(path), [Problem("", "is a folder", "name the YAML file of a study")]
        ) from None
    except Exception as error:  # a malformed value can raise any error inside PyYAML
        text = " ".join(str(error).split())
        raise ConfigError(str(path), [f"cannot be read as YAML: {text}"]) from None
    if problems is not None:
        problems += misread
    elif misread:
        raise ConfigError(str(path), misread)
    return content


_NOT_AS_WRITTEN = re.compile(r"[-+]?0+[1-7]\d+|.*[:_].*")
"""Numbers that YAML 1.1 may read as others than people do: 010 is 8, 1:30 is 90, 1_5 is 15."""


def _misread(node: yaml.Node, path: str, visited: set[int]) -> Iterator[Problem]:
    """A problem for each number below a node whose value is not what its digits say. `path`: that
    of the node; `visited`: nodes that need no further visit, since an alias repeats them."""
    if id(node) in visited:
        return
    visited.add(id(node))
    items: list[tuple[object, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _misread(key, path, visited)
            items.append((key.value, value))
    elif isinstance(node, yaml.SequenceNode):
        items = [*enumerate(node.value)]
    elif node.tag.endswith((":int", ":float")) and _NOT_AS_WRITTEN.fullmatch(node.value):
        value = yaml.safe_load(node.value)
        yield Problem(
            Key(path),
            f"YAML reads {node.value} as the number {value}",
            "write the number without a leading 0, ':' or '_', or put a text in quotes: "
            f"'{node.value}'",
        )
    for key, value in items:
        yield from _misread(value, f"{path}.{key}".lstrip("."), visited)


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in keys:
                problem = f"duplicate {key.value!r}; list it once"
                raise yaml.constructor.ConstructorError(
                    problem=problem, problem_mark=key.start_mark
                )
            keys.add(key.value)
        return super().construct_mapping(node, deep)


class ContradictionError(ValueError):
    """Keys of a study that do not fit each other."""

    def __init__(self, problems: Iterable[Problem | str]):
        """Keep the problems."""
        self.problems = list(map(as_problem, problems))
        super().__init__("\n".join(map(str, self.problems)))


def explain(error: ValidationError, model: type[Section]) -> list[Problem]:
    """The problems of every error that pydantic found in a configuration of type `model`."""
    return [
        problem
        for detail in _select_fitting(error.errors())
        for problem in _problems(detail, model)
    ]


def _select_fitting(errors: list[Any]) -> list[Any]:
    """The errors, without those about kinds of values that the user did not mean, in keys that
    allow several kinds: pydantic tries a number, a list and a block of keys in turn."""

    def is_unmeant(error: Any) -> bool:
        is_other_block = error["type"] in _BLOCKS or (
            error["type"] in _SCALARS and isinstance(error["input"], Mapping)
        )
        return is_other_block and _is_type(str(error["loc"][-1]))

    meant_places = [error["loc"] for error in errors if not is_unmeant(error)]
    return [
        error
        for error in errors
        if not is_unmeant(error)
        or all(loc[: len(error["loc"]) - 1] != error["loc"][:-1] for loc in meant_places)
    ]


def list_allowed(value: str, names: Iterable[str]) -> str:
    """A text with the `names`, and the most similar one if `value` resembles any."""
    names = list(names)
    return f"allowed: {', '.join(names)}{suggest_name(value, names)}"


def refusal(message: str, key: str = "") -> PydanticCustomError:
    """An error of which the line is the path of its key and a message, in the place of pydantic's
    words. `key`: the key if the error is that of the block that has it."""
    return PydanticCustomError(REFUSAL_KEY, "{message}", {"message": message, "key": key})


def flow(plain: object) -> str:
    """A value of plain types in one line of YAML, as a study would write it."""
    return (
        yaml.safe_dump(
            plain, default_flow_style=True, width=float("inf"), sort_keys=False, allow_unicode=True
        )
        .removesuffix("...\n")
        .strip()
    )


def write_value(text: str) -> str:
    """A value of a file as a user would type it in a list in YAML: numbers have no quotes."""
    return text if re.fullmatch(r"[+-]?\d+(\.\d*)?", text) else flow([text])[1:-1]


_TYPE = re.compile(r"(literal|list|dict|tuple|set)\[")
"""The beginning of types, one of which a value may have."""


def _is_type(path_entry: str) -> bool:
    """Whether a part of a path is not a key, but a type that pydantic tried there."""
    return (
        "constrained-" in path_entry or path_entry == "[key]" or _TYPE.match(path_entry) is not None
    )


def show_key(key: str) -> str:
    """A key in one line: one that is long, or has line ends, in quotes and shortened."""
    is_plain = len(key) <= _LONGEST_KEY and key.isprintable()
    return key if is_plain else _SHORT_KEY.repr(key)


def _problems(error: Any, model: type[Section]) -> list[Problem]:
    loc = error["loc"][:-2] if error["loc"][-1:] == ("[key]",) else error["loc"]
    parts = [show_key(part) for part in map(str, loc) if not _is_type(part)]
    path, kind = ".".join(parts), error["type"]
    value_text = _SHORT.repr(error["input"])  # it may be large, even without end
    if kind == REFUSAL_KEY:
        key, message = error["ctx"]["key"], error["ctx"]["message"]
        return [Problem(Key(".".join(filter(None, [*parts, key]))), message)]
    if kind == "value_error" and isinstance(reason := error["ctx"]["error"], ContradictionError):
        return reason.problems
    if kind == "extra_forbidden":
        blocks = blocks_at(error["loc"][:-1], model)
        names = list(dict.fromkeys(key for block in blocks for key in block.model_fields))
        return [Problem(Key(path), "unknown key", list_allowed(str(error["loc"][-1]), names))]
    if kind == "union_tag_invalid":
        tag = error["ctx"]["tag"]
        names = [name for block in blocks_at(error["loc"], model) for name in _names(block)]
        return [Problem(Key(f"{path}.name"), f"{tag!r} is unknown", list_allowed(tag, names))]
    if kind == "union_tag_not_found":
        names = [name for block in blocks_at(error["loc"], model) for name in _names(block)]
        return [Problem(Key(path), f"{value_text} has no name", f"allowed: {', '.join(names)}")]
    return [Problem(Key(path), f"{value_text} is not allowed: {_reason(error, model)}")]


def _reason(error: Any, model: type[Section]) -> str:
    """Why a value is not allowed, and what to write instead."""
    kind, value = error["type"], error["input"]
    if kind in _BLOCKS:
        return _as_block(error, model)
    if kind in _TEXTS and isinstance(value, bool | int | float | date):
        return _UNQUOTED["bool" if isinstance(value, bool) else "other"]
    if kind in _SCALARS and isinstance(value, list):
        return "it is one value, not a list; `grid` can list several (docs/axes.md)"
    reason = str(error["ctx"]["error"] if kind == "value_error" else error["msg"])
    reason = reason[0].lower() + reason[1:]
    if kind == "string_pattern_mismatch":
        return _IN_WORDS.get(error["ctx"]["pattern"], reason)
    if kind == "list_type" and not isinstance(value, dict):
        return f"{reason}, such as [{value}]"
    if kind == "literal_error" and isinstance(value, str):
        reason += suggest_name(value, re.findall(r"'([^']+)'", error["ctx"]["expected"]))
    return reason


def _as_block(error: Any, model: type[Section]) -> str:
    """What to write instead of a value that is not a block of keys."""
    value = error["input"]
    blocks = blocks_at(error["loc"], model)
    if value in [name for block in blocks for name in _names(block)]:
        return f"it is a block of keys, such as {{name: {value}}}"
    keys = dict.fromkeys(key for block in blocks for key in block.model_fields)
    return "it is a block of keys" + (f"; allowed: {', '.join(keys)}" if keys else "")


def sections_in(annotation: Any) -> list[type[Section]]:
    """The blocks of keys that a type annotation allows, also inside lists and unions."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_in(part)]


def blocks_at(location: Iterable[Any], model: type[Section]) -> list[type[Section]]:
    """The blocks of keys that are possible at a location: several, unless a `name` selects one."""
    blocks = [model]
    for part in location:
        fields = [block.model_fields[part] for block in blocks if part in block.model_fields]
        if fields:
            blocks = [block.extend() for block in sections_in(fields[0].annotation)]
        elif isinstance(part, str):
            blocks = [block for block in blocks if part in _names(block)]
    return blocks


def _names(block: type[Section]) -> tuple[Any, ...]:
    """The values of `name` that select a block."""
    field = block.model_fields.get("name")
    return () if field is None else get_args(field.annotation)
