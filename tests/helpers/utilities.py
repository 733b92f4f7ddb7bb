"""Exports in the forms of utilities of a dozen countries: 40 days of one meter, with the energy of
which is known."""

import io
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd

DAYS = 40


def loads(minutes: int) -> np.ndarray:
    """kWh in each interval of 40 days."""
    rows = DAYS * 24 * 60 // minutes
    return np.random.default_rng(minutes).uniform(0.1, 0.9, rows).round(3)


def starts(minutes: int, zone: str = "UTC", first: str = "2023-01-10") -> pd.DatetimeIndex:
    """The local starts of the intervals, with their UTC offsets."""
    return pd.date_range(first, periods=len(loads(minutes)), freq=f"{minutes}min", tz=zone)


def comma(value: float) -> str:
    """A number with a decimal comma."""
    return f"{value:.3f}".replace(".", ",")


def by_day(minutes: int, form: str) -> list[tuple[str, np.ndarray]]:
    """The date of each day in a form, and its loads."""
    dates = pd.date_range("2023-01-10", periods=DAYS).strftime(form)
    return list(zip(dates, loads(minutes).reshape(DAYS, -1), strict=True))


def clocks(minutes: int) -> list[str]:
    """The times of day from one midnight to the next."""
    first, last = "2023-01-10", "2023-01-11"
    return list(pd.date_range(first, last, freq=f"{minutes}min").strftime("%H:%M"))


def enedis() -> list[str]:
    """France: a preamble with a unit; mean power at the ends of half hours."""
    head = "Identifiant PRM;Type de donnees;Date de debut;Date de fin;Grandeur physique;Unite;Pas"
    lines = [head, "02123456789012;Courbe de charge;10/01/2023;19/02/2023;Energie active;W;30"]
    ends = starts(30, "Europe/Paris") + pd.Timedelta(minutes=30)
    power = loads(30) * 2000
    return [
        *lines,
        "Horodate;Valeur",
        *(f"{end.isoformat()};{value:.0f}" for end, value in zip(ends, power, strict=True)),
    ]


def linky() -> list[str]:
    """France: start and end, and a unit in odd letters."""
    rows = zip(starts(30, "Europe/Paris"), loads(30) * 2, strict=True)
    return [
        "Début;Fin;Valeur (en Kw)",
        *(
            f"{when:%d/%m/%Y %H:%M:%S};{when + pd.Timedelta(minutes=30):%d/%m/%Y %H:%M:%S};"
            f"{comma(value)}"
            for when, value in rows
        ),
    ]


def netze() -> list[str]:
    """Germany: newest first, a total at the end, quarter hours as mean power."""
    rows = [
        f"{when:%d.%m.%Y};{when:%H:%M};{when + pd.Timedelta(minutes=15):%H:%M};{comma(value)};W"
        for when, value in zip(starts(15, "Europe/Berlin"), loads(15) * 4, strict=True)
    ]
    head = ["Zählpunkt;DE0001234", "Zeitraum;10.01.2023 - 18.02.2023", ""]
    return [
        *head,
        "Datum;von;bis;Leistung [kW];Status",
        *rows[::-1],
        f"Summe;;;{comma(loads(15).sum())};",
    ]


def octopus() -> list[str]:
    """United Kingdom: ISO 8601 with offsets."""
    rows = zip(starts(30, "Europe/London"), loads(30), strict=True)
    return [
        "Consumption (kwh), Estimated Cost Inc. Tax (p), Start, End",
        *(
            f"{value:.3f}, {value * 30:.2f}, {when.isoformat()}, "
            f"{(when + pd.Timedelta(minutes=30)).isoformat()}"
            for when, value in rows
        ),
    ]


def n3rgy() -> list[str]:
    """United Kingdom: one row per day, a column for each half hour, and their total."""
    return [
        f"Date,{','.join(clocks(30)[:-1])},Total",
        *(
            f"{date},{','.join(map(str, day))},{day.sum():.3f}"
            for date, day in by_day(30, "%d/%m/%Y")
        ),
    ]


def pge() -> list[str]:
    """California: a preamble, a date and two times of day, costs, and an empty column."""
    rows = zip(starts(60, "America/Los_Angeles"), loads(60), strict=True)
    return [
        "Name,JANE DOE",
        'Address,"1 MAIN ST, TOWN CA 94000"',
        "Account Number,1234567890",
        "Service,Service 1",
        "",
        "TYPE,DATE,START TIME,END TIME,USAGE (kWh),COST,NOTES",
        *(
            f"Electric usage,{when:%Y-%m-%d,%H:%M},{when:%H}:59,{value:.3f},${value / 5:.2f},"
            for when, value in rows
        ),
    ]


def smart_meter_texas() -> list[str]:
    """Texas: the number of the meter, the day of a revision, and a flag."""
    rows = zip(starts(15, "America/Chicago"), loads(15), strict=True)
    return [
        "ESIID,USAGE_DATE,REVISION_DATE,USAGE_START_TIME,USAGE_END_TIME,USAGE_KWH,"
        "ESTIMATED_ACTUAL,CONSUMPTION_SURPLUSGENERATION",
        *(
            f"'10443720001234567,{when:%m/%d/%Y},{when + pd.Timedelta(days=1):%m/%d/%Y} 03:24:05,"
            f"{when:%H:%M},{when + pd.Timedelta(minutes=15):%H:%M},{value:.3f},A,Consumption"
            for when, value in rows
        ),
    ]


def nem12() -> list[str]:
    """Australia: NEM12, with a register of reactive energy."""
    lines = ["100,NEM12,202302191534,MDP1,RETAILER"]
    for register, unit, share in (("E1", "kWh", 1), ("Q1", "kVArh", 9)):
        lines.append(f"200,6123456789,E1Q1,1,{register},N1,METER1,{unit},30,20230610")
        for date, day in by_day(30, "%Y%m%d"):
            readings = ",".join(f"{value / share:.4f}" for value in day)
            lines.append(f"300,{date},{readings},A,,,20230219120000,")
    return [*lines, "900"]


def datadis() -> list[str]:
    """Spain: hours from 01:00 to 24:00."""
    rows = zip(starts(60, "Europe/Madrid"), loads(60), strict=True)
    return [
        "CUPS;Fecha;Hora;Consumo_kWh;Metodo_obtencion",
        *(
            f"ES0031000000000001JN;{when:%d/%m/%Y};{when.hour + 1:02}:00;{comma(value)};Real"
            for when, value in rows
        ),
    ]


def e_distribuzione() -> list[str]:
    """Italy: one row per day with 96 columns of times `a-b`."""
    names = ";".join(f"{first}-{last}" for first, last in pairwise(clocks(15)))
    rows = by_day(15, "%d/%m/%Y")
    return [f"Giorno;{names}", *(f"{date};{';'.join(map(comma, day))}" for date, day in rows)]


def wiener_netze() -> list[str]:
    """Austria: a date, the two times of day, and a unit in the header."""
    rows = zip(starts(15, "Europe/Vienna"), loads(15), strict=True)
    return [
        "Datum;Zeit von;Zeit bis;Verbrauch [kWh]",
        *(
            f"{when:%d.%m.%Y};{when:%H:%M:%S};{when + pd.Timedelta(minutes=15):%H:%M:%S};"
            f"{comma(value)}"
            for when, value in rows
        ),
    ]


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


def jemena() -> list[str]:
    """Victoria: one row per day, with the meter and spans as names of columns."""
    names = ",".join(f"{first} - {last}" for first, last in pairwise(clocks(30)))
    return [
        f"NMI,METER SERIAL NUMBER,CON/GEN,DATE,ESTIMATED?,{names}",
        *(
            f"6123456789,1234567,Consumption,{date},No,{','.join(map(str, day))}"
            for date, day in by_day(30, "%d-%b-%Y")
        ),
    ]


def green_button() -> str:
    """The United States: ESPI in XML, in Wh, with a day per block."""
    atom, espi = "http://www.w3.org/2005/Atom", "http://naesb.org/espi"
    kind = "<e:ReadingType><e:powerOfTenMultiplier>0</e:powerOfTenMultiplier><e:uom>72</e:uom>"
    entries = [f"<entry><content>{kind}</e:ReadingType></content></entry>"]
    seconds = starts(60, "America/New_York").as_unit("s").asi8.reshape(DAYS, 24)
    for times, (date, day) in zip(seconds, by_day(60, "%Y%m%d"), strict=True):
        readings = "".join(
            f"<e:IntervalReading><e:timePeriod><e:start>{start}</e:start></e:timePeriod>"
            f"<e:value>{value * 1000:.0f}</e:value></e:IntervalReading>"
            for start, value in zip(times, day, strict=True)
        )
        entries.append(
            f"<entry><link rel='self' href='https://x/MeterReading/3/IntervalBlock/{date}'/>"
            f"<content><e:IntervalBlock>{readings}</e:IntervalBlock></content></entry>"
        )
    return f'<?xml version="1.0"?><feed xmlns="{atom}" xmlns:e="{espi}">{"".join(entries)}</feed>'


FORMS: dict[str, tuple[str, Callable[[], list[str]], int, str, dict[str, object]]] = {
    "Enedis": ("a.csv", enedis, 30, "Europe/Paris", {}),
    "Linky": ("a.csv", linky, 30, "Europe/Paris", {}),
    "Netze BW": ("a.csv", netze, 15, "Europe/Berlin", {}),
    "Octopus": ("a.csv", octopus, 30, "Europe/London", {}),
    "n3rgy": ("a.csv", n3rgy, 30, "Europe/London", {}),
    "PG&E": ("a.csv", pge, 60, "America/Los_Angeles", {}),
    "Smart Meter Texas": ("a.csv", smart_meter_texas, 15, "America/Chicago", {}),
    "NEM12": ("a.csv", nem12, 30, "Etc/GMT-10", {}),
    "Datadis": ("a.csv", datadis, 60, "Europe/Madrid", {}),
    "E-distribuzione": ("a.csv", e_distribuzione, 15, "Europe/Rome", {}),
    "Wiener Netze": ("a.csv", wiener_netze, 15, "Europe/Vienna", {}),
    "Jemena": ("a.csv", jemena, 30, "Australia/Melbourne", {}),
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
