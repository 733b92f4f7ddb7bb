"""Files that a run reads, replaces, finds damaged, or writes for the user."""

import re
from pathlib import Path

import pytest

from plfl.base.errors import PlflError
from plfl.pipeline import shipped
from plfl.study import Study
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
