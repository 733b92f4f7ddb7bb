"""A disk that is full, a clock that goes backwards, Ctrl-C: nothing is lost, nothing doubled.

The training job is the one that Snakemake starts, in a process of its own; see `kills.Job`.
"""

import os
from pathlib import Path

import pandas as pd
import pytest

# Everything a job needs, imported once for all that are forked from here.
from tests.helpers.faults.kills import PATIENCE, Job, Whole, finished, leftovers, undisturbed_job


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return undisturbed_job(tmp_path_factory.mktemp("undisturbed"))


def end(job: Job, whole: Whole) -> None:
    """Start it once more; it must end as if nothing had happened."""
    process = job.start()
    process.join(PATIENCE)
    assert process.exitcode == 0, job.log.read_text()
    assert [path.read_bytes() for path in job.outputs] == whole.outputs
    assert not leftovers(job.results)


@pytest.mark.parametrize("limit", [100, 4000])
def test_a_job_without_room_says_so_and_goes_on_when_there_is(
    limit: int, whole: Whole, tmp_path: Path
) -> None:
    job = Job(tmp_path)
    process = job.start(limit)
    process.join(PATIENCE)
    assert process.exitcode == 2
    if limit > 100:  # else not even the log has room
        assert "cannot be written" in job.log.read_text()
        assert "Traceback" not in job.log.read_text()
    assert not list(job.results.rglob(".tmp-*"))
    end(job, whole)


@pytest.mark.parametrize("year", [1980, 2100])
def test_the_clock_does_not_matter(year: int, whole: Whole, tmp_path: Path) -> None:
    """Neither a checkpoint nor a finished cell is judged by when it was written."""
    job = Job(tmp_path)
    seconds = pd.Timestamp(year=year, month=1, day=1).timestamp()

    def shift() -> None:
        for path in job.results.rglob("*"):
            os.utime(path, (seconds, seconds))

    process = job.start()
    job.wait_for_round(1, process)
    process.kill()
    process.join()
    shift()
    end(job, whole)
    trained = finished(job.results / "trained")
    shift()
    end(job, whole)
    assert finished(job.results / "trained") == trained


@pytest.mark.parametrize("name", ["state.json", "*-0.safetensors", "*.parquet"])
def test_a_job_with_a_cut_checkpoint_says_so_and_starts_again(
    name: str, whole: Whole, tmp_path: Path
) -> None:
    job = Job(tmp_path)
    process = job.start()
    job.wait_for_round(3, process)
    process.kill()
    process.join()
    (state,) = (job.results / "trained").glob("*.checkpoint/state.json")
    # A file of a round that was not saved completely may lie beside that of the saved round.
    for path in state.parent.glob(name):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
    end(job, whole)
    said = [line for line in job.log.read_text().splitlines() if "checkpoint" in line]
    assert len(said) == 1
    assert "is damaged" in said[0]
    assert not job.resumed
