"""Formats of energy data that standards define: NEM12 of Australia, and Green Button (ESPI) in XML.

Their readings are at the starts of intervals, with a UTC offset, and in units that they state.
"""

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

import numpy as np
import pandas as pd

NEM_ZONE = "+10:00"
"""NEM12 has the time of the market all year, whatever clocks do."""
_KWH = {"wh": 1e-3, "kwh": 1.0, "mwh": 1e3}
_ESPI = "{http://naesb.org/espi}"
_ATOM = "{http://www.w3.org/2005/Atom}"
_WH, _W = "72", "38"
"""Units of readings in ESPI."""
_ELECTRICITY = ("", "0", "1", "2")
"""Commodities in ESPI: unknown, or electricity on either side of a transformer."""


def is_nem12(line: str) -> bool:
    """Whether a file with this first line is in NEM12."""
    return re.match(r'"?100"?,"?NEM12\b', line) is not None


def nem12(lines: Sequence[str]) -> pd.DataFrame:
    """The readings of electricity in a file: `timestamp`, `meter` and `load` in kWh.

    A meter with one register of energy has the name of its connection point (NMI), others have that
    and of the register, such as `6123456789 E1`.

    Raises:
        ValueError: a line is damaged, or none has readings of energy.
    """
    parts: list[tuple[str, str, np.ndarray, pd.DatetimeIndex]] = []
    factor: float | None = None
    for number, line in enumerate(lines, 1):
        fields = [field.strip().strip('"') for field in line.split(",")]
        if fields[0] == "200":
            point, register, factor = fields[1], fields[4], _KWH.get(fields[7].lower())
            minutes = int(fields[8])
        elif fields[0] == "300" and factor is not None:
            count = 24 * 60 // minutes
            try:
                load = np.array([float(field) for field in fields[2 : 2 + count]]) * factor
                start = pd.to_datetime(fields[1], format="%Y%m%d").tz_localize(NEM_ZONE)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
            if len(load) < count:
                raise ValueError(f"line {number} has {len(load)} of {count} readings")
            times = pd.date_range(start, periods=count, freq=f"{minutes}min")
            parts.append((point, register, load, times))
    if not parts:
        raise ValueError("it has no readings of energy")
    registers = {(point, register) for point, register, *_ in parts}
    alone = {point for point, _ in registers if sum(point == other for other, _ in registers) == 1}
    return pd.concat(
        pd.DataFrame(
            {"timestamp": times, "meter": point if point in alone else f"{point} {register}"}
        ).assign(load=load)
        for point, register, load, times in parts
    )


def green_button(content: bytes) -> pd.DataFrame:
    """The readings of electricity in a file: `timestamp`, `meter` and `load` in kWh or, of mean
    power, `load kW`. Meters have the names of the links to their readings.

    Raises:
        ValueError: the file is XML, but has no such readings.
    """
    # Entities can grow without bound, and are not needed.
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError("it defines entities of its own")
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
    entries = list(root.iter(f"{_ATOM}entry"))
    types = {
        link: kind
        for entry in entries
        for kind in entry.iter(f"{_ESPI}ReadingType")
        for link in _links(entry, "self")
    }
    of_readings = {
        link: types[related]
        for entry in entries
        if next(entry.iter(f"{_ESPI}MeterReading"), None) is not None
        for link in _links(entry, "self")
        for related in _links(entry, "related")
        if related in types
    }
    rows: list[tuple[int, str, float]] = []
    powers = set()
    for entry in entries:
        for block in entry.iter(f"{_ESPI}IntervalBlock"):
            (link,) = _links(entry, "self")[:1] or [""]
            meter = link.rpartition("/IntervalBlock")[0]
            kind = of_readings.get(meter)
            if kind is None and len(types) == 1:
                (kind,) = types.values()
            unit = "" if kind is None else _text(kind, "uom")
            if (
                kind is None
                or unit not in (_WH, _W)
                or _text(kind, "commodity") not in _ELECTRICITY
            ):
                continue
            powers.add(unit == _W)
            factor = 10.0 ** int(_text(kind, "powerOfTenMultiplier") or 0) / 1000
            rows += [(start, meter or "meter", value * factor) for start, value in _values(block)]
    if not rows:
        raise ValueError("it has no readings of electricity in Wh or W")
    if len(powers) > 1:
        raise ValueError("it has readings both in Wh and in W")
    table = pd.DataFrame(
        rows, columns=["timestamp", "meter", "load kW" if True in powers else "load"]
    )
    return table.assign(timestamp=pd.to_datetime(table["timestamp"], unit="s", utc=True))


def _links(entry: ElementTree.Element, kind: str) -> list[str]:
    """The addresses of an entry's links of a kind."""
    links = entry.iter(f"{_ATOM}link")
    return [link.get("href", "").rstrip("/") for link in links if link.get("rel") == kind]


def _values(block: ElementTree.Element) -> Iterator[tuple[int, float]]:
    """The starts of the intervals in a block, in seconds since 1970, and their readings."""
    for reading in block.iter(f"{_ESPI}IntervalReading"):
        yield int(_text(reading, "timePeriod/start")), float(_text(reading, "value"))


def _text(element: ElementTree.Element, path: str) -> str:
    """The text of the element at a path below another one; empty if there is none."""
    return (element.findtext("/".join(f"{_ESPI}{part}" for part in path.split("/"))) or "").strip()
