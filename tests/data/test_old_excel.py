"""Workbooks of old Excel (.xls) are read like those of newer ones."""

from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from plfl.base.errors import DataError
from plfl.config.meters import Meters
from plfl.data.meters import file_contents
from plfl.first_study.meters import recognise
from tests.helpers.refusals import naming

BOOK = Path(__file__).with_name("old_excel.xls")
"""Made with xlwt: a sheet with merged cells, a hidden one, and one with `cells`."""
HOURS = 24 * 3


def cells() -> list[list[Any]]:
    """Cells of all kinds: stamps, times of day, whole numbers, fractions, marks, errors, blanks."""
    first = datetime(2024, 3, 1)
    rows: list[list[Any]] = [["stamp", "clock", "number", "hall (kWh)", "ok", "note"]]
    for hour in range(HOURS):
        note = "#N/A" if hour == 30 else None if hour % 5 else "très bien"
        stamp, load = first + timedelta(hours=hour), 1 + (hour * 7 % 24) / 8
        rows.append([stamp, time(hour % 24, 15), hour, load, hour % 2 == 0, note])
    return rows


def test_cells_are_those_of_the_same_workbook_of_new_excel(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    info, hidden, sheet = book.worksheets[0], book.create_sheet(), book.create_sheet("Readings")
    info.title, hidden.title, hidden.sheet_state = "Info", "Hidden", "hidden"
    info["A1"], hidden["A1"] = "Readings of the hall", "x"
    info.merge_cells("A1:C1")
    for row in cells():
        sheet.append(row)
    book.save(tmp_path / "new.xlsx")
    (old,), (new,) = (
        file_contents.open_files(path, Meters()) for path in (BOOK, tmp_path / "new.xlsx")
    )
    assert old.sheets == new.sheets
    assert (old.kind, new.kind) == ("XLS", "XLSX")


def test_a_workbook_of_old_excel_is_read_whatever_its_name(tmp_path: Path) -> None:
    for name in ("hall.xls", "hall.xlsx"):
        (tmp_path / name).write_bytes(BOOK.read_bytes())
        meters = Meters.model_validate({"timezone": "UTC", "columns": {"timestamp": "stamp"}})
        exports, _ = recognise([tmp_path / name], meters)
        assert "XLS, header in line 1" in exports.report()[0]
        assert "sheet 'Readings', not 'Info', 'Hidden'" in exports.report()[0]
        (meter,) = exports.meters.values()
        np.testing.assert_allclose(meter.load, [row[3] for row in cells()[1:]])


def test_a_large_workbook_of_old_excel_is_refused() -> None:
    with naming(DataError, "old_excel.xls", "data.meters.max_size"):
        file_contents.open_files(BOOK, Meters(max_size=0.01))


def test_text_is_read_under_the_name_of_a_workbook(tmp_path: Path) -> None:
    rows = ["time\tkWh", *(f"{row[0]}\t{row[3]}" for row in cells()[1:])]
    (tmp_path / "hall.xls").write_text("\n".join(rows), encoding="utf-8")
    exports, _ = recognise([tmp_path / "hall.xls"], Meters(timezone="UTC"))
    assert len(exports.meters["hall"].load) == HOURS


@pytest.mark.parametrize(
    "text",
    [
        "<html><head><style>td {}</style></head><table><tr><td>time</td></tr></table></html>",
        "\ufeff<table border=1>\n<tr><th>time</th></tr></table>",
        '<?xml version="1.0"?>\n<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"/>',
    ],
)
def test_tables_in_html_are_refused_with_what_to_do(text: str, tmp_path: Path) -> None:
    (tmp_path / "hall.xls").write_text(text, encoding="utf-8")
    with naming(DataError, "hall.xls: is a table in HTML or XML", "save it as XLSX or CSV"):
        recognise([tmp_path / "hall.xls"], Meters(timezone="UTC"))
