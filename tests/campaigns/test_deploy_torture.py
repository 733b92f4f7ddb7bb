"""Kills in the middle of rounds, at moments that the seed in the name of the test tells.

In a short run of three clients one process of each kind is killed. The run has to end by itself and
to equal, bit for bit, a simulation in which took part who did. Messages are coded, with memories at
both ends, where the seed is odd.
"""

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
import yaml

from plfl.data.prepare import load_dataset
from plfl.deploy.check import compare, replay, study_of
from plfl.deploy.folders import CellFolders
from plfl.study import Study

KINDS = {
    "SuperNode": "flower-supernode",
    "ClientApp": "flwr-clientapp",
    "ServerApp": "flwr-serverapp",
    "SuperLink": "flower-superlink",
}
"""Whom to kill, and what its command line has in it."""
CLIENTS, ROUNDS, STEPS, LIMIT = 3, 10, 200, 3600
MARK = "PLFL_TORTURE"
"""Environment variable with the folder of a run, which all of its processes inherit."""
CODED = {"up": "ef21+q3+rc", "down": "delta+q3+rc"}
"""`channel` of runs whose messages are coded."""


def processes(folder: Path) -> list[psutil.Process]:
    """The processes of a run in `folder`, which their environment names."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == str(folder):
                found.append(process)
    return sorted(found, key=lambda process: process.pid)


def kill(kind: str, folder: Path, chance: random.Random) -> bool:
    """Kill a process of a kind; whether there was one."""
    there = []
    for process in processes(folder):
        with suppress(psutil.Error):
            if KINDS[kind] in " ".join(process.cmdline()):
                there.append(process)
    if there:
        chance.choice(there).kill()
    return bool(there)


@pytest.mark.parametrize("seed", range(5))
def test_a_run_survives_kills_of_every_kind(seed: int, tmp_path: Path) -> None:
    chance, kinds = random.Random(seed), list(KINDS)
    chance.shuffle(kinds)
    raw = study_of(CLIENTS, ROUNDS, tmp_path / "data")
    raw["federation"] = {"rounds": ROUNDS, "local_steps": STEPS, "evaluate_every": ROUNDS}
    raw["channel"] = CODED if seed % 2 else {}
    study = Study.parse(raw, "torture")
    folders = CellFolders(study, study.cells[0], tmp_path)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    dataset = load_dataset(study, folders.cell.state)  # clients find the files that they need
    command = [sys.executable, "-m", "plfl", "deploy", "--config", str(tmp_path / "study.yaml")]
    command += ["--minimum", "2", "--timeout", "60", "--patience", "900"]
    begun, after = time.monotonic(), 1
    environment = os.environ | {MARK: str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as run:
        while run.poll() is None and time.monotonic() - begun < LIMIT:
            if kinds and len(folders.history) >= after:
                time.sleep(chance.uniform(0.0, 4.0))
                while not kill(kinds[0], tmp_path, chance):
                    assert run.poll() is None, "the run was over before"
                    time.sleep(0.02)
                after = len(folders.history) + 2
                kinds.pop(0)
            time.sleep(0.1)
        run.terminate()
    assert run.returncode == 0
    assert not kinds, "the run was over before"
    assert not list(compare(folders, *replay(study, folders.cell, dataset, folders.history)))
    time.sleep(1)
    assert not processes(tmp_path)
