"""A disk that is full, a clock that goes backwards, Ctrl-C: nothing is lost, nothing doubled.

The training job is the one that Snakemake starts, in a process of its own; see `kills.Job`.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

# Everything a job needs, imported once for all that are forked from here.
from plfl.base.errors import PlflError
from plfl.results.records import write_table
from tests.helpers.faults.kills import PATIENCE, Job, Whole, finished, leftovers, undisturbed_job
from tests.helpers.refusals import naming
from tests.helpers.tiny import dataset


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


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_ctrl_c_ends_a_job_with_a_word(share: float, whole: Whole, tmp_path: Path) -> None:
    job = Job(tmp_path)
    process = job.start()
    process.join(share * whole.seconds)
    assert process.pid is not None
    with suppress(ProcessLookupError):  # it may have been faster than the one that was timed
        os.kill(process.pid, signal.SIGINT)
    process.join(PATIENCE)
    # Before the job is under way, Python (1) or the signal itself ends it.
    assert process.exitcode in (0, 1, -signal.SIGINT, 130)
    if process.exitcode == 130:
        assert "interrupted; run the workflow again" in job.log.read_text()
        assert "Traceback" not in job.log.read_text()
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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a disk of 64 kB cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full_is_explained(small_disk: Path) -> None:
    table = pd.DataFrame({"load": range(100)})
    write_table(table, small_disk / "records.parquet")
    noise = pd.DataFrame({"load": np.random.default_rng(1).random(10_000)})
    before = (small_disk / "records.parquet").read_bytes()
    (small_disk / "other").write_bytes(bytes(40_000))
    full = "the disk is full; free some space, then run again"
    with naming(PlflError, full):
        write_table(noise, small_disk / "records.parquet")
    with naming(PlflError, full):
        dataset(rows=4000).save(small_disk / "CA.npz")
    assert (small_disk / "records.parquet").read_bytes() == before
    assert {path.name for path in small_disk.iterdir()} == {"records.parquet", "other"}
