"""The ready-made studies, as they are written into a folder of the user's own."""

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
    assert all(file.is_file() for file in files if file.suffix != ".yaml")
    assert {str(file) for file in files if file.suffix == ".yaml"} <= {
        f"{study}.yaml" for study in shipped.studies()
    }


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = shipped.write_study("demo", tmp_path)
    path.write_text("mine")
    with naming(PlflError, "demo.yaml"):
        shipped.write_study("demo", tmp_path)
    assert path.read_text() == "mine"
