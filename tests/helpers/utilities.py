"""Exports in the forms of utilities of a dozen countries: 16 days of one meter, with the energy of
which is known."""

import io
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd

DAYS = 16


def loads(minutes: int) -> np.ndarray:
    """kWh in each interval of 16 days."""
    rows = DAYS * 24 * 60 // minutes
    return np.random.default_rng(minutes).uniform(0.1, 0.9, rows).round(3)


def starts(minutes: int, zone: str = "UTC", first: str = "2023-01-10") -> pd.DatetimeIndex:
    """The local starts of the intervals, with their UTC offsets."""
    return pd.date_range(first, periods=len(loads(minutes)), freq=f"{minutes}min", tz=zone)


def comma(value: float) -> str:
    """A number with a decimal comma."""
    return f"{value:.3f}".replace(".", ",")


def by_interval(minutes: int, zone: str, row: str, factor: float = 1) -> list[str]:
    """A row for each interval, from a template of its start, its end and its value."""
    length, day = pd.Timedelta(minutes=minutes), pd.Timedelta(days=1)
    lines = []
    for start, value in zip(starts(minutes, zone), factor * loads(minutes), strict=True):
        end = start + length
        fields: dict[str, object] = {"start": start, "end": end, "next_day": start + day}
        fields |= {"from": start.isoformat(), "to": end.isoformat(), "hour": start.hour + 1}
        fields |= {"value": value, "comma": comma(value), "cost": 30 * value}
        lines.append(row.format(**fields))
    return lines


def by_day(minutes: int, form: str, row: str, factor: float = 1) -> list[str]:
    """A row for each day, from a template of its date, its readings and their total."""
    dates = pd.date_range("2023-01-10", periods=DAYS).strftime(form)
    lines = []
    for date, day in zip(dates, factor * loads(minutes).reshape(DAYS, -1), strict=True):
        readings, commas = ",".join(f"{value:.4f}" for value in day), ";".join(map(comma, day))
        lines.append(row.format(date=date, readings=readings, commas=commas, total=day.sum()))
    return lines


def clocks(minutes: int) -> list[str]:
    """The times of day from one midnight to the next."""
    first, last = "2023-01-10", "2023-01-11"
    return list(pd.date_range(first, last, freq=f"{minutes}min").strftime("%H:%M"))


def enedis() -> list[str]:
    """France: a preamble with a unit; mean power at the ends of half hours."""
    head = "Identifiant PRM;Type de donnees;Date de debut;Date de fin;Grandeur physique;Unite;Pas"
    lines = [head, "02123456789012;Courbe de charge;10/01/2023;19/02/2023;Energie active;W;30"]
    return [*lines, "Horodate;Valeur", *by_interval(30, "Europe/Paris", "{to};{value:.0f}", 2000)]


def linky() -> list[str]:
    """France: start and end, and a unit in odd letters."""
    row = "{start:%d/%m/%Y %H:%M:%S};{end:%d/%m/%Y %H:%M:%S};{comma}"
    return ["Début;Fin;Valeur (en Kw)", *by_interval(30, "Europe/Paris", row, 2)]


def netze() -> list[str]:
    """Germany: newest first, a total at the end, quarter hours as mean power."""
    head = ["Zählpunkt;DE0001234", "Zeitraum;10.01.2023 - 18.02.2023", ""]
    row = "{start:%d.%m.%Y};{start:%H:%M};{end:%H:%M};{comma};W"
    rows = by_interval(15, "Europe/Berlin", row, 4)[::-1]
    total = f"Summe;;;{comma(loads(15).sum())};"
    return [*head, "Datum;von;bis;Leistung [kW];Status", *rows, total]


def octopus() -> list[str]:
    """United Kingdom: ISO 8601 with offsets."""
    row = "{value:.3f}, {cost:.2f}, {from}, {to}"
    head = "Consumption (kwh), Estimated Cost Inc. Tax (p), Start, End"
    return [head, *by_interval(30, "Europe/London", row)]


def n3rgy() -> list[str]:
    """United Kingdom: one row per day, a column for each half hour, and their total."""
    head = f"Date,{','.join(clocks(30)[:-1])},Total"
    return [head, *by_day(30, "%d/%m/%Y", "{date},{readings},{total:.3f}")]


def pge() -> list[str]:
    """California: a preamble, a date and two times of day, costs, and an empty column."""
    head = ["Name,JANE DOE", 'Address,"1 MAIN ST, TOWN CA 94000"', "Account Number,1234567890"]
    names = "TYPE,DATE,START TIME,END TIME,USAGE (kWh),COST,NOTES"
    row = "Electric usage,{start:%Y-%m-%d,%H:%M},{start:%H}:59,{value:.3f},${cost:.2f},"
    rows = by_interval(60, "America/Los_Angeles", row)
    return [*head, "Service,Service 1", "", names, *rows]


def smart_meter_texas() -> list[str]:
    """Texas: the number of the meter, the day of a revision, and a flag."""
    head = "ESIID,USAGE_DATE,REVISION_DATE,USAGE_START_TIME,USAGE_END_TIME,USAGE_KWH,"
    head += "ESTIMATED_ACTUAL,CONSUMPTION_SURPLUSGENERATION"
    row = "'10443720001234567,{start:%m/%d/%Y},{next_day:%m/%d/%Y} 03:24:05,{start:%H:%M},"
    row += "{end:%H:%M},{value:.3f},A,Consumption"
    return [head, *by_interval(15, "America/Chicago", row)]


def nem12() -> list[str]:
    """Australia: NEM12, with a register of reactive energy."""
    lines = ["100,NEM12,202302191534,MDP1,RETAILER"]
    for register, unit, factor in (("E1", "kWh", 1), ("Q1", "kVArh", 1 / 9)):
        lines.append(f"200,6123456789,E1Q1,1,{register},N1,METER1,{unit},30,20230610")
        lines += by_day(30, "%Y%m%d", "300,{date},{readings},A,,,20230219120000,", factor)
    return [*lines, "900"]


def datadis() -> list[str]:
    """Spain: hours from 01:00 to 24:00."""
    row = "ES0031000000000001JN;{start:%d/%m/%Y};{hour:02}:00;{comma};Real"
    head = "CUPS;Fecha;Hora;Consumo_kWh;Metodo_obtencion"
    return [head, *by_interval(60, "Europe/Madrid", row)]


def e_distribuzione() -> list[str]:
    """Italy: one row per day with 96 columns of times `a-b`."""
    names = ";".join(f"{first}-{last}" for first, last in pairwise(clocks(15)))
    return [f"Giorno;{names}", *by_day(15, "%d/%m/%Y", "{date};{commas}")]


def p1_monitor() -> list[str]:
    """The Netherlands: cumulative registers of two tariffs, and gas."""
    use = loads(60)
    is_day = np.asarray(starts(60, "Europe/Amsterdam").hour) >= 7
    low, high = np.cumsum(use * ~is_day) + 1000, np.cumsum(use * is_day) + 2000
    ends = starts(60, "Europe/Amsterdam") + pd.Timedelta(hours=1)
    return [
        "time,Import T1 kWh,Import T2 kWh,Gas m3",
        *(
            f"{end:%Y-%m-%d %H:%M},{a:.3f},{b:.3f},{i / 10:.3f}"
            for i, (end, a, b) in enumerate(zip(ends, low, high, strict=True))
        ),
    ]


def green_button() -> str:
    """The United States: ESPI in XML, in Wh, with a day per block."""
    atom, espi = "http://www.w3.org/2005/Atom", "http://naesb.org/espi"
    kind = "<e:ReadingType><e:powerOfTenMultiplier>0</e:powerOfTenMultiplier><e:uom>72</e:uom>"
    entries = [f"<entry><content>{kind}</e:ReadingType></content></entry>"]
    seconds = starts(60, "America/New_York").as_unit("s").asi8.reshape(DAYS, 24)
    for times, day in zip(seconds, loads(60).reshape(DAYS, 24), strict=True):
        readings = "".join(
            f"<e:IntervalReading><e:timePeriod><e:start>{start}</e:start></e:timePeriod>"
            f"<e:value>{value * 1000:.0f}</e:value></e:IntervalReading>"
            for start, value in zip(times, day, strict=True)
        )
        entries.append(
            f"<entry><link rel='self' href='https://x/MeterReading/3/IntervalBlock/{times[0]}'/>"
            f"<content><e:IntervalBlock>{readings}</e:IntervalBlock></content></entry>"
        )
    return f'<?xml version="1.0"?><feed xmlns="{atom}" xmlns:e="{espi}">{"".join(entries)}</feed>'


FORMS: dict[str, tuple[str, Callable[[], list[str]], int, str, dict[str, object]]] = {
    "Enedis": ("a.csv", enedis, 30, "Europe/Paris", {"unit": "W"}),
    "Linky": ("a.csv", linky, 30, "Europe/Paris", {}),
    "Netze BW": ("a.csv", netze, 15, "Europe/Berlin", {}),
    "Octopus": ("a.csv", octopus, 30, "Europe/London", {}),
    "n3rgy": ("a.csv", n3rgy, 30, "Europe/London", {}),
    "PG&E": ("a.csv", pge, 60, "America/Los_Angeles", {}),
    "Smart Meter Texas": ("a.csv", smart_meter_texas, 15, "America/Chicago", {}),
    "NEM12": ("a.csv", nem12, 30, "Etc/GMT-10", {}),
    "Datadis": ("a.csv", datadis, 60, "Europe/Madrid", {}),
    "E-distribuzione": ("a.csv", e_distribuzione, 15, "Europe/Rome", {}),
    "P1 monitor": (
        *("a.csv", p1_monitor, 60, "Europe/Amsterdam"),
        {"cumulative": True, "add": r" T[12]"},
    ),
    "Green Button": ("a.xml", lambda: [green_button()], 60, "America/New_York", {}),
}
"""The name of a file, its lines, the minutes between readings, the zone of the meter, and the keys
that it needs beside `timezone`."""


def zipped(lines: list[str], name: str = "a.csv") -> bytes:
    """A zip archive of a file."""
    stream = io.BytesIO()
    with ZipFile(stream, "w") as archive:
        archive.writestr(f"export/{name}", "\n".join(lines))
        archive.writestr("__MACOSX/export/._a.csv", "x")
    return stream.getvalue()


def write(folder: Path, form: str) -> Path:
    """Write an export into a folder."""
    name, lines, *_ = FORMS[form]
    path = folder / name
    path.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    return path
