"""Studies that are killed, restarted and compared with an undisturbed one (docs/reliability.md).

Two ways to meet a `kill -9`: the whole workflow, where a job, Snakemake or both are killed, and the
training job alone, which is forked from a process that has everything imported, so that many kills
take little time.
"""

import multiprocessing
import os
import resource
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import yaml

import plfl.pipeline.training  # noqa: F401 (what a job needs, for all that are forked from here)
from plfl import study as configuration
from plfl.base.files import remove_temporary_files
from plfl.data import sources
from plfl.federated.checkpoint import Checkpoint
from plfl.results.records import RecordFiles
from tests.helpers.projects import Project
from tests.helpers.repository import ROOT

RECORDS = "results/own/records.parquet"
PATIENCE = 900.0
"""Seconds after which something is taken to hang: a busy machine may be slow."""

Trained = dict[str, int]
"""Finished cells and the inodes of the files that they are in."""


class Wildcards(dict[str, str]):
    """As in Snakemake: looked up by name, but iterated over by value."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.values())


class Study(Project):
    """A study that saves every round; its trainings take seconds, so there is time to end them."""

    def __init__(self, folder: Path, **blocks: Any):
        super().__init__(folder)
        self.config["grid"]["sharing"] = ["P2"]
        self.config["federation"] = {"rounds": 20, "local_steps": 5, "evaluate_every": 10}
        self.config["compute"] = {"checkpoint_seconds": 0, "engine": "stacked"}
        self.config |= blocks
        (folder / "my.yaml").write_text(yaml.safe_dump(self.config))

    def start(self, target: str = RECORDS) -> subprocess.Popen[str]:
        """Snakemake, begun in a process group of its own, as in a terminal."""
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        command += [target, "--cores", "2", "--configfile", "my.yaml", "--nocolor"]
        with (self.folder / "said.txt").open("w") as said:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                # What runs in the background of a shell ignores Ctrl-C, and so would this.
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )

    @property
    def said(self) -> str:
        """What the Snakemake started last has said."""
        return (self.folder / "said.txt").read_text()

    def has_saved(self, since: float) -> bool:
        """Whether a training has saved a round since then."""
        times = []
        for file in self.results.glob("trained/*.checkpoint/state.json"):
            with suppress(FileNotFoundError):  # a finished job removes its checkpoint
                times.append(file.stat().st_mtime)
        return any(at > since for at in times)

    def resumed(self, since: float) -> int:
        """How many training jobs went on after a saved round since this time."""
        logs = [p for p in self.results.glob("logs/train/*.log") if p.stat().st_mtime > since]
        return sum("continues after round" in log.read_text() for log in logs)


def finished(results: Path) -> Trained:
    """The cells that are finished."""
    last = ".errors.parquet"  # of the files of a cell, the one that is written last
    names = [path.name.removesuffix(last) for path in results.glob(f"trained/[!.]*{last}")]
    return {name: (results / "trained" / f"{name}.parquet").stat().st_ino for name in names}


def leftovers(folder: Path) -> list[Path]:
    """What a finished study has no use for: half-written files and checkpoints."""
    return [path for name in (".tmp-*", "*.checkpoint") for path in folder.rglob(name)]


# -- the whole workflow --------------------------------------------------------------------------


@contextmanager
def clearing(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End what is left of a process group."""
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(true: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Wait for something to come true; False if the process ends before."""
    end = time.monotonic() + PATIENCE
    while not true():
        if process.poll() is not None:
            return False
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)
    return True


def jobs(snakemake: subprocess.Popen[str]) -> list[psutil.Process]:
    """The scripts that a Snakemake runs now."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(snakemake.pid).children(recursive=True):
            with suppress(psutil.Error):
                if "scripts" in " ".join(process.cmdline()):
                    found.append(process)
    return found


def kill(snakemake: subprocess.Popen[str]) -> None:
    """`kill -9` of Snakemake and of the job that it runs."""
    assert until(lambda: bool(jobs(snakemake)), snakemake)
    targets = jobs(snakemake)
    snakemake.kill()
    for target in targets:
        with suppress(psutil.NoSuchProcess):
            target.kill()


def press_ctrl_c(snakemake: subprocess.Popen[str]) -> None:
    """Interrupt Snakemake and its jobs, as a terminal does."""
    os.killpg(snakemake.pid, signal.SIGINT)


def survive_ends(
    study: Study, ends: Sequence[Callable[[subprocess.Popen[str]], None]], target: str
) -> None:
    """End a study in each way after a round of its training was saved, then let it finish.

    It goes on after the saved round each time, no finished cell is trained again, and nothing
    half-written is left.
    """
    kept: Trained = {}
    for end in [*ends, None]:
        begun = time.time()
        with clearing(study.start(target)) as run:
            if end is not None:
                assert until(partial(study.has_saved, begun), run), "it had finished before"
                end(run)
            failed = run.wait(PATIENCE) != 0
            assert failed == (end is not None), study.said
        trained = finished(study.results)
        assert {name: trained.get(name) for name in kept} == kept, "trained again"
        kept = trained
        if end is not ends[0]:
            assert study.resumed(begun)
    assert not leftovers(study.results)


# -- the training job alone ----------------------------------------------------------------------


class Job:
    """The training job of a study as Snakemake starts it, in a process forked from this one."""

    def __init__(self, study: Study):
        self.study, self.results = study, study.results
        with chdir(study.folder):  # the configuration names files in it
            self.parsed = configuration.Study.parse(study.config, "the job's")
            (self.state,) = self.parsed.data.states
            self.dataset = self.results / "data" / f"{self.state}.npz"
            sources.source_of(self.parsed.data).save(self.parsed, self.state, self.dataset)

    @property
    def outputs(self) -> list[Path]:
        """The files of its cells: all records, then all forecasts, then all errors."""
        folder = self.results / "cells"
        files_by_cell = [RecordFiles.in_folder(folder, str(cell)) for cell in self.parsed.cells]
        return [path for paths in zip(*files_by_cell, strict=True) for path in paths]

    @property
    def log(self) -> Path:
        """Where it says what it does."""
        return self.results / "logs" / "train.log"

    @property
    def resumed(self) -> bool:
        """Whether it went on after a saved round when it was started last."""
        return self.log.exists() and "continues after round" in self.log.read_text()

    def start(self, limit: int = resource.RLIM_INFINITY, killed_after: int = 0) -> BaseProcess:
        """Begin, as Snakemake does: without half-written files and unfinished outputs.

        Args:
            limit: bytes that a file may have.
            killed_after: the round after which it is killed, when it is saved; 0 for none.
        """
        remove_temporary_files(self.results)
        for path in (*self.outputs, self.log):
            path.unlink(missing_ok=True)
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=self._run, args=(limit, killed_after))
        process.start()
        return process

    def finish(self) -> list[bytes]:
        """Run it to its end; what is in its outputs. Nothing half-written lies beside them."""
        process = self.start()
        process.join(PATIENCE)
        assert process.exitcode == 0, self.log.read_text()
        assert not leftovers(self.results)
        return [path.read_bytes() for path in self.outputs]

    def _run(self, limit: int, killed_after: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(self.study.folder)
        save = Checkpoint.save

        def saved(checkpoint: Checkpoint, t: int, *others: Any) -> None:
            save(checkpoint, t, *others)
            if t == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)

        Checkpoint.save = saved  # type: ignore[method-assign, assignment]
        names = [str(path.relative_to(self.study.folder)) for path in self.outputs]
        names_by_kind = np.reshape(names, (3, -1)).tolist()
        stub = SimpleNamespace(
            input=SimpleNamespace(datasets=[self.dataset.relative_to(self.study.folder)]),
            output=SimpleNamespace(**dict(zip(RecordFiles._fields, names_by_kind, strict=True))),
            log=[str(self.log.relative_to(self.study.folder))],
            wildcards=Wildcards(state=self.state, sharing=self.parsed.grid.sharing[0]),
            config=self.study.config,
        )
        runpy.run_path(
            str(ROOT / "workflow/scripts/train.py"), {"snakemake": stub}, run_name="__main__"
        )
