"""Kills and other ends: the restarted study loses nothing and gives the same bits.

`PLFL_KILLS=50` sets how many seeded kills `test_kills` makes, `PLFL_KILL_SEED` which.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
import yaml

from plfl.locks import hold
from tests.test_workflow import ROOT, Project

KILLS = int(os.environ.get("PLFL_KILLS", "3"))
SEED = int(os.environ.get("PLFL_KILL_SEED", "1"))
RECORDS = "results/own/records.parquet"
VICTIMS = ("job", "snakemake", "both")
PATIENCE = 120.0
"""Seconds after which something is taken to hang."""


class Study(Project):
    """A study whose trainings take some seconds, so that there is time to end them."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.config["data"]["states"] = ["North"]
        self.config["grid"]["personalization"] = ["P2", "P3"]
        self.config["federation"] = {"rounds": 40, "local_steps": 20, "evaluate_every": 10}
        self.config["compute"] = {"checkpoint_seconds": 0.1, "engine": "stacked"}
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
            )

    @property
    def said(self) -> str:
        """What the Snakemake started last has said."""
        return (self.folder / "said.txt").read_text()

    @property
    def records(self) -> bytes:
        return (self.folder / RECORDS).read_bytes()

    def trained(self) -> dict[str, int]:
        """The finished cells and the files that they are in."""
        folder = self.results / "trained"
        cells = [file.name.split(".")[0] for file in folder.glob("[!.]*.forecasts.parquet")]
        files = [folder / f"{cell}.parquet" for cell in cells]
        return {file.stem: file.stat().st_ino for file in files if file.exists()}

    def training(self) -> bool:
        """Whether a training job has saved a round."""
        return any((self.results / "trained").glob("*.checkpoint/state.json"))

    def resumed(self, since: float) -> int:
        """How many training jobs went on after a saved round since this time."""
        logs = [p for p in self.results.glob("logs/train/*.log") if p.stat().st_mtime > since]
        return sum("goes on after round" in log.read_text() for log in logs)


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
    trained: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    study = Study(tmp_path_factory.mktemp("undisturbed"))
    begun = time.monotonic()
    with clearing(study.start()) as run:
        assert run.wait(PATIENCE) == 0, study.said
    return Undisturbed(study.records, time.monotonic() - begun, set(study.trained()))


def test_kills(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """One study after the other is killed up to three times, then left to finish."""
    draw = random.Random(SEED)
    kills = dict.fromkeys(VICTIMS, 0)
    resumed = 0
    finished = 0
    while sum(kills.values()) < KILLS:
        study = Study(tmp_path / str(finished))
        kept: dict[str, int] = {}
        done = False
        groups = []
        try:
            while not done:
                begun = time.time()
                run = study.start()
                groups.append(run)
                # The first kill of every other study meets the training, the rest any phase.
                aimed = finished % 2 == 0 and len(groups) == 1
                come = not aimed or until(study.training, run)
                share = draw.uniform(0, 0.1 if aimed else 1)
                moment = time.monotonic() + share * undisturbed.seconds
                victim = min(VICTIMS, key=lambda v: (kills[v], draw.random()))
                last = len(groups) > len(VICTIMS) or sum(kills.values()) >= KILLS
                waited = come and not last and until(partial(passed, moment), run)
                if waited and kill(victim, run):
                    kills[victim] += 1
                else:
                    done = run.wait(PATIENCE) == 0
                    assert done, study.said
                resumed += study.resumed(begun)
                trained = study.trained()
                assert {name: trained.get(name) for name in kept} == kept
                kept = trained
        finally:
            for run in groups:
                with clearing(run):
                    pass
        assert study.records == undisturbed.records
        assert kept.keys() == undisturbed.trained
        assert not list(study.results.glob("trained/*.checkpoint"))
        finished += 1
    print(f"{sum(kills.values())} kills {kills}, {finished} studies, {resumed} resumed")


def test_a_second_snakemake_is_refused(tmp_path: Path) -> None:
    study = Study(tmp_path)
    with hold(study.results / ".lock"):
        second = study.snakemake(RECORDS)
    said = second.stdout + second.stderr
    assert second.returncode != 0
    assert "results/own: another Snakemake is at work on this study; wait until" in said
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_results_folder_is_named(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.results.mkdir(parents=True)
    study.results.chmod(0o555)
    run = study.snakemake(RECORDS)
    assert run.returncode != 0
    assert "results/own: cannot be written" in run.stdout + run.stderr
    assert not list(study.results.iterdir())
