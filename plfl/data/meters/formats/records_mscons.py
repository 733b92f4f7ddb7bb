"""The reader of MSCONS, the messages of EDIFACT with which grid operators send metered data."""

import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from plfl.data.meters.file_contents import RawFile

_MARKS = ":+.? '"
"""Separators of components and of elements, decimal mark, release, blank, end of a segment."""
_TIMES = {"163": "start", "164": "end"}
_COLUMNS = ["point", "register", "status", "value", "unit", "start", "end"]
_PRIVATE_START = 0xE000
"""Where private characters begin, which stand for released ones while segments are separated."""


def read_mscons(raw: RawFile) -> pd.DataFrame:
    """The quantities of MSCONS, one a row: `point` (of delivery or metering), `register` (its OBIS
    code), `status` (the qualifier of the quantity, such as 220 of a true value), `value`, `unit`
    (KWH unless stated), and `start` and `end` in UTC. Quantities without an interval of their own,
    such as meter readings, are left out."""
    (lines,) = raw.sheets.values()
    rows: list[dict[str, Any]] = []
    point = register = ""
    quantity: dict[str, Any] = {}
    for number, (tag, *elements) in enumerate(_segments("".join(lines)), 1):
        code, *components = elements[0] if elements else [""]
        try:
            if tag == "NAD":
                quantity = {}
            elif tag == "LOC" and code == "172":
                point = elements[1][0]
            elif tag == "PIA" and code == "5":
                register = elements[1][0]
            elif tag == "QTY":
                value, unit = float(components[0]), components[1] if len(components) > 1 else "KWH"
                quantity = {"point": point, "register": register, "status": code}
                quantity |= {"value": value, "unit": unit}
                rows.append(quantity)
            elif tag == "DTM" and code in _TIMES:
                quantity[_TIMES[code]] = _time(*components)
        except (ValueError, IndexError, TypeError) as error:
            raise ValueError(f"segment {number} ({tag}): {error}") from None
    table = pd.DataFrame(rows, columns=_COLUMNS, index=range(1, len(rows) + 1))
    table = table.dropna(subset=["start", "end"])
    if table.empty:
        raise ValueError("it has no quantities with a start and an end; ask for a load profile")
    return table


def _segments(text: str) -> Iterator[list[Any]]:
    """The tags of the segments, each followed by its elements, which are lists of components."""
    marks = _MARKS
    if text.startswith("UNA"):
        marks, text = text[3:9], text[9:]
    component, element, _, release, _, end = tuple(marks)
    text = re.sub(
        f"{re.escape(release)}(.)", lambda match: chr(_PRIVATE_START + ord(match[1])), text
    )
    plain = {_PRIVATE_START + code: code for code in range(256)}
    for segment in filter(None, map(str.strip, text.split(end))):
        tag, *elements = segment.split(element)
        yield [tag, *([c.translate(plain) for c in e.split(component)] for e in elements)]


def _time(text: str, form: str) -> pd.Timestamp:
    """A time such as 202604010000+00, which has the form 303."""
    match = re.fullmatch(r"(\d{12})([+-]\d{2})", text)
    if match is None or form != "303":
        raise ValueError(f"the time {text!r} has no offset from UTC")
    stamp = pd.to_datetime(match[1], format="%Y%m%d%H%M", utc=True)
    return stamp - pd.Timedelta(hours=int(match[2]))
