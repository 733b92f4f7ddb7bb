"""Bad input: a clear message or a result, never a traceback, a hang, or a file elsewhere."""

import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plfl.base.errors import ConfigError, DataError, ResultsError
from plfl.data import sources
from plfl.data.comstock import series as comstock
from plfl.data.dataset import Dataset
from plfl.experiments.cell_cache import CellCache
from plfl.federated.checkpoint import Checkpoint
from plfl.results.records import CellResult, RecordFiles
from plfl.results.tables import Tables
from plfl.results.traffic import mean_traffic
from plfl.study import Study
from tests.helpers import fake_results, tiny
from tests.helpers.comstock_files import COUNTIES, areas, study, write_metadata, write_store
from tests.helpers.faults.inputs import NASTY_YAML, SUBJECTS, Subject, survive
from tests.helpers.refusals import naming


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("subject", sorted(SUBJECTS), indirect=True)
def test_spoilt_files(subject: Subject, tmp_path: Path) -> None:
    for seed in range(15):
        survive(subject, random.Random(seed), tmp_path / "sandbox")


@pytest.mark.parametrize("subject", sorted(SUBJECTS), indirect=True)
def test_the_files_that_are_spoilt_can_be_read(subject: Subject, tmp_path: Path) -> None:
    files = {**subject.files, ".other": b""}
    whole = Subject(subject.name, files, subject.read, (".other",))
    draws = (survive(whole, random.Random(seed), tmp_path / "box") for seed in range(9))
    assert None in draws


# -- configurations ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(NASTY_YAML)))
def test_yaml_that_is_code_or_a_bomb_does_nothing(number: int, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    path = folder / "my.yaml"
    path.write_text(f"data: {{states: {NASTY_YAML[number]}}}", encoding="utf-8")
    try:
        Study.load(path)  # there are harmless ones where they do no harm, such as 0o9 for a name
    except ConfigError as error:
        assert len(str(error)) < 100_000
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


# -- data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("county", ["../../../secret", "/secret", "G36\0", "", "G36\n"])
def test_a_county_that_leads_out_of_the_store_is_refused(county: str, tmp_path: Path) -> None:
    layout = write_store(tmp_path)
    columns = {layout.names.county: [county] * len(COUNTIES), **areas(COUNTIES)}
    write_metadata(tmp_path / layout.metadata("NY"), columns, COUNTIES)
    with pytest.raises(DataError, match="is not the GISJOIN of a county"):
        dict(comstock.read(tmp_path, study(tmp_path), "NY", list(COUNTIES)))


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.canary,)


def test_a_dataset_cannot_run_code(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    path = tmp_path / "CA.npz"
    tiny.dataset().save(path)
    with np.load(path) as whole:
        contents = dict(whole)
    np.savez(path, **{**contents, "clients": np.array([Evil(canary)], dtype=object)})
    with naming(DataError, "CA.npz"):
        Dataset.load_file(path)
    path.write_bytes(pickle.dumps(Evil(canary)))
    with naming(DataError, "CA.npz"):
        Dataset.load_file(path)
    assert not canary.exists()


@pytest.mark.parametrize("shape", ["(3,", "(3,)}}", "(9000000000000000,)}", "(1e99,)}", "\n  1"])
def test_a_dataset_whose_header_makes_no_sense_is_refused(shape: str, tmp_path: Path) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}\n".encode()
    path = tmp_path / "CA.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("load.npy", b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header)
    with naming(DataError, "CA.npz"):
        Dataset.load_file(path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"files": {"a": 1}}', '{"files": 3}', "\xff"])
def test_a_damaged_receipt_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "CA.files.json"
    path.write_text(text, encoding="latin-1")
    with naming(DataError, "CA.files.json", "--forcerun"):
        sources.read_receipt(path)


# -- checkpoints and results ---------------------------------------------------------------------


def test_a_checkpoint_cannot_run_code(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name in ("state.json", "1-0.safetensors", "1.parquet"):
        (folder / name).write_bytes(pickle.dumps(Evil(canary)))
    assert Checkpoint(folder, "key", 0).load([]) == (0, [])
    assert not canary.exists()


def test_a_finished_cell_in_which_a_byte_has_changed_is_not_used(tmp_path: Path) -> None:
    table = pd.DataFrame({"round": range(200), "mase": np.random.default_rng(1).random(200)})
    cache, wanted = CellCache(tmp_path / "trained"), RecordFiles.in_folder(tmp_path / "cells", "a")
    cache.store("d", CellResult(table, table, table), wanted)
    assert cache.restore("d", wanted)
    for file in RecordFiles.in_folder(tmp_path / "trained", "d"):
        whole = file.read_bytes()
        file.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        assert not cache.restore("d", wanted)
        file.write_bytes(whole)
    assert cache.restore("d", wanted)


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("study.json", lambda tables: tables.study),
        ("summary.csv", lambda tables: tables.scores("local")),
        ("clients.parquet", lambda tables: tables.load_unit),
        ("records.parquet", mean_traffic),
        ("forecasts.parquet", lambda tables: tables.forecasts(["truth"])),
        ("errors.parquet", lambda tables: tables.errors_of("local")),
    ],
)
def test_results_without_what_is_asked_for(name, ask, tmp_path):
    fake_results.write(tmp_path, fake_results.TINY)
    path = tmp_path / name
    if path.suffix == ".parquet":
        pq.write_table(pa.table({f"other {i}": [1] for i in range(40)}), path)
    else:
        path.write_text('{"format": 1}' if path.suffix == ".json" else "other\n1\n")
    with naming(ResultsError, name) as error:
        ask(Tables(tmp_path))
    assert len(str(error.value).removeprefix(str(path))) < 250, "pyarrow lists all columns"
