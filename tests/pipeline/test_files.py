"""Files that a run reads, replaces, finds damaged, or writes for the user."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from plfl.base import shipped
from plfl.base.errors import PlflError
from plfl.base.files import hold
from plfl.pipeline.damage import remove_damaged
from plfl.pipeline.jobs import prepare_results, replacement_warning, results_message
from plfl.public.models import MeterKind, file_of
from plfl.report import page
from plfl.study import Study
from tests.helpers import fake_results
from tests.helpers.job_logs import state_beside
from tests.helpers.refusals import naming


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


def small(**blocks: Any) -> Study:
    return Study.parse({"name": "one", "data": {"source": "sample"}} | blocks, "one.yaml")


@pytest.fixture
def about(here: Path) -> Path:
    """What the results folder of a study says about it."""
    study = small()
    study.paths.results.mkdir(parents=True)
    about = study.paths.results / "study.json"
    about.write_text(json.dumps({"study": study.description()}), encoding="utf-8")
    return about


def test_a_run_names_the_settings_whose_results_it_replaces(about: Path) -> None:
    text = replacement_warning(small(federation={"rounds": 7}, grid={"seeds": [1, 2]}))
    assert f"{about.parent} holds results of other settings" in text
    assert "grid.seeds, federation.rounds." in text


@pytest.mark.parametrize("blocks", [{}, {"compute": {"threads": 7}}])
def test_a_run_with_the_same_results_is_silent(about: Path, blocks: dict[str, Any]) -> None:
    assert replacement_warning(small(**blocks)) == ""


@pytest.mark.parametrize("damaged", [None, "{", "[]", "{}"])
def test_a_folder_without_results_is_not_warned_of(about: Path, damaged: str | None) -> None:
    about.unlink() if damaged is None else about.write_text(damaged)
    assert replacement_warning(small(federation={"rounds": 7})) == ""


def test_damaged_files_go_only_where_nobody_else_works_from_then_on(here: Path) -> None:
    study = small()
    file, lock_file = study.paths.results / "data" / "NY.npz", study.paths.results / ".lock"
    file.parent.mkdir(parents=True)
    file.write_text("cut")
    other_process = hold(lock_file)
    assert remove_damaged(study) == "" and file.exists()
    other_process.release()
    assert f"{file}: it is damaged" in remove_damaged(study) and not file.exists()
    with naming(PlflError, "is claimed"):  # until the jobs begin, too
        hold(lock_file, busy="is claimed")
    prepare_results(study)


def test_the_end_of_a_study_says_what_its_page_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = {"source": "meters", "states": ["all"], "clients": 6, "meters": {"interval": 60}}
    study = Study.parse(fake_results.TINY | {"data": data}, "test")
    assert results_message(study) == ""
    fake_results.write(study.paths.results, fake_results.TINY | {"data": data})
    fake_results.pictures(tmp_path / "figures")
    with state_beside(study.paths.results / "logs" / "page.log"):
        page.write(study.paths.results, tmp_path / "figures", study.paths.results / "index.html")
    first, answer, *paths = results_message(study).strip().splitlines()
    assert first.startswith("Study") and len(paths) == 3
    assert answer.startswith("  Do not join: for forecasts")
    assert ". With the best federation, errors were " in answer
    assert answer.endswith(".") and "<" not in answer and "&" not in answer


@pytest.mark.parametrize(("kind", "words"), [("homes", "the file"), ("buildings", "not the file")])
def test_the_end_of_a_study_says_whether_its_public_model_is_that_of_plfl(
    kind: MeterKind, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = small(public={"kind": kind})
    assert results_message(study) == ""
    study.paths.public.mkdir(parents=True)
    (study.paths.results / "index.html").touch()
    assert "public  " not in results_message(study)
    shutil.copy(file_of("homes"), path := study.paths.public / f"{kind}.xz")
    assert f"  public   {path}, {words} that comes with plfl\n" in results_message(study)
