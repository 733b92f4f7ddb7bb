"""A disk that is full, a clock that goes backwards, `kill -9`: nothing is lost.

The training job is the one that Snakemake starts, in a process of its own; see `kills.Job`.
"""

import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plfl.data import sources
from plfl.study import Study as Configuration
from tests.helpers.faults.kills import PATIENCE, Job, Study, finished
from tests.helpers.interruption import check_resumes

SHORT: dict[str, Any] = {"federation": {"rounds": 4, "local_steps": 3, "evaluate_every": 2}}
IMAGES: dict[str, Any] = {
    "data": {"source": "digits", "states": ["digits"], "clients": 5},
    "task": {"name": "classify"},
    "model": {"name": "cnn", "blocks": [[2], [3]], "hidden": [4]},
    "sharing": {"all": ["*"]},
    "grid": {"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": ["all"]},
} | SHORT


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What a job writes to which nothing happens."""
    return Job(Study(tmp_path_factory.mktemp("undisturbed"), **SHORT)).finish()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(Study(tmp_path, **SHORT))


def kill(job: Job, after: int) -> None:
    """Let it train until this round is saved."""
    process = job.start(killed_after=after)
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL, job.log.read_text()


@pytest.mark.parametrize("limit", [100, 4000])
def test_a_job_without_room_says_so_and_goes_on_when_there_is(limit, job, whole):
    process = job.start(limit)
    process.join(PATIENCE)
    assert process.exitcode == 2
    if limit > 100:  # else not even the log has room
        assert "cannot be written" in job.log.read_text()
        assert "Traceback" not in job.log.read_text()
    assert not list(job.results.rglob(".tmp-*"))
    assert job.finish() == whole


@pytest.mark.parametrize("year", [1980, 2100])
def test_the_clock_does_not_matter(year: int, job: Job, whole: list[bytes]) -> None:
    """Neither a checkpoint nor a finished cell is judged by when it was written."""
    seconds = pd.Timestamp(year=year, month=1, day=1).timestamp()

    def shift() -> None:
        for path in job.results.rglob("*"):
            os.utime(path, (seconds, seconds))

    kill(job, after=1)
    shift()
    assert job.finish() == whole
    assert job.resumed
    trained = finished(job.results)
    shift()
    assert job.finish() == whole
    assert finished(job.results) == trained


def test_a_training_on_images_goes_on_too(tmp_path: Path) -> None:
    study = Configuration.parse(IMAGES, "images")
    check_resumes(
        study, sources.source_of(study.data).examples_of(study, "digits"), tmp_path, after=2
    )
