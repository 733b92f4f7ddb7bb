"""What the workflow says of the results that a run replaces."""

import json
from pathlib import Path

import pytest

from plfl.pipeline.jobs import replaced
from plfl.study import Study


def test_results_of_other_settings_are_not_replaced_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = Study.parse({"name": "one", "data": {"source": "sample"}}, "one.yaml")
    assert replaced(study) == "", "there are no results"
    study.results.mkdir(parents=True)
    about = study.results / "study.json"
    about.write_text(json.dumps({"study": study.description()}))
    assert replaced(study) == ""
    other = Study.parse(
        {
            "name": "one",
            "data": {"source": "sample"},
            "compute": {"threads": 7},  # does not affect results
            "federation": {"rounds": 7},
            "grid": {"seeds": [1, 2]},
        },
        "one.yaml",
    )
    assert "grid.seeds, federation.rounds" in replaced(other)
    about.write_text("{")
    assert replaced(other) == ""
