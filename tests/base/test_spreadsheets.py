"""Names from other people's files are never formulas of a spreadsheet."""

import csv
import io
import logging
import re
from pathlib import Path

import pandas as pd
import pytest

from plfl.base.spreadsheets import as_csv, write_csv, write_workbook
from plfl.outside.leaderboard import BOARD_COLUMNS, append
from tests.helpers.repository import ROOT

NAMES = [
    '=HYPERLINK("http://x.example","a")',
    *("+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1", "=cmd|' /C calc'!A0"),
]
PLAIN = ["school", "a=b"]


@pytest.mark.parametrize("kind", ["object", "string", "category"])
def test_an_apostrophe_is_put_before_formulas_in_csv(kind: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"client": NAMES + PLAIN, "=mase": -0.5}).astype({"client": kind})
    write_csv(table, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        (header, *rows) = csv.reader(file)
    assert header == ["client", "'=mase"]
    assert [name for name, _ in rows] == [f"'{name}" for name in NAMES] + PLAIN
    assert {value for _, value in rows} == {"-0.5"}, "numbers stay numbers"
    assert table["client"].tolist() == NAMES + PLAIN


def test_changed_texts_are_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    as_csv(pd.DataFrame({"client": ["=1+1", "=1+1", "school"]}))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "apostrophe before '=1+1'" in record.getMessage()


def test_nothing_is_told_of_harmless_texts(caplog: pytest.LogCaptureFixture) -> None:
    assert as_csv(pd.DataFrame({"client": PLAIN})) == "client\nschool\na=b\n"
    assert not caplog.records


def test_numbers_that_are_kept_as_texts_have_no_apostrophe() -> None:
    assert as_csv(pd.DataFrame({"low": ["-0.25", "", "+3"]})) == 'low\n-0.25\n""\n+3\n'


def test_a_workbook_has_no_formulas() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    names = [name for name in NAMES if name.isprintable()]
    file = io.BytesIO()
    write_workbook(pd.DataFrame({"client": names, names[0]: 1.5}), file, "forecasts")
    header, *rows = openpyxl.load_workbook(file)["forecasts"].iter_rows()
    assert [cell.value for cell, _ in rows] == names
    cells = [header[1], *(cell for cell, _ in rows)]
    assert {(cell.data_type, cell.quotePrefix) for cell in cells} == {("s", True)}
    assert {(cell.data_type, cell.value) for _, cell in rows} == {("n", 1.5)}


def test_all_tables_for_people_are_written_here() -> None:
    elsewhere = {
        path.relative_to(ROOT).as_posix()
        for path in [*(ROOT / "plfl").rglob("*.py"), *(ROOT / "plfl_images").rglob("*.py")]
        if re.search(r"\.to_(csv|excel)\(|csv\.writer", path.read_text(encoding="utf-8"))
    }
    # The sample generator names its own files and columns.
    assert elsewhere == {"plfl/base/spreadsheets.py", "plfl/data/sample/store.py"}


def test_a_row_of_a_leaderboard_is_replaced_under_its_harmless_name(tmp_path: Path) -> None:
    board = tmp_path / "board.csv"
    for score in (0.5, 0.25):
        row = dict.fromkeys(BOARD_COLUMNS, "") | {"method": "=1+1", "version": "1", "score": score}
        append([row], board)
    (row,) = csv.DictReader(board.open())
    assert (row["method"], row["score"]) == ("'=1+1", "0.25")
