"""Ends of the whole workflow: the restarted study loses nothing and gives the same bits."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plfl.base.files import hold
from tests.helpers.faults.kills import RECORDS, Job, Study, kill, press_ctrl_c, survive_ends


def test_a_study_that_is_ended_twice_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    """By `kill -9` of a job and Snakemake, and by Ctrl-C, each after a round of the training."""
    undisturbed = Job(Study(tmp_path / "undisturbed"))
    whole = undisturbed.finish()
    study = Study(tmp_path / "ended")
    cells = [study.folder / p.relative_to(undisturbed.study.folder) for p in undisturbed.outputs]
    survive_ends(study, [kill, press_ctrl_c], str(cells[0].relative_to(study.folder)))
    logs = [log.read_text() for log in study.results.glob("logs/**/*.log")]
    assert logs and not any("Traceback" in log for log in logs)
    assert [path.read_bytes() for path in cells] == whole


def test_a_second_snakemake_is_refused(tmp_path: Path) -> None:
    study = Study(tmp_path)
    with hold(study.results / ".lock"):
        status, said = study.snakemake(RECORDS)
    assert status
    assert "results/own: another Snakemake" in said
    assert "Traceback" not in said


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
