"""Reads the line protocol of InfluxDB, `measurement,tag=name field=1.5,other=2i 1700000000000`: one
row per line, with a column for the measurement, each tag and each field.

Source: InfluxData, "Line protocol",
https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from plfl.base.errors import data_error

NAME = "line protocol of InfluxDB"
_WORD = r"(?:\\.|[^\s,=\\])+"
_VALUE = rf'"(?:\\.|[^"\\])*"|{_WORD}'
_LINE = re.compile(
    rf"\s*(?P<measurement>(?:\\.|[^\s,\\])+)(?P<tags>(?:,{_WORD}={_WORD})*)"
    rf"\s+(?P<fields>{_WORD}=(?:{_VALUE})(?:,{_WORD}=(?:{_VALUE}))*)\s+(?P<time>\d{{10,19}})\s*"
)
_PAIR = re.compile(rf"({_WORD})=({_VALUE})")
_WHOLE = re.compile(r"([+-]?\d+)[iu]")
"""A whole number, which the protocol marks."""


def is_protocol(lines: Sequence[str]) -> bool:
    """Whether the first line with content is one of the protocol."""
    first_line = next((line for line in lines if _has_content(line)), "")
    return bool(_LINE.fullmatch(first_line))


def read_lines(path: Path, lines: Sequence[str]) -> pd.DataFrame:
    """The table of the lines as text, indexed by their numbers; empty where a line lacks a column.

    Raises:
        DataError: a line is none of the protocol, or has no time.
    """
    rows: dict[int, dict[str, str]] = {}
    for number, line in enumerate(lines, 1):
        if not _has_content(line):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise data_error(
                path,
                f"line {number} is no `measurement,tags fields time` of the {NAME}",
                "remove it, or export all lines with their times",
            )
        pairs = _PAIR.findall(match["tags"]) + _PAIR.findall(match["fields"])
        row = {"time": match["time"], "measurement": _unescape(match["measurement"])}
        rows[number] = row | {_unescape(key): _value(text) for key, text in pairs}
    return pd.DataFrame.from_dict(rows, orient="index", dtype=object).fillna("")


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _value(text: str) -> str:
    if text.startswith('"'):
        return _unescape(text[1:-1])
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else _unescape(text)


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
