"""Kills and other ends: the restarted study loses nothing and gives the same bits.

`PLFL_KILLS=50` sets how many seeded kills a test makes, `PLFL_KILL_SEED` which.
"""

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plfl.pipeline.locks import hold
from tests.helpers.faults import kills
from tests.helpers.faults.kills import (
    IMAGES,
    PATIENCE,
    RECORDS,
    VICTIMS,
    Study,
    Undisturbed,
    clearing,
    until,
)

KILLS = int(os.environ.get("PLFL_KILLS", "3"))
SEED = int(os.environ.get("PLFL_KILL_SEED", "1"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return kills.undisturbed(tmp_path_factory.mktemp("undisturbed"))


def test_kills(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """One study after the other is killed up to three times, then left to finish."""
    dice = random.Random(SEED)
    counts = Counter(dict.fromkeys(VICTIMS, 0))
    studies = resumed = 0
    while counts.total() < KILLS:
        most = min(3, KILLS - counts.total())
        folder = tmp_path / str(studies)
        resumed += kills.survive_kills(dice, most, counts, undisturbed, folder)
        studies += 1
    print(f"{counts.total()} kills {dict(counts)}, {studies} studies, {resumed} resumed")


def test_kills_of_a_training_on_images(tmp_path: Path) -> None:
    whole = kills.undisturbed_job(tmp_path / "undisturbed", **IMAGES)
    dice = random.Random(SEED)
    killed, resumed = kills.survive_job_kills(dice, KILLS, whole, tmp_path / "killed", **IMAGES)
    assert killed
    assert resumed
    print(f"{killed} kills, {resumed} resumed, {whole.seconds:.1f} s undisturbed")


def test_a_second_snakemake_is_refused(tmp_path: Path) -> None:
    study = Study(tmp_path)
    with hold(study.results / ".lock"):
        status, said = study.snakemake(RECORDS)
    assert status
    assert "results/own: another Snakemake" in said
    assert "Traceback" not in said


def test_ctrl_c_loses_nothing(undisturbed: Undisturbed, tmp_path: Path) -> None:
    study = Study(tmp_path)
    with clearing(study.start()) as first:
        assert until(study.training, first), study.said
        kept = study.trained()
        os.killpg(first.pid, signal.SIGINT)
        first.wait(PATIENCE)
        assert first.returncode != 0
        assert "Terminating processes on user request" in study.said
        for log in study.results.glob("logs/*/*.log"):
            assert "Traceback" not in log.read_text()
    with clearing(study.start()) as again:
        assert again.wait(PATIENCE) == 0, study.said
    assert study.records == undisturbed.records
    assert study.trained().items() >= kept.items()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that nobody can write into; root can be kept from it by a file system alone."""
    folder.mkdir(parents=True)
    if os.geteuid():
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("root can write anywhere, and nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_read_only_folder_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    """The folder of figures; a training would write to that of results only."""
    study = Study(tmp_path)
    with read_only(tmp_path / "figures" / "own"):
        status, said = study.snakemake(RECORDS)
        assert not list((tmp_path / "figures" / "own").iterdir())
    assert status
    assert "figures/own: cannot be written" in said
    assert "Traceback" not in said
