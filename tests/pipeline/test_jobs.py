"""What the workflow says: how long a training will take, and what a run replaces."""

import json
from pathlib import Path

import pytest

from plfl.config.study import Study
from plfl.pipeline import jobs as workflow
from plfl.pipeline.jobs import Progress, replaced


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(workflow, "time", clock)
    return clock


def run(clock, progress, first, seconds):
    for t, spent in enumerate(seconds, first):
        clock.now += spent
        progress(t)


@pytest.mark.parametrize(
    ("rungs", "first", "seconds", "left"),
    [
        ([40], 1, [2] * 5, "70 s"),
        ([40], 36, [11], "44 s"),  # from a checkpoint
        ([4, 8, 40], 1, [8] * 4, "80 s"),  # 4 rounds at 4 s, 32 at 2 s
        ([4, 8, 40], 1, [5] * 4 + [2.5] * 4, "40 s"),
    ],
)
def test_the_time_that_is_left(clock, capsys, rungs, first, seconds, left):
    run(clock, Progress("CA-P1", rungs), first, seconds)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"CA-P1: round {first + len(seconds) - 1} of 40, about ")
    assert left in last


def test_it_says_nothing_every_moment_nor_at_the_end(clock, capsys):
    run(clock, Progress("CA-P1", [40]), 1, [1.0] * 40)
    assert len(capsys.readouterr().err.splitlines()) == 3


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
