"""Readers of files that are no tables but records: each turns the content of a file into a table,
and says which columns it has. What they mean, a format file says.

A reader raises ValueError where a file is damaged, with the line if there is one.
"""

import csv
import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from plfl.base.errors import data_error
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.data.meters.file_contents import RawFile
from plfl.data.meters.formats.nested_files import parse_xml
from plfl.data.meters.formats.records_blocks import (
    read_df2,
    read_fronius,
    read_pdo,
    read_telegrams,
)
from plfl.data.meters.formats.records_days import read_days
from plfl.data.meters.formats.records_mscons import read_mscons

Records = list[dict[str, Any]]


# -- NEM12 -----------------------------------------------------------------------------------------


def read_nem12(raw: RawFile) -> pd.DataFrame:
    """The intervals of NEM12 (AEMO, Australia), one a row: `nmi`, `register` (its suffix, such as
    E1), `unit`, `start` (in the time of the market), `value`, and `quality`, a letter: that of the
    day in lines 300, or of the interval in lines 400."""
    (lines,) = raw.sheets.values()
    days: list[pd.DataFrame] = []
    stream: dict[str, Any] | None = None
    for number, line in enumerate(lines, 1):
        fields = [field.strip().strip('"') for field in line.split(",")]
        kind = fields[0]
        if kind == "250":
            raise data_error(
                raw.path,
                f"is NEM13 (line {number}): readings of a register that are weeks or months apart",
                "ask the retailer or the distributor for interval data (NEM12)",
            )
        try:
            if kind == "200":
                stream = {"nmi": fields[1], "register": fields[4], "unit": fields[7]}
                minutes = int(fields[8])
                if minutes < 1 or MINUTES_PER_DAY % minutes:
                    raise ValueError(f"has intervals of {minutes} minutes, which make no day")
                count = MINUTES_PER_DAY // minutes
            elif kind == "300":
                if stream is None:
                    raise ValueError("comes before a line 200")
                if len(fields) < 2 + count:
                    raise ValueError(f"has {len(fields) - 2} of {count} readings")
                values = np.array([float(field or "nan") for field in fields[2 : 2 + count]])
                quality = (fields[2 + count] if len(fields) > 2 + count else "A")[:1] or "A"
                day = pd.DataFrame({"value": values, "quality": quality}, dtype=object)
                midnight = pd.to_datetime(fields[1], format="%Y%m%d")
                starts = pd.date_range(midnight, periods=count, freq=f"{minutes}min")
                day = day.assign(**stream, start=starts)
                days.append(day.set_index(number + np.arange(count) / (2 * count)))
            elif kind == "400":
                first, last = int(fields[1]) - 1, int(fields[2])
                days[-1].iloc[first:last, 1] = fields[3][:1]
        except (ValueError, IndexError) as error:
            raise ValueError(f"line {number} {error}") from None
    if not days:
        raise ValueError("it has no readings")
    return pd.concat(days)


# -- tables below each other -----------------------------------------------------------------------


def read_sections(raw: RawFile) -> pd.DataFrame:
    """The rows of several tables in a text, all with columns of the same meaning: `section`, the
    first cell of the header above, then `1`, `2`, … A line with words only is such a header; rows
    begin with a digit and have as many fields, or more that are empty."""
    (lines,) = raw.sheets.values()
    header: list[str] = []
    rows: dict[int, dict[str, str]] = {}
    for number, line in enumerate(lines, 1):
        cells = next(csv.reader([" ".join(line.split())], skipinitialspace=True), [])
        if len(cells) > 2 and not re.search(r"\d", line) and all(cells):
            header = cells
        elif header and len(cells) >= len(header) and cells[0][:1].isdigit():
            if any(cells[len(header) :]):
                raise ValueError(f"line {number} has more fields than the header above it")
            fields = {str(position): cell for position, cell in enumerate(cells[: len(header)], 1)}
            rows[number] = {"section": header[0], **fields}
    if not rows:
        raise ValueError("it has no readings")
    return pd.DataFrame.from_dict(rows, orient="index")


# -- PVOutput --------------------------------------------------------------------------------------

_STATUS: tuple[str, ...] = (
    "date",
    "time",
    "generated",
    "efficiency",
    "power",
    "average power",
    "normalised",
)
_STATUS += ("used", "load", "temperature", "voltage")


def read_statuses(raw: RawFile) -> pd.DataFrame:
    """The statuses of a history of PVOutput, one a row: `date`, `time`, `used` (the energy since
    midnight) and `load` (the power), among others. They are separated by semicolons."""
    (lines,) = raw.sheets.values()
    statuses = [
        (number + position / 1000, status.split(","))
        for number, line in enumerate(lines, 1)
        for position, status in enumerate(filter(str.strip, line.split(";")))
    ]
    rows = {number: dict(zip(_STATUS, fields, strict=False)) for number, fields in statuses}
    return pd.DataFrame.from_dict(rows, orient="index").fillna("")


# -- tables beside each other ----------------------------------------------------------------------


def read_beside(raw: RawFile) -> pd.DataFrame:
    """The rows of tables with semicolons beside each other, all with the same columns, which repeat
    in the header: the first line in which each cell is there equally often."""
    (lines,) = raw.sheets.values()
    header: list[str] = []
    rows: list[tuple[int, dict[str, str]]] = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip(' "') for cell in line.split(";")]
        if not header:
            columns = list(dict.fromkeys(cells))
            is_header = len(columns) > 2 and columns * (len(cells) // len(columns)) == cells
            header = columns if is_header else []
            continue
        for begin in range(0, len(cells), len(header)):
            fields = dict(zip(header, cells[begin : begin + len(header)], strict=False))
            if any(fields.values()):
                rows.append((number, fields))
    if not rows:
        raise ValueError("it has no readings")
    numbers, fields_of_rows = zip(*rows, strict=True)
    return pd.DataFrame(fields_of_rows, index=pd.Index(numbers)).fillna("")


# -- EIEP13A ---------------------------------------------------------------------------------------

_DETAILS: tuple[str, ...] = (
    "kind",
    "authorisation",
    "icp",
    "response",
    "adjustment",
    "meter",
    "direction",
)
_DETAILS += ("content", "availability", "start", "end", "status", "value")


def read_eiep13a(raw: RawFile) -> pd.DataFrame:
    """The readings of EIEP13A (Electricity Authority, New Zealand), one a row: `icp`, `register`
    (meter and content), `direction` (X to the consumer, I to the network), `status` (RD actual, ES
    estimated), `value` in kWh, `length` (`interval`, or `longer` of meters that are read by hand),
    and `start`, in UTC if each record says whether clocks are those of summer."""
    (lines,) = raw.sheets.values()
    rows = {}
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in next(csv.reader([line]), [])]
        if cells and cells[0] == "DET":
            if len(cells) < len(_DETAILS):
                raise ValueError(f"line {number} has {len(cells)} of {len(_DETAILS)} fields")
            rows[number] = dict(zip(_DETAILS, cells, strict=False))
    if not rows:
        raise ValueError("it has no readings")
    table = pd.DataFrame.from_dict(rows, orient="index")
    start, end = (
        pd.to_datetime(table[column], format="%d/%m/%Y %H:%M:%S") for column in ("start", "end")
    )
    table["length"] = np.where(end - start > pd.Timedelta("1h"), "longer", "interval")
    table["register"] = table["meter"] + " " + table["content"]
    is_summer = table["adjustment"].eq("NZDT")
    if (is_summer | table["adjustment"].eq("NZST")).all():
        local = start.dt.tz_localize(
            "Pacific/Auckland", ambiguous=is_summer.to_numpy(), nonexistent="shift_forward"
        ).dt.tz_convert("UTC")
        standard = start.dt.tz_localize("Etc/GMT-12").dt.tz_convert("UTC")
        start = local.where(is_summer, standard)
    return table.assign(start=start)


# -- XML -------------------------------------------------------------------------------------------


_ESPI = "{http://naesb.org/espi}"
_ATOM = "{http://www.w3.org/2005/Atom}"
_ESPI_UNITS = {"72": "Wh", "38": "W", "169": "therm", "42": "m3", "119": "ft3", "63": "VAh"}
_ESPI_UNITS |= {"71": "VAh", "73": "VArh", "111": "V", "132": "Btu", "0": "none"}
_DIRECTIONS = {"1": "forward", "4": "net", "19": "reverse", "20": "total", None: "forward"}

_BEHAVIOURS = {"1": "total", "3": "total"}
"""Codes of readings that are those of a register."""


def read_espi(raw: RawFile) -> pd.DataFrame:
    """The readings of Green Button (NAESB ESPI), one a row: `point` (its usage point), `reading`
    (the link to its meter reading), `meter` (that of the first of the readings of a point that
    take turns, such as one a month), `direction` (forward, reverse, net, total), `unit`, `length`
    (`shortest`, or `longer` such as the days beside the hours of a point), `start` in seconds since
    1970, `value` in the unit, `content` (`value`, or `cost` of one without), `commodity`
    (electricity, gas), `behaviour` (delta, total), `quality` (a number of the standard)."""
    root = parse_xml(raw.content)
    kinds: dict[str, ElementTree.Element] = {}
    kind_of: dict[str, str] = {}
    rows: Records = []
    for entry in root.iter(f"{_ATOM}entry"):
        links = {(link.get("rel"), link.get("href", "")) for link in entry.iter(f"{_ATOM}link")}
        own_link = next((href for rel, href in links if rel == "self"), "")
        kind = entry.find(f".//{_ESPI}ReadingType")
        if kind is not None:
            kinds[own_link or f"kind {len(kinds)}"] = kind
        elif entry.find(f".//{_ESPI}MeterReading") is not None:
            hrefs = [href for _, href in links if "/ReadingType" in href]
            kind_of |= dict.fromkeys([own_link], hrefs[0]) if hrefs else {}
        rows += _espi_readings(entry, own_link)
    if not rows:
        raise ValueError("it has no interval readings")
    table = pd.DataFrame(rows)
    readings = list(table["reading"].unique())
    # Without links, as many kinds as readings are in the same order; a single one is that of all.
    unlinked = [reading for reading in readings if kind_of.get(reading) not in kinds]
    if unlinked and len(kinds) not in (1, len(readings)):
        raise ValueError(f"nothing says of what kind {unlinked[0]} is")
    ordered_kinds = list(kinds) * (len(readings) if len(kinds) == 1 else 1)
    for reading, href in zip(readings, ordered_kinds, strict=True) if unlinked else ():
        kind_of[reading] = href
    for reading in readings:
        is_of_reading = table["reading"] == reading
        for key, value in _kind_words(kinds[kind_of[reading]]).items():
            table.loc[is_of_reading, key] = value
    table["value"] = table["value"] * table["factor"]
    # Days beside hours are the same energy again.
    usual = table.groupby("reading")["seconds"].transform("median")
    shortest = usual.groupby([table[c] for c in ("point", "direction", "unit")]).transform("min")
    table["length"] = np.where(usual > shortest, "longer", "shortest")
    keys = ["point", "direction", "unit", "commodity", "length", "content"]
    is_twice = table.duplicated([*keys, "start"], keep=False)
    groups = [table[column] for column in keys]
    first = table.groupby(keys)["reading"].transform("first")
    table["meter"] = first.where(~is_twice.groupby(groups).transform("any"), table["reading"])
    return table.drop(columns=["seconds", "factor"]).set_axis(pd.RangeIndex(1, len(table) + 1))


def _espi_readings(entry: ElementTree.Element, own_link: str) -> Iterator[dict[str, Any]]:
    """The readings in an entry of a feed with the link `own_link`."""
    for reading in entry.iter(f"{_ESPI}IntervalReading"):
        period = reading.find(f"{_ESPI}timePeriod")
        if period is None:
            raise ValueError("an interval reading has no time")
        value = reading.findtext(f"{_ESPI}value")
        is_cost = value is None and reading.find(f"{_ESPI}cost") is not None
        yield {
            "point": own_link.partition("/MeterReading")[0],
            "reading": own_link.partition("/IntervalBlock")[0],
            "start": int(period.findtext(f"{_ESPI}start") or ""),
            "seconds": float(period.findtext(f"{_ESPI}duration") or "nan"),
            "value": float(value or "nan"),
            "content": "cost" if is_cost else "value",
            "quality": reading.findtext(f"{_ESPI}ReadingQuality/{_ESPI}quality") or "0",
        }


def _kind_words(kind: ElementTree.Element) -> dict[str, Any]:
    """What a reading type says: the columns `direction`, `unit`, `commodity` and `behaviour`, and a
    factor."""
    unit = kind.findtext(f"{_ESPI}uom") or "0"
    direction = kind.findtext(f"{_ESPI}flowDirection")
    return {
        "direction": _DIRECTIONS.get(direction, f"direction {direction}"),
        "unit": _ESPI_UNITS.get(unit, f"unit {unit}"),
        "commodity": "gas" if kind.findtext(f"{_ESPI}commodity") == "7" else "electricity",
        "behaviour": _BEHAVIOURS.get(kind.findtext(f"{_ESPI}accumulationBehaviour") or "", "delta"),
        "factor": 10.0 ** int(kind.findtext(f"{_ESPI}powerOfTenMultiplier") or "0"),
    }


READERS: dict[str, Callable[[RawFile], pd.DataFrame]] = {
    "nem12": read_nem12,
    "sections": read_sections,
    "beside": read_beside,
    "statuses": read_statuses,
    "espi": read_espi,
    "eiep13a": read_eiep13a,
    "mscons": read_mscons,
    "days": read_days,
    "telegrams": read_telegrams,
    "fronius": read_fronius,
    "df2": read_df2,
    "pdo": read_pdo,
}
"""The readers by the names that format files use."""
