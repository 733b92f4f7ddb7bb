"""A tracked study for all tests here: making an MLflow database takes seconds."""

import os
import socket
import subprocess
import sys
from contextlib import chdir, contextmanager

import pytest

from tests.helpers import fake_results
from tests.helpers.fake_results import TINY


@pytest.fixture(scope="session")
def tracked(tmp_path_factory):
    """A tracked results folder, not to be changed, in which one of three cells has diverged.

    It was tracked from the working directory `here` beside it.
    """
    from plfl.publish.tracking.store import track

    folder = tmp_path_factory.mktemp("tracked") / "tiny"
    fake_results.write(folder, TINY, diverged=("CA-P3-fedopt-adam-fedavg-10",))
    measured(folder, "train/CA-P2", 61)
    measured(folder, "baselines/CA", 7)
    (folder.parent / "here").mkdir()
    with chdir(folder.parent / "here"):
        track(folder)
    return folder


def measured(folder, name, seconds, end=1_700_000_000):
    """The file that Snakemake writes of a job, which took so many seconds."""
    path = folder / "benchmarks" / f"{name}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\th:m:s\tmax_rss\n{seconds}\t0:00:00\t1.00\n")
    os.utime(path, (end, end))


@pytest.fixture(scope="module")
def free_port():
    """A port on which nothing listens but what a test of this module starts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def serving():
    """Context manager: a process that serves a results folder and is asked to end afterwards."""
    code = (
        "import pathlib, sys; from plfl.publish.tracking.server import serve; "
        "sys.exit(serve(pathlib.Path(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3))"
    )

    @contextmanager
    def start(folder, port, *browse, **options):
        command = [sys.executable, "-P", "-c", code, folder, str(port), *browse]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        try:
            yield process
        finally:
            process.terminate()
            process.rest = process.communicate(timeout=30)[0]

    return start
