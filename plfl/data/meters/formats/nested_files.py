"""Turns JSON and XML into a table, given the way to its rows."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

import pandas as pd

_MOST_WAYS = 50
"""Ways to rows that are tried."""
BlockValues = dict[str, Any]
"""The single values of the blocks around a place."""


class _Element(dict[str, Any]):
    """An element of XML: its attributes and children by their names. Children of the same name are
    a list; one with nothing but text is that text, and its attributes are `name.attribute`."""


def parse_xml(content: bytes) -> ElementTree.Element:
    """The root of XML, or one around several elements. ValueError: it is damaged, or defines
    entities, which can grow without bound and are not needed."""
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError("it defines entities of its own")
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        with suppress(ElementTree.ParseError):  # packets of a device, below each other
            if not content.lstrip().startswith(b"<?"):
                return ElementTree.fromstring(b"<all>" + content + b"</all>")
        raise ValueError(str(error)) from None


@lru_cache(maxsize=2)
def _parse(content: bytes) -> object:
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return _element(parse_xml(content))
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        if content.count(b"\n{"):  # lines of JSON, such as messages of a device
            with suppress(ValueError, RecursionError):
                return [json.loads(line) for line in content.splitlines() if line.strip()]
        raise ValueError(f"no JSON: {error}") from None


def _element(node: ElementTree.Element) -> _Element:
    """An element with what is in it. Names have no namespaces."""
    element = _Element({_local_name(name): value for name, value in node.attrib.items()})
    children: dict[str, list[Any]] = {}
    for child in node:
        name, text = _local_name(child.tag), (child.text or "").strip()
        is_text = not len(child) and (text or not child.attrib)
        children.setdefault(name, []).append(text if is_text else _element(child))
        for attribute, value in child.attrib.items() if is_text else ():
            element[f"{name}.{_local_name(attribute)}"] = value
    for name, values in children.items():
        element[name] = values if len(values) > 1 else values[0]
    return element


def _local_name(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition("}")[2]


def read(content: bytes, way: str) -> pd.DataFrame:
    """The rows at the end of a way of keys, such as `data.*.readings` (`*`: all entries of a list
    or block), with a column for each key of a row and for each single value around it. Rows may be
    blocks, lists (columns `0`, `1`, …), single values (columns `position`, from 1, and `value`), a
    block of equally long lists, or a block of single values (columns `key` and `value`). In XML,
    they are elements, and `*` is all of a name. Empty if there are none.

    Raises:
        ValueError: the content is neither JSON nor XML.
    """
    rows = [
        block_values | row
        for place, block_values in _places(_parse(content), way, {})
        for row in _rows(place)
    ]
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1))


def way_to_rows(content: bytes) -> str | None:
    """The way to the most rows of a file; None if it is no JSON, or has no list of rows."""
    try:
        ways = list(dict.fromkeys(_ways(_parse(content), ())))[:_MOST_WAYS]
    except ValueError:
        return None
    counts = {way: len(read(content, way)) for way in ways}
    return max(counts, key=lambda way: counts[way]) if any(counts.values()) else None


def _ways(node: object, way: tuple[str, ...]) -> Iterator[str]:
    """The ways to lists of rows, and to blocks of equally long lists, by the first entry of each
    list."""
    if isinstance(node, list) and node:
        if isinstance(node[0], dict | list):
            yield ".".join(way)
        yield from _ways(node[0], (*way, "*"))
    elif isinstance(node, dict):
        lengths = [len(child) for child in node.values() if isinstance(child, list)]
        if len(lengths) > 1 and len({*lengths}) == 1:
            yield ".".join(way)
        for key, child in node.items():
            if not {".", "*"} & {*key}:
                yield from _ways(child, (*way, key))


def _places(
    node: object, way: str, block_values: BlockValues
) -> Iterator[tuple[object, BlockValues]]:
    """The ends of a way, with what is around each."""
    if not way:
        if isinstance(node, list | dict) and node:
            yield node, block_values
        return
    key, _, onward = way.partition(".")
    if isinstance(node, dict):
        block_values = block_values | {
            str(name): value for name, value in _flat(node) if name != key
        }
        if key == "*" and isinstance(node, _Element):  # the only one of its name
            yield from _places(node, onward, block_values)
        elif key == "*":
            for name, child in node.items():
                yield from _places(child, onward, block_values | {"key of block": name})
        elif key in node:
            yield from _places(node[key], onward, block_values)
    elif isinstance(node, list) and key == "*":
        for child in node:
            yield from _places(child, onward, block_values)


def _rows(place: object) -> Iterator[dict[str, Any]]:
    """The rows in a place."""
    if isinstance(place, list):
        yield from _rows_of_list(place)
        return
    assert isinstance(place, dict)
    if isinstance(place, _Element):
        yield dict(_flat(place))
        return
    lists = {key: value for key, value in place.items() if isinstance(value, list)}
    if lists and len({len(value) for value in lists.values()}) == 1:
        for values in zip(*lists.values(), strict=True):
            yield dict(zip(lists, values, strict=True))
    elif all(not isinstance(value, list | dict) for value in place.values()):
        for key, value in place.items():
            yield {"key": key, "value": value}
    elif all(isinstance(value, dict) for value in place.values()):
        for key, value in place.items():
            yield {"key": key, **dict(_flat(value))}


def _rows_of_list(entries: list[Any]) -> Iterator[dict[str, Any]]:
    """The rows in a list. A single value among blocks or lists, such as null, is none."""
    is_of_values = not any(isinstance(entry, dict | list) for entry in entries)
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, dict):
            yield dict(_flat(entry))
        elif isinstance(entry, list):
            yield {str(position): value for position, value in enumerate(entry)}
        elif is_of_values:
            yield {"position": number, "value": entry}


def _flat(block: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The single values of a block and of those in it, by their keys with points between them."""
    for key, value in block.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            yield f"{prefix}{key}", value
