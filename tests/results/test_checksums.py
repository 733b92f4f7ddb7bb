"""Files of results that were cut or changed are noticed, whatever was changed."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from plfl.base.errors import ResultsError
from plfl.results.checksums import CHECKSUMS_FILE, changed_tables, fault_of, write_sums
from plfl.results.records import join_tables, read_table, write_table
from tests.helpers.refusals import naming


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "cell.parquet"
    write_table(pd.DataFrame({"client": ["a", "b"], "mae": [0.5, np.nan]}), file, "digest")
    return file


def test_a_table_has_the_sum_of_itself_with_zeros_in_place_of_the_sum(path: Path) -> None:
    stored = pq.read_metadata(path).metadata[b"plfl.sha256"]
    content = path.read_bytes()
    assert content.count(stored) == 1
    assert hashlib.sha256(content.replace(stored, b"0" * 64)).hexdigest().encode() == stored
    assert fault_of(path) == ""


def test_a_joined_table_has_a_sum_too(path: Path) -> None:
    joined = path.with_name("records.parquet")
    join_tables([path, path], joined)
    assert fault_of(joined) == "" and len(read_table(joined)) == 4


def test_every_changed_byte_is_noticed(path: Path) -> None:
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert fault_of(path), place


def test_every_cut_is_noticed(path: Path) -> None:
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        assert fault_of(path), size


def test_a_number_changed_by_another_program_that_keeps_the_metadata_is_refused(path):
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "mae", pc.multiply(table["mae"], 0.1)), path)
    assert pq.read_schema(path).metadata[b"plfl.cell"] == b"digest"
    for read in (read_table, lambda path: join_tables([path], path.with_name("all.parquet"))):
        with naming(ResultsError, path, "has changed since it was written"):
            read(path)
    assert not path.with_name("all.parquet").exists()


def test_a_table_without_a_sum_can_be_read_but_not_gathered(path: Path) -> None:
    pq.write_table(pa.table({"mae": [0.5]}), path)
    assert read_table(path)["mae"].tolist() == [0.5], "older versions of plfl wrote none"
    with naming(ResultsError, path, "has no checksum"):
        join_tables([path], path.with_name("all.parquet"))


def test_the_sums_of_a_folder_name_what_has_changed(path: Path) -> None:
    folder = path.parent
    for name in ("summary.csv", "study.json"):
        (folder / name).write_text("whole")
    write_sums(folder)
    lines = [line.split("  ") for line in (folder / CHECKSUMS_FILE).read_text().splitlines()]
    assert [name for _, name in lines] == ["cell.parquet", "study.json", "summary.csv"]
    assert lines[1][0] == hashlib.sha256(b"whole").hexdigest()
    assert not list(changed_tables(folder))
    (folder / "summary.csv").write_text("who")
    (folder / "study.json").unlink()
    assert list(changed_tables(folder)) == [folder / "summary.csv"]


@pytest.mark.parametrize("text", ["", "0f", f"{'0' * 64}  ../other", "\xff"])
def test_sums_that_are_damaged_are_named_themselves(text: str, tmp_path: Path) -> None:
    (tmp_path / CHECKSUMS_FILE).write_text(text + "\n", encoding="latin-1")
    assert list(changed_tables(tmp_path)) == [tmp_path / CHECKSUMS_FILE]
