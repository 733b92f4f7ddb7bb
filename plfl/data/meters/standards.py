"""Formats of energy data that standards define: NEM12 of Australia, and Green Button (ESPI) in XML.

Their readings are at the starts of intervals, with a UTC offset, and in units that they state.
"""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np
import pandas as pd

NEM_ZONE = "+10:00"
"""NEM12 has the time of the market all year, whatever clocks do."""
_KWH = {"wh": 1e-3, "kwh": 1.0, "mwh": 1e3}
_ESPI = "{http://naesb.org/espi}"
_ATOM = "{http://www.w3.org/2005/Atom}"
_WH = "72"
"""Unit of energy in ESPI."""


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
    """The readings in a file: `timestamp`, `meter` and `load` in kWh. Meters have the names of the
    links to their readings.

    Raises:
        ValueError: the file is XML, but its readings are not all of energy in Wh.
    """
    # Entities can grow without bound, and are not needed.
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError("it defines entities of its own")
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
    kinds = {
        (kind.findtext(f"{_ESPI}uom"), kind.findtext(f"{_ESPI}powerOfTenMultiplier") or "0")
        for kind in root.iter(f"{_ESPI}ReadingType")
    }
    (unit, power), *others = kinds or {("", "0")}
    if unit != _WH or others:
        raise ValueError("its readings are not all of electricity in Wh")
    rows = []
    for entry in root.iter(f"{_ATOM}entry"):
        links = [link for link in entry.iter(f"{_ATOM}link") if link.get("rel") == "self"]
        meter = links[0].get("href", "").partition("/IntervalBlock")[0] if links else ""
        for reading in entry.iter(f"{_ESPI}IntervalReading"):
            start = reading.findtext(f"{_ESPI}timePeriod/{_ESPI}start") or ""
            value = float(reading.findtext(f"{_ESPI}value") or "nan")
            rows.append((int(start), meter, value * 10.0 ** int(power) / 1000))
    table = pd.DataFrame(rows, columns=["timestamp", "meter", "load"])
    return table.assign(timestamp=pd.to_datetime(table["timestamp"], unit="s", utc=True))
