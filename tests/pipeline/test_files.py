"""Files that a run reads, replaces, finds damaged, or writes for the user."""

import os
import re
import time
from pathlib import Path

import pytest

from plfl.base.errors import PlflError
from plfl.base.files import sha256
from plfl.pipeline import fingerprint, shipped
from plfl.pipeline.fingerprint import digests_of
from plfl.study import Study
from tests.helpers.refusals import naming


def test_a_file_is_read_again_only_if_it_may_have_changed(tmp_path, monkeypatch):
    file, memory, read = tmp_path / "a.csv", tmp_path / "memory.json", []
    monkeypatch.setattr(fingerprint, "sha256", lambda path: read.append(path) or sha256(path))
    file.write_text("1")
    first = digests_of([file, tmp_path / "none"], memory)
    assert first == {str(file): sha256(file)}
    assert digests_of([file], memory) == first
    assert read == [file]
    before = file.stat()
    time.sleep(0.02)  # the resolution of the times of inodes
    file.write_text("2")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digests_of([file], memory) == {str(file): sha256(file)} != first


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1}', '{"a": ["b"]}'])
def test_a_damaged_memory_only_costs_time(text, tmp_path):
    file, memory = tmp_path / "a", tmp_path / "memory.json"
    file.write_text("1")
    memory.write_text(text)
    assert digests_of([file], memory) == {str(file): sha256(file)}


@pytest.mark.parametrize("name", shipped.studies())
def test_a_ready_study_is_the_same_study_elsewhere(name: str, tmp_path: Path) -> None:
    path = shipped.write_study(name, tmp_path)
    assert path == tmp_path / f"{name}.yaml"
    assert Study.load(path) == Study.load(shipped.studies()[name])
    header = path.read_text().partition("\nname:")[0]
    assert "snakemake" not in header
    files = {Path(file) for file in re.findall(r"[\w./-]+\.(?:yaml|md|json)\b", header)}
    # Guides and the schema come with the package; the other files are ready-made studies.
    for file in files:
        is_study = file.suffix == ".yaml"
        assert file.stem in shipped.studies() if is_study else file.is_file()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = shipped.write_study("demo", tmp_path)
    path.write_text("mine")
    with naming(PlflError, "demo.yaml"):
        shipped.write_study("demo", tmp_path)
    assert path.read_text() == "mine"
