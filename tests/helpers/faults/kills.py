"""Studies that are killed, restarted as docs/restart.md says, and compared with an undisturbed run.

Two ways to meet a `kill -9`: the whole workflow, where a job, Snakemake or both are killed, and the
training job alone, which is forked from a process that has everything imported, so that many kills
take little time.
"""

import json
import multiprocessing
import os
import random
import resource
import runpy
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import yaml

from plfl.base.files import sweep
from plfl.config import study as configuration
from plfl.data import sources
from plfl.results.records import Files
from tests.test_workflow import ROOT, Project

RECORDS = "results/own/records.parquet"
VICTIMS = ("job", "snakemake", "both")
PATIENCE = 900.0
"""Seconds after which something is taken to hang: a busy machine may be slow."""

Trained = dict[str, int]
"""Finished cells and the inodes of the files that they are in."""


class Wildcards(dict[str, str]):
    """As in Snakemake: looked up by name, but iterated over by value."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.values())


IMAGES: dict[str, Any] = {
    "data": {"source": "digits", "states": ["digits"], "clients": 5},
    "task": {"name": "classify"},
    "model": {"name": "cnn"},
    "sharing": {"all": ["*"]},
    "grid": {"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": ["all"]},
    "federation": {"rounds": 12, "local_steps": 5, "evaluate_every": 4, "batch_size": 8},
}
"""What differs in the configuration of a study of images."""


class Study(Project):
    """A study whose trainings take seconds, so that there is time to end them."""

    def __init__(self, folder: Path, **blocks: Any):
        super().__init__(folder)
        self.config["grid"]["sharing"] = ["P2", "P3"]
        self.config["federation"] = {"rounds": 40, "local_steps": 20, "evaluate_every": 10}
        self.config["compute"] = {"checkpoint_seconds": 0.1, "engine": "stacked"}
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

    @property
    def records(self) -> bytes:
        """The study's table."""
        return (self.folder / RECORDS).read_bytes()

    def trained(self) -> Trained:
        """The cells that are finished."""
        return finished(self.results / "trained")

    def training(self) -> bool:
        """Whether a training job has saved a round."""
        return any((self.results / "trained").glob("*.checkpoint/state.json"))

    def resumed(self, since: float) -> int:
        """How many training jobs went on after a saved round since this time."""
        logs = [p for p in self.results.glob("logs/train/*.log") if p.stat().st_mtime > since]
        return sum("continues after round" in log.read_text() for log in logs)


def finished(folder: Path) -> Trained:
    """The finished cells in a folder of trained ones."""
    files = [seal.with_suffix(".parquet") for seal in folder.glob("[!.]*.sha256")]
    return {file.stem: file.stat().st_ino for file in files}


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


def passed(moment: float) -> bool:
    """Whether this moment of the monotonic clock lies behind."""
    return time.monotonic() > moment


def jobs(snakemake: subprocess.Popen[str]) -> list[psutil.Process]:
    """The scripts that a Snakemake runs now."""
    try:
        below = psutil.Process(snakemake.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [p for p in below if not _gone(p) and "scripts" in " ".join(_command(p))]


def _gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def kill(victim: str, snakemake: subprocess.Popen[str]) -> bool:
    """`kill -9` of the victim; whether there was one."""
    if victim != "snakemake" and not until(lambda: bool(jobs(snakemake)), snakemake):
        return False
    if snakemake.poll() is not None:
        return False
    targets = jobs(snakemake) if victim != "snakemake" else []
    if victim != "job":
        snakemake.kill()
    for target in targets:
        try:
            target.kill()
        except psutil.NoSuchProcess:
            continue
    # A Snakemake that lost a job ends by itself, and says so.
    snakemake.wait(PATIENCE)
    return victim != "job" or snakemake.returncode != 0


@dataclass
class Undisturbed:
    """A run that nothing happened to."""

    records: bytes
    seconds: float
    trained: set[str]


def undisturbed(folder: Path) -> Undisturbed:
    """The study, run once from beginning to end."""
    study = Study(folder)
    begun = time.monotonic()
    with clearing(study.start()) as run:
        assert run.wait(PATIENCE) == 0, study.said
    return Undisturbed(study.records, time.monotonic() - begun, set(study.trained()))


def survive_kills(
    dice: random.Random, most: int, kills: Counter[str], whole: Undisturbed, folder: Path
) -> int:
    """Kill one study at up to `most` random moments, then let it finish.

    Its records are those of the undisturbed run, no finished cell was trained again, and nothing
    half-written is left.

    Args:
        dice: draws the moments, and the victims among those least often killed.
        most: kills at most, one or more.
        kills: counts the victims.
        whole: the undisturbed run.
        folder: where the study is made.

    Returns:
        How many trainings went on after a saved round.
    """
    study = Study(folder)
    # The first kill of every other study meets the training, the rest any phase.
    aimed = dice.random() < 0.5
    goal, resumed = kills.total() + most, 0
    kept: Trained = {}
    groups: list[subprocess.Popen[str]] = []
    done = False
    try:
        while not done:
            begun = time.time()
            run = study.start()
            groups.append(run)
            first = aimed and len(groups) == 1
            come = not first or until(study.training, run)
            share = dice.uniform(0, 0.1 if first else 1)
            moment = time.monotonic() + share * whole.seconds
            victim = min(VICTIMS, key=lambda v: (kills[v], dice.random()))
            last = len(groups) > 2 * most or kills.total() >= goal
            waited = come and not last and until(partial(passed, moment), run)
            if waited and kill(victim, run):
                kills[victim] += 1
            else:
                done = run.wait(PATIENCE) == 0
                assert done, study.said
            resumed += study.resumed(begun)
            trained = study.trained()
            assert {name: trained.get(name) for name in kept} == kept, "trained again"
            kept = trained
    finally:
        for run in groups:
            with clearing(run):
                pass
    assert study.records == whole.records, "other records"
    assert kept.keys() == whole.trained
    assert not leftovers(study.results)
    return resumed


PHASES = {
    RECORDS: ("download", "windows", "train", "collect"),
    "all": ("download", "windows", "train", "collect", "figures", "page", "track"),
}
"""What has to be done for a target, in turn."""


def survive_interrupts(
    dice: random.Random, most: int, target: str, whole: Undisturbed, folder: Path
) -> int:
    """Press Ctrl-C in every phase of one study, shortly after it has begun, then let it finish.

    Args:
        dice: draws the moments.
        most: how often at most.
        target: what the study is made for; one of `PHASES`.
        whole: the undisturbed run.
        folder: where the study is made.

    Returns:
        How often the key was pressed before the study had finished.
    """
    study = Study(folder)
    pressed = 0
    kept: Trained = {}
    for phase in PHASES[target]:
        known = time.time()

        def begun(phase: str = phase, known: float = known) -> bool:
            logs = study.results.glob(f"logs/{phase}*")
            files = [file for log in logs for file in (log.rglob("*") if log.is_dir() else [log])]
            return any(file.stat().st_mtime > known for file in files)

        if pressed == most:
            break
        with clearing(study.start(target)) as run:
            if until(begun, run):
                time.sleep(dice.uniform(0, 0.5))
                os.killpg(run.pid, signal.SIGINT)
                pressed += run.wait(PATIENCE) != 0
        for log in study.results.glob("logs/**/*.log"):
            assert "Traceback" not in log.read_text(), f"{phase}: {log}: {log.read_text()}"
        trained = study.trained()
        assert {name: trained.get(name) for name in kept} == kept, "trained again"
        kept = trained
    with clearing(study.start(target)) as run:
        assert run.wait(PATIENCE) == 0, study.said
    assert study.records == whole.records, "other records"
    assert not leftovers(study.results)
    return pressed


# -- the training job alone ----------------------------------------------------------------------


class Job:
    """The training job of `Study` as Snakemake starts it, in a process forked from this one."""

    def __init__(self, folder: Path, **blocks: Any):
        self.study = Study(folder, **blocks)
        self.study.config["grid"]["sharing"] = self.study.config["grid"]["sharing"][:1]
        self.study.config["compute"]["checkpoint_seconds"] = 0
        self.results = self.study.results
        with chdir(folder):  # the configuration names files in it
            self.parsed = configuration.Study.parse(self.study.config, "the job's")
            (self.state,) = self.parsed.data.states
            self.dataset = self.results / "data" / f"{self.state}.npz"
            sources.of(self.parsed.data).save(self.parsed, self.state, self.dataset)

    @property
    def outputs(self) -> list[Path]:
        """The files of its cells: all records, then all forecasts, then all errors."""
        folder = self.results / "cells"
        of_cells = [Files.of(folder, str(cell)) for cell in self.parsed.cells]
        return [path for paths in zip(*of_cells, strict=True) for path in paths]

    @property
    def log(self) -> Path:
        """Where it says what it does."""
        return self.results / "logs" / "train.log"

    @property
    def resumed(self) -> bool:
        """Whether it went on after a saved round when it was started last."""
        return self.log.exists() and "continues after round" in self.log.read_text()

    def wait_for_round(self, t: int, process: BaseProcess) -> None:
        """Wait until the process has saved round `t` or a later one, or has ended."""
        while process.exitcode is None:
            with suppress(FileNotFoundError):  # a finished job removes its checkpoint
                states = (self.results / "trained").glob("*.checkpoint/state.json")
                if any(json.loads(state.read_text())["round"] >= t for state in states):
                    break
            process.join(0.01)

    def start(self, limit: int = resource.RLIM_INFINITY) -> BaseProcess:
        """Begin, as Snakemake does: without half-written files and unfinished outputs.

        Args:
            limit: bytes that a file may have.
        """
        sweep(self.results)
        for path in (*self.outputs, self.log):
            path.unlink(missing_ok=True)
        process = multiprocessing.get_context("fork").Process(target=self._run, args=(limit,))
        process.start()
        return process

    def _run(self, limit: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(self.study.folder)
        names = [str(path.relative_to(self.study.folder)) for path in self.outputs]
        stub = SimpleNamespace(
            input=SimpleNamespace(dataset=str(self.dataset.relative_to(self.study.folder))),
            output=SimpleNamespace(records=names[: len(self.parsed.cells)]),
            log=[str(self.log.relative_to(self.study.folder))],
            wildcards=Wildcards(state=self.state, sharing=self.parsed.grid.sharing[0]),
            config=self.study.config,
        )
        runpy.run_path(
            str(ROOT / "workflow/scripts/train.py"), {"snakemake": stub}, run_name="__main__"
        )


@dataclass
class Whole:
    """A training that nothing happened to."""

    outputs: list[bytes]
    seconds: float


def undisturbed_job(folder: Path, **blocks: Any) -> Whole:
    """The training job of a study, run once from beginning to end."""
    job = Job(folder, **blocks)
    begun = time.monotonic()
    process = job.start()
    process.join(PATIENCE)
    assert process.exitcode == 0, job.log.read_text()
    return Whole([path.read_bytes() for path in job.outputs], time.monotonic() - begun)


def survive_job_kills(
    dice: random.Random, most: int, whole: Whole, folder: Path, **blocks: Any
) -> tuple[int, int]:
    """Kill one training job at up to `most` random moments; see `survive_kills`.

    The first kill comes after a random round of the first half, the others at any time.

    Returns:
        How often it was killed before it had finished, and went on after a saved round.
    """
    job = Job(folder, **blocks)
    first = dice.randint(1, job.parsed.federation.rounds // 2)
    kills = resumed = 0
    kept: Trained = {}
    process = job.start()
    while kills < most:
        if kills:
            process.join(dice.random() * whole.seconds)
        else:
            job.wait_for_round(first, process)
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
        kills += 1
        resumed += job.resumed
        kept |= finished(job.results / "trained")
        process = job.start()
    process.join(PATIENCE)
    assert process.exitcode == 0, job.log.read_text()
    resumed += job.resumed
    again = finished(job.results / "trained")
    assert {name: again.get(name) for name in kept} == kept, "trained again"
    assert [path.read_bytes() for path in job.outputs] == whole.outputs, "other records"
    assert not leftovers(job.results)
    return kills, resumed
