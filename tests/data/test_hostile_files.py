"""Damaged and hostile raw files give one clear error, in bounded time and memory, or a result."""

import gzip
import io
import os
import re
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plfl.base.errors import DataError
from plfl.config.meters import Meters
from plfl.data import arrays
from plfl.first_study.meters import recognise
from tests.helpers.refusals import naming

LINES = ["time,school"] + [
    f"{stamp:%Y-%m-%d %H:%M},{1 + stamp.hour / 10}"
    for stamp in pd.date_range("2020-02-01", periods=24 * 30, freq="h")
]
TEXT = ("\n".join(LINES) + "\n").encode()
DAMAGED = b"PK\x03\x04" + bytes(200)
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {b} "{10 * f"&{a};"}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]><worksheet><sheetData><row><c t='inlineStr'><is><t>&i;</t></is></c></row></sheetData>"
    "</worksheet>"
)
EXTERNAL = BOMB.replace('<!ENTITY a "aaaaaaaaaa">', '<!ENTITY a SYSTEM "file:///etc/passwd">')
SHEET = "xl/worksheets/sheet1.xml"


def with_cell(place: str, value: object) -> bytes:
    """An export as a workbook, with another value in a cell."""
    book = openpyxl.Workbook()
    for line in LINES:
        time, load = line.split(",")
        book.active.append([time, float(load) if load[0].isdigit() else load])
    book.active[place] = value
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


PLAIN = with_cell("A1", "time")


def with_part(name: str, content: str | bytes) -> bytes:
    """The workbook with another content of one of its parts."""
    stream = io.BytesIO()
    with ZipFile(io.BytesIO(PLAIN)) as old, ZipFile(stream, "w", ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, content if entry.filename == name else old.read(entry))
    return stream.getvalue()


def parquet(rows: int) -> bytes:
    """An export as Parquet, of equal rows but for the time."""
    stamps = pd.date_range("2020-02-01", periods=rows, freq="h")
    table = pa.table({"time": stamps.astype(str), "school": np.ones(rows)})
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


HOSTILE: dict[str, tuple[str, bytes, dict[str, object]]] = {
    "no workbook": ("a.xlsx", DAMAGED, {}),
    "half a workbook": ("a.xlsx", PLAIN[: len(PLAIN) // 2], {}),
    "a workbook without its sheet": ("a.xlsx", with_part(SHEET, ""), {}),
    "a workbook with damaged XML": ("a.xlsx", with_part(SHEET, "<worksheet><row"), {}),
    "entities that grow": ("a.xlsx", with_part(SHEET, BOMB), {}),
    "entities from other files": ("a.xlsx", with_part(SHEET, EXTERNAL), {}),
    "a cell at the far corner": ("a.xlsx", with_cell("XFD99999", 1), {}),
    "blanks": ("a.xlsx", with_part("xl/styles.xml", b" " * 9_000_000), {"max_size": 5}),
    "a formula without its value": ("a.xlsx", with_cell("B9", "=B8+1"), {}),
    "no gzip": ("a.csv.gz", b"\x1f\x8b" + bytes(50), {}),
    "half a gzip": ("a.csv.gz", gzip.compress(TEXT)[:200], {}),
    "a gzip that grows": ("a.csv.gz", gzip.compress(bytes(9_000_000)), {"max_size": 5}),
    "no Parquet": ("a.parquet", b"PAR1" + bytes(50) + b"PAR1", {}),
    "Parquet that grows": ("a.parquet", parquet(400_000), {"max_size": 5}),
    "half a workbook of old Excel": ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), {}),
    "another encoding": ("a.csv", "ü".encode("cp1252") + TEXT, {"encoding": "utf-16"}),
    "nothing": ("a.csv", b"", {}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_one_error_names_the_file(what: str, tmp_path: Path) -> None:
    name, content, options = HOSTILE[what]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / name).write_bytes(content)
    meters = Meters.model_validate({"timezone": "UTC", **options})
    with naming(DataError, name) as found:
        recognise([tmp_path / "raw"], meters)
    assert "root:" not in str(found.value)


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "zero.csv"):
        with naming(DataError, name):
            recognise([tmp_path / name], Meters(timezone="UTC"))


def test_a_header_may_be_longer_than_the_csv_module_allows(tmp_path: Path) -> None:
    """A file of 12,000 meters is normal."""
    names = [f"{i:03}{'x' * 200}" for i in range(80)]
    stamps = pd.date_range("2020-02-01", periods=24 * 15, freq="h")
    loads = np.random.default_rng(0).uniform(1, 2, (len(stamps), len(names))).round(2)
    table = pd.DataFrame(loads, index=stamps.rename("time"), columns=names)
    text = table.to_csv().replace("x,", f"x{' ' * 1500},")
    assert len(text.partition("\n")[0]) > 131_072
    (tmp_path / "wide.csv").write_text(text)
    exports, _ = recognise([tmp_path / "wide.csv"], Meters(timezone="UTC"))
    assert len(exports.meters) == 80


OCTOPUS = (
    "Consumption (kWh), Start, End\n" + "0.1, 2023-01-02T00:00:00Z, 2023-01-02T00:30:00Z\n" * 4000
)


@pytest.mark.parametrize("text", ["\n".join(LINES), OCTOPUS], ids=["plain", "format"])
@pytest.mark.parametrize("end", ["", '\nagain"'], ids=["never closed", "closed in the next line"])
def test_the_line_of_a_quotation_mark_is_named(text: str, end: str, tmp_path: Path) -> None:
    lines = text.split("\n")
    lines[5] = lines[5].replace(",", ',"', 1) + end
    (tmp_path / "a.csv").write_text("\n".join(lines))
    with naming(DataError, "a.csv: line 6", "quotation mark"):
        recognise([tmp_path / "a.csv"], Meters(timezone="UTC"))


def test_too_little_memory_is_no_damage(tmp_path: Path) -> None:
    arrays.save(path := tmp_path / "a.npz", {"load": np.ones(3)})

    def make(content: dict[str, object]) -> None:
        raise MemoryError(content)

    with naming(DataError, "a.npz", "too little memory") as caught:
        arrays.load(path, make)
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize(("mark", "separator"), [(".", ","), (".", ";"), (",", ";"), (",", "\t")])
def test_a_number_that_was_cut_off_is_no_reading(mark: str, separator: str, tmp_path: Path) -> None:
    lines = [line.replace(",", separator).replace(".", mark) for line in LINES]
    path = tmp_path / "school.csv"
    last = f"2020-03-02 00:00{separator}0"
    for end in (f"{mark}\n", ""):
        path.write_text("\n".join([*lines, last + end]))
        exports, _ = recognise([path], Meters(timezone="UTC", stamp="end"), origins=1)
        assert exports.meters["school"].load.iloc[-1] == 0
    path.write_text("\n".join([*lines, last + mark]))
    with naming(DataError, f"school.csv: line {len(LINES) + 1}", "within a number", "copy it"):
        recognise([path], Meters(timezone="UTC"))
    whole_numbers = [re.sub(r"[.,]\d$", mark, line) for line in lines]
    path.write_text("\n".join(whole_numbers))  # it is how they are written
    exports, _ = recognise([path], Meters(timezone="UTC", stamp="end"), origins=1)
    assert exports.meters["school"].load.iloc[-1] == 3
