"""What was cut or changed is removed, so that it is made again."""

import shutil
from pathlib import Path

import pytest

from plfl.pipeline.damage import remove_damaged
from plfl.public.models import file_of
from plfl.results.checksums import CHECKSUMS_FILE, write_sums
from tests.helpers import tiny


def test_changed_errors_of_kept_models_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = tiny.study()
    folder = study.paths.results / "models"
    folder.mkdir(parents=True)
    names = ["index.csv", "lead_times.csv", "sums.csv"]
    for name in names:
        (folder / name).write_text("state\nXX\n")
    write_sums(folder)
    assert remove_damaged(study) == ""
    (folder / "lead_times.csv").write_text("state\n")
    message = remove_damaged(study)
    assert "lead_times.csv" in message and "index.csv" in message and CHECKSUMS_FILE not in message
    assert [path.name for path in folder.iterdir()] == ["sums.csv"]


def test_damaged_public_models_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = tiny.study(public={"kind": "homes"})
    (path,) = study.public_files
    path.parent.mkdir(parents=True)
    shutil.copy(file_of("homes"), path)
    assert remove_damaged(study) == ""
    path.write_bytes(path.read_bytes()[:1000])
    assert f"{path}: it is damaged: removed" in remove_damaged(study)
    assert not path.exists()
