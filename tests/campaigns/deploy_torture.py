"""Kills in the middle of rounds: `python -m tests.campaigns.deploy_torture [KILLS] [FIRST SEED]`.

In each short run of three clients one process of each kind is killed, in an order and at moments
that the seed tells. The run has to end by itself and to equal, bit for bit, a simulation in which
took part who did. Messages are coded, with memories at both ends, where the seed is odd. The last
line counts the kills of runs of which that is true.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import yaml

from plfl.config.study import Study
from plfl.data.prepare import load_dataset
from plfl.deploy.check import compare, study_of
from plfl.deploy.folders import CellFolders
from plfl.deploy.protocol.replay import replay

KINDS = {
    "SuperNode": "plfl.deploy.flower.programs supernode",
    "ClientApp": "plfl.deploy.flower.programs superexec",
    "ServerApp": "flwr-serverapp",
    "SuperLink": "plfl.deploy.flower.programs superlink",
}
"""Whom to kill, and what its command line has in it; a ClientApp is a copy of its SuperExec."""
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


def kill(kind: str, folder: Path, chance: random.Random) -> str | None:
    """Kill a process of a kind; what it was, or None if there is none."""
    there = []
    for process in processes(folder):
        with suppress(psutil.Error):
            if KINDS[kind] in " ".join(process.cmdline()):
                there.append(process)
    if kind == "ClientApp":
        there = [process for process in there if process.parent() in there]
    if not there:
        return None
    victim = chance.choice(there)
    victim.kill()
    return f"{kind} {victim.pid}"


def torment(seed: int, kinds: list[str]) -> int:
    """One run; how many were killed in it."""
    chance = random.Random(seed)
    chance.shuffle(kinds)
    here = Path(tempfile.mkdtemp(prefix="plfl-deploy-torture-"))
    raw = study_of(CLIENTS, ROUNDS, here / "data")
    raw["federation"] = {"rounds": ROUNDS, "local_steps": STEPS, "evaluate_every": ROUNDS}
    raw["channel"] = CODED if seed % 2 else {}
    study = Study.parse(raw, "torture")
    folders = CellFolders(study, study.cells[0], here)
    (here / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    load_dataset(study, folders.cell.state)  # clients find the files that they need
    command = [sys.executable, "-m", "plfl", "deploy", "--config", str(here / "study.yaml")]
    command += ["--minimum", "2", "--timeout", "60", "--patience", "900"]
    begun, killed = time.monotonic(), 0
    environment = os.environ | {MARK: str(here)}
    with (here / "log").open("wb") as log:
        ran = subprocess.Popen(command, cwd=here, stdout=log, stderr=log, env=environment)
        after = 1
        while ran.poll() is None and time.monotonic() - begun < LIMIT:
            if kinds and len(folders.history) >= after:
                time.sleep(chance.uniform(0.0, 4.0))
                while kinds and ran.poll() is None:
                    if what := kill(kinds[0], here, chance):
                        killed, after = killed + 1, len(folders.history) + 2
                        print(f"seed {seed}: {what} killed in round {after - 1}", flush=True)
                        kinds.pop(0)
                        break
                    time.sleep(0.02)
            time.sleep(0.1)
    if ran.poll() is None:
        ran.terminate()
        ran.wait(60)
    problems = [] if ran.returncode == 0 else [f"ended with {ran.returncode}"]
    if not problems:
        dataset = load_dataset(study, folders.cell.state)
        problems = list(compare(folders, *replay(study, folders.cell, dataset, folders.history)))
    time.sleep(1)
    problems += [f"left over: {process}" for process in processes(here)]
    took = [len(summary.took_part) for summary in folders.history]
    print(f"seed {seed}: {time.monotonic() - begun:.0f} s, took part: {took}", flush=True)
    for problem in problems:
        print(f"seed {seed}, see {here}: {problem}", flush=True)
    if problems:
        return 0
    shutil.rmtree(here)
    return killed


def main(kills: int, seed: int) -> int:
    """Run until there were enough kills; exit status."""
    good = tried = 0
    while tried < kills:
        kinds = list(KINDS)[: kills - tried]
        tried += len(kinds)
        good += torment(seed, kinds)
        seed += 1
    print(f"kills {good}/{kills}", flush=True)
    return int(good != kills)


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    sys.exit(main(*(given + [20, 0][len(given) :])))
