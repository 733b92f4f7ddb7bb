"""The first study of an import: it fits the meters, and a wrong file is named."""

from pathlib import Path

import pytest
import yaml

from plfl.base.errors import PlflError
from plfl.cli.main import main
from plfl.config.study import Study
from plfl.pipeline import starter
from tests.helpers.refusals import naming

METERS = {"folder": "campus", "timezone": "UTC", "interval": 15, "unit": "kWh"}


def block(folder: Path, **meters: object) -> Path:
    data = {"source": "meters", "states": ["all"], "clients": 7, "meters": METERS | meters}
    path = folder / "campus" / "data.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({"data": data, "windows": {"scaling": "per_client"}}))
    return path


def test_the_study_fits_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {"timestamp": "timestamp", "load": "load", "temperature": "temperature"}
    assert main(["init", "meters", "--from", str(block(tmp_path, columns=columns))]) == 0
    study = Study.load("campus.yaml")
    assert (study.name, study.data.clients, study.data.states) == ("campus", 7, ["all"])
    assert (study.windows.look_back, study.windows.look_ahead) == (96, 96)  # a day of 15 minutes
    assert study.data.features == ["load", "temperature"]
    assert study.windows.scaling == "per_client"
    assert len({cell.client_opt for cell in study.cells}) == 1


def test_a_file_that_no_import_wrote_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("name: other")
    with naming(PlflError, "other.yaml", "data.meters"):
        starter.write(other, tmp_path)
    with naming(PlflError, "data.meters.interval"):
        starter.write(block(tmp_path, interval=7), tmp_path)
    assert not (tmp_path / "campus.yaml").exists()


def test_only_the_study_of_meters_has_an_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "demo", "--from", str(block(tmp_path))]) != 0
    assert "--from" in capsys.readouterr().err
