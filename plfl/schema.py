"""What is generated from the typed configuration: the paper's file, the schema, the reference.

`plfl schema` writes them; a test fails when they are stale.
"""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from plfl.files import atomic
from plfl.study import Study

HEADER = """\
# The study of arXiv 2404.01517, "Addressing Heterogeneity in Federated Load Forecasting with
# Personalization Layers": all keys there are. It has three seeds, and under `tuning` every cell
# chooses its server's rate on validation; all else are the defaults, so that a study of your own
# needs only the keys that differ. Written by `plfl schema` from plfl/study.py.
#
#   snakemake --cores all                                    this study
#   snakemake --cores all --configfile config/smoke.yaml     another one
#   plfl cells config.yaml                                   what it will run, and for how long
#
# yaml-language-server: $schema=workflow/schemas/config.schema.json
"""

PAPER = Study.parse(
    {"grid": {"seeds": [10, 11, 12]}, "tuning": {"server_lr": [0.01, 0.1, 1.0]}},
    "the paper's study",
)
"""The paper has one seed, which decides little. It names no server rates, and no single one suits
all servers: of those that are usual each cell takes the one of least validation MASE, the same
number tried for all."""

REFERENCE = """\
# Configuration

All keys of a study, with their types and defaults; written by `plfl schema` from `plfl/study.py`.
Every key may be left out. Unknown keys and impossible values are refused, all at once.
"""


def generated() -> dict[str, str]:
    """Content of each generated file, by its path from the root of the project."""
    return {
        "config.yaml": HEADER + "\n".join(_yaml(PAPER, 0)) + "\n",
        "workflow/schemas/config.schema.json": json.dumps(schema(), indent=1) + "\n",
        "docs/configuration.md": REFERENCE + "".join(_reference(Study(), "")),
    }


def write(root: Path) -> list[Path]:
    """Write the generated files below `root`; returns their paths."""
    paths = []
    for name, text in generated().items():
        with atomic(root / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
        paths.append(root / name)
    return paths


def schema() -> dict[str, Any]:
    """JSON schema of a configuration file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Study.model_json_schema()}


def _yaml(block: BaseModel, depth: int) -> Iterator[str]:
    indent = "  " * depth
    properties = type(block).model_json_schema()["properties"]
    for key, field in type(block).model_fields.items():
        value = getattr(block, key)
        if depth == 0:
            yield ""
        text = _text(field.description or type(value).__doc__ or "")
        if "enum" in properties[key]:
            text += f" One of: {', '.join(map(str, properties[key]['enum']))}."
        for line in textwrap.wrap(text, 96 - len(indent)):
            yield f"{indent}# {line}"
        if isinstance(value, BaseModel):
            if type(value).model_fields:
                yield f"{indent}{key}:"
                yield from _yaml(value, depth + 1)
            else:
                yield f"{indent}{key}: {{}}"
        else:
            yield f"{indent}{key}: {_flow(block, key)}"


def _flow(block: BaseModel, key: str) -> str:
    plain = block.model_dump(mode="json")[key]
    return (
        yaml.safe_dump(plain, default_flow_style=True, width=1000, sort_keys=False)
        .removesuffix("...\n")
        .strip()
    )


def _text(text: str) -> str:
    """First paragraph of a key's documentation."""
    return " ".join(text.split("\n\n")[0].split())


def _reference(block: BaseModel, path: str) -> Iterator[str]:
    plain = [
        key for key in type(block).model_fields if not isinstance(getattr(block, key), BaseModel)
    ]
    if plain:
        yield f"\n## {f'`{path}`' if path else 'Top level'}\n\n"
        yield "| key | default | allowed | is |\n|---|---|---|---|\n"
        properties = type(block).model_json_schema()["properties"]
        for key in plain:
            field = type(block).model_fields[key]
            cells = [
                f"`{key}`",
                f"`{_flow(block, key)}`",
                _allowed(properties[key]),
                _text(field.description or ""),
            ]
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    for key in type(block).model_fields:
        value = getattr(block, key)
        if isinstance(value, BaseModel):
            yield from _reference(value, f"{path}.{key}".removeprefix("."))


def _allowed(prop: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "enum" in prop:
        return " or ".join(f"`{value}`" for value in prop["enum"])
    if "anyOf" in prop:
        return " or ".join(_allowed(option) for option in prop["anyOf"])
    if prop.get("type") == "array":
        inside = prop.get("items") or {}
        return f"list of {_allowed(inside)}" if inside else "list"
    if prop.get("type") == "object":
        return "block of keys"
    bounds = {
        "minimum": "≥ {}",
        "exclusiveMinimum": "> {}",
        "maximum": "≤ {}",
        "exclusiveMaximum": "< {}",
    }
    limits = [text.format(f"{prop[name]:g}") for name, text in bounds.items() if name in prop]
    pattern = [f"like `{prop['pattern']}`"] if "pattern" in prop else []
    return " ".join([prop.get("type", "anything"), ", ".join(limits + pattern)]).strip()
