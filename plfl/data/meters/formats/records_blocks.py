"""Readers of files in blocks: telegrams of meters, series by seconds, sections and days in XML."""

import json
import re
from typing import Any

import pandas as pd

from plfl.data.meters.file_contents import RawFile
from plfl.data.meters.formats.nested_files import parse_xml

_READING = re.compile(r"(\d+-\d+:\d+\.\d+\.\d+)\(.*?([\d.]+)(?:\*\w+)?\)$")
"""A line of a telegram: the code of OBIS and the last number, whatever its unit."""
_CLOCK = re.compile(r"0-0:1\.0\.0\((\d{12})([SW])\)")
"""The time of a telegram, in summer time or not."""
_OFFSETS = {"S": "+0200", "W": "+0100"}
_QUARTERS = 96


def read_telegrams(raw: RawFile) -> pd.DataFrame:
    """The telegrams of a meter with a P1 port (DSMR 4 and later), one a row: `time`, with its
    offset, and a column for each code of OBIS, such as `1-0:1.8.1`."""
    (lines,) = raw.sheets.values()
    rows: dict[int, dict[str, str]] = {}
    for number, line in enumerate(lines, 1):
        if line.startswith("/"):
            fields = rows[number] = {}
        elif not rows:  # the log began within a telegram
            continue
        elif clock := _CLOCK.match(line):
            fields["time"] = f"{clock[1]}{_OFFSETS[clock[2]]}"
        elif reading := _READING.match(line.strip()):
            fields[reading[1]] = reading[2]
    table = pd.DataFrame.from_dict(rows, orient="index").fillna("")
    if "time" not in table:
        raise ValueError("its telegrams have no time (0-0:1.0.0), as those of meters before DSMR 4")
    return table[table["time"] != ""]


def read_fronius(raw: RawFile) -> pd.DataFrame:
    """The values in the archive of a Fronius data manager (GetArchiveData), one a row: `device`,
    `channel`, `unit`, `time` and `value`."""
    rows = [
        {
            "device": device,
            "channel": name,
            "unit": channel.get("Unit", ""),
            "time": (pd.Timestamp(block["Start"]) + pd.Timedelta(seconds=int(seconds))).isoformat(),
            "value": value,
        }
        for device, block in json.loads(raw.content)["Body"]["Data"].items()
        for name, channel in block["Data"].items()
        for seconds, value in (channel["Values"] or {}).items()
    ]
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1))


def read_df2(raw: RawFile) -> pd.DataFrame:
    """The readings in DF2 of Stark, one a row: `site` (in lines #O), `sensor` (in lines #S),
    `date`, `time`, `value` and `status`, which may be missing."""
    (lines,) = raw.sheets.values()
    block = {"site": "", "sensor": ""}
    rows: dict[int, dict[str, str]] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if line.startswith("#"):
            block |= {"site": line[2:].strip()} if line[1:2] in ("O", "o") else {}
            block |= {"sensor": line[2:].strip()} if line[1:2] in ("S", "s") else {}
        elif line:
            fields = line.split(",")
            if len(fields) not in (3, 4):
                raise ValueError(f"line {number} has {len(fields)} fields instead of 3 or 4")
            rows[number] = block | dict(
                zip(("date", "time", "value", "status"), fields, strict=False)
            )
    return pd.DataFrame.from_dict(rows, orient="index").fillna("")


def read_pdo(raw: RawFile) -> pd.DataFrame:
    """The quarter hours of flows of the Italian grid operators (PDO), one a row: `pod`, `kind` (Ea
    active, Er reactive), `date`, `number` (of the quarters that have elapsed in the day, from 1)
    and `value`. A day in which clocks go back is in two elements, whose `Dst` is 2 and 3."""
    rows: list[dict[str, Any]] = []
    counts: dict[tuple[str, ...], int] = {}
    for place in parse_xml(raw.content).iter("DatiPod"):
        pod, month = place.findtext("Pod", ""), place.findtext("MeseAnno", "")
        days = [day for kind in ("Ea", "Er") for day in place.iter(kind)]
        for day in sorted(days, key=lambda element: element.get("Dst", "0")):
            date = f"{(day.text or '').strip()}/{month}"
            values = [day.attrib[name] for n in range(1, 101) if (name := f"E{n}") in day.attrib]
            midnights = pd.to_datetime([date], format="%d/%m/%Y").tz_localize("Europe/Rome")
            hours = (midnights + pd.DateOffset(days=1) - midnights) / pd.Timedelta(hours=1)
            if hours[0] != 24 and len(values) == _QUARTERS:
                raise ValueError(f"{pod} has 24 hours on {date}, on which clocks change")
            first = counts.get(key := (pod, day.tag, date), 0)
            counts[key] = first + len(values)
            rows += [
                {"pod": pod, "kind": day.tag, "date": date, "number": first + n, "value": value}
                for n, value in enumerate(values, 1)
            ]
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1))
