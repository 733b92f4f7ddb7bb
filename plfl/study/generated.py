"""The files generated from the typed configuration: the schema and the reference. `plfl schema`
writes them; a test fails if they are out of date."""

import json
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from plfl.base.files import write_text
from plfl.config.algorithms import BLOCKS, AlgorithmBlock
from plfl.config.data import Data
from plfl.config.error_messages import flow, sections_in
from plfl.config.named import DEFAULT_TASK, available_baselines, available_models, available_tasks
from plfl.interfaces.model import DEFAULT, OWN_MODULE, Model
from plfl.interfaces.task import Task
from plfl.plugins.registry import Section
from plfl.study import Study

REFERENCE_HEAD = """\
# Configuration

All keys of a study; every key is optional. `plfl schema` generates this page and the JSON schema
for editors, which also has the lower bounds of numbers.

Brackets name sources: *paper* is arXiv 2404.01517, or the source of the key's algorithm; *authors'
code* is its authors' program; *ours* marks what the source does not give.
"""

_GUIDE = "[guide](axes.md#histories-origins-and-federations)"
GUIDES = {
    "task": "`name` selects a task ([guide](tasks.md)).",
    "model": "`name` selects a model, `module` one of your own ([guide](models.md)).",
    "baselines.further": "A list, each with its `name`.",
    "windows.covariates": "A list of transforms, each with its `name` ([guide](inputs.md)).",
    "claims": "A list ([guide](claims.md#claims-of-your-own)).",
    "data.origins": f"A list of dates, or this block ({_GUIDE}).",
    "sharing": f"By scheme: patterns, or this block ({_GUIDE}).",
    "hyperparameters.method": "By method. `plfl methods` describes the algorithms.",
    "hyperparameters.client_opt": "By local optimiser.",
    "hyperparameters.server_opt": "By server optimiser.",
}
"""The sentence on each key that selects one of several blocks by a `name`."""


def generate_files() -> dict[str, str]:
    """The content of each generated file, by its path from the root of the repository."""
    defaults = Study.parse({}, "the defaults")  # imports the plug-ins of installed packages
    return {
        "workflow/schemas/config.schema.json": json.dumps(schema(), indent=1) + "\n",
        "docs/configuration.md": REFERENCE_HEAD + "".join(_reference(defaults, "")),
    }


def write(root: Path) -> list[Path]:
    """Write the generated files below `root` and return their paths."""
    paths = []
    for name, text in generate_files().items():
        write_text(root / name, text)
        paths.append(root / name)
    return paths


def schema() -> dict[str, Any]:
    """The JSON schema of a configuration file, for editors."""
    schema_keys = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Study.model_json_schema(),
    }
    schema_keys["properties"]["model"] |= _any_of(available_models())
    del schema_keys["properties"]["model"]["$ref"]
    schema_keys["properties"]["task"] = _any_of(available_tasks())
    items = _any_of(available_baselines())
    schema_keys["$defs"]["Baselines"]["properties"]["further"]["items"] = items
    blocks: list[type[Section]] = [Data, *BLOCKS.values()]
    for block in blocks:
        extended = block.extend().model_json_schema()
        schema_keys["$defs"] |= extended.pop("$defs") | {block.__name__: extended}
    return schema_keys


def _any_of(classes: Mapping[str, type[Section]]) -> dict[str, Any]:
    """The schema of a key that names one of these classes."""
    return {"anyOf": [_with_name(name, cls.model_json_schema()) for name, cls in classes.items()]}


def _with_name(name: str, model: dict[str, Any]) -> dict[str, Any]:
    """The schema of a class with the key that selects it."""
    if name == OWN_MODULE:
        return model
    name_key = {"const": name, "type": "string", "description": "This one."}
    required = {} if name in (DEFAULT, DEFAULT_TASK) else {"required": ["name"]}
    return model | {"properties": {"name": name_key, **model["properties"]}} | required


def _text(text: str) -> str:
    """The first paragraph of a key's documentation."""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def _reference(block: Section, path: str) -> Iterator[str]:
    """The tables of a block and of the blocks in it."""
    if isinstance(block, AlgorithmBlock):
        block = BLOCKS[block.kind].extend()()
        yield from _choices(path, {name: getattr(block, name) for name in type(block).model_fields})
        return
    fields = type(block).model_fields
    plain = [key for key in fields if not isinstance(getattr(block, key), Section)]
    if plain:
        yield _word_heading(path, (_text(type(block).__doc__ or "") if path else ""))
        yield _table(["key: default (allowed)", "meaning"], [_cells(block, key) for key in plain])
    for key in fields:
        value, place = getattr(block, key), f"{path}.{key}".removeprefix(".")
        if isinstance(value, Task):
            yield from _choices(place, {n: cls() for n, cls in available_tasks().items()})
        elif isinstance(value, Model):
            models = {n.replace(OWN_MODULE, "module"): c for n, c in available_models().items()}
            yield from _choices(place, {name: _example(cls) for name, cls in models.items()})
        elif place == "baselines.further":
            yield from _choices(place, {n: _example(c) for n, c in available_baselines().items()})
        elif isinstance(value, Section):
            yield from _reference(value, place)
        elif choices := sections_in(fields[key].annotation):
            yield from _choices(place, dict(_select_block(c) for c in choices))


def table_of_keys(block: type[Section], keys: Iterable[str]) -> str:
    """The table of keys of a block, as Markdown: defaults, what is allowed, and meanings."""
    rows = [_cells(_example(block), key) for key in keys]
    return _table(["key: default (allowed)", "meaning"], rows)


def _select_block(choice: type[Section]) -> tuple[str, Section]:
    """A block of keys that may be the value of a key, with the name that selects it."""
    selector = choice.model_fields.get("name")
    return get_args(selector.annotation)[0] if selector else "block", _example(choice)


def _choices(path: str, blocks: dict[str, Section]) -> Iterator[str]:
    """One table of the keys of several blocks, of which a study selects one by its name. A key that
    is the same in several blocks has one row."""
    owners: dict[tuple[str, str], list[str]] = {}
    for name, block in blocks.items():
        for key in type(block).model_fields:
            if key != "name":
                owners.setdefault(_cells(block, key), []).append(f"`{name}`")
    yield _word_heading(path, GUIDES[path])
    rows = [(key, ", ".join(names), meaning) for (key, meaning), names in owners.items()]
    yield _table(["key: default (allowed)", "of", "meaning"], rows)


def _example(cls: type[Section]) -> Section:
    """A block as an object with its defaults; required keys are None."""
    required = [key for key, field in cls.model_fields.items() if field.is_required()]
    return cls.model_construct(**dict.fromkeys(required))


def _word_heading(path: str, about: str) -> str:
    title = f"`{path}`" if path else "Top level"
    return f"\n## {title}\n" + (f"\n{textwrap.fill(about, 120)}\n" if about else "")


def _cells(block: Section, key: str) -> tuple[str, str]:
    """The row of a key without its owners: the key with its default, and its meaning."""
    prop = type(block).model_json_schema()["properties"][key]
    is_required = type(block).model_fields[key].is_required()
    default = None if is_required else block.model_dump(mode="json", include={key})[key]
    meaning = _text(prop.get("description", ""))
    first = f"`{key}`, required" if is_required else f"`{key}: {flow(default)}`"
    shows_type = not is_required and default is not None
    allowed = _word_allowed(prop, shows_type)
    is_told = "enum" in prop and all(f"`{value}`" in meaning for value in prop["enum"])
    return f"{first} ({allowed})" if allowed and not is_told else first, meaning


def _table(titles: list[str], rows: Iterable[Iterable[str]]) -> str:
    rule = "|" + "---|" * len(titles)
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    lines = [f"| {' | '.join(line)} |\n" for line in [titles, *escaped]]
    return f"\n{lines[0]}{rule}\n" + "".join(lines[1:])


def _word_allowed(prop: dict[str, Any], type_is_known: bool) -> str:
    """What a JSON schema allows, in a few words, without null, which the meaning of each key
    explains, and lower bounds of 0 and 1, which are obvious."""
    if "enum" in prop:
        return ", ".join(f"`{value}`" for value in prop["enum"])
    if "anyOf" in prop:
        options = [option for option in prop["anyOf"] if option.get("type") != "null"]
        return " or ".join(
            filter(None, (_word_allowed(choice, type_is_known) for choice in options))
        )
    if prop.get("type") == "array":
        item_text = _word_allowed(prop.get("items") or {}, type_is_known)
        return item_text if type_is_known else f"list of {item_text}" if item_text else "list"
    kind = "" if type_is_known else str(prop.get("type", ""))
    low = prop.get("minimum", prop.get("exclusiveMinimum", 0))
    high = prop.get("maximum", prop.get("exclusiveMaximum", math.inf))
    if high < 2**60:
        ends = "(["["minimum" in prop], ")]"["maximum" in prop]
        return f"{kind} in {ends[0]}{low:g}, {high:g}{ends[1]}".strip()
    return kind if low in (0, 1) else f"{kind} ≥ {low:g}".strip()
