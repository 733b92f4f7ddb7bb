"""Kills in the middle of rounds: `python -m tests.campaigns.deploy_torture [KILLS] [FIRST SEED]`.

In each short run of three clients one process of each kind is killed, in an order and at moments
that the seed tells. The run has to end by itself and to equal, bit for bit, a simulation in which
took part who did. Messages are coded, with memories at both ends, where the seed is odd. The last
line counts the kills of runs of which that is true.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from plfl.config.study import Study
from plfl.data import sources, windows
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
CODED = {"up": "ef21+q3+rc", "down": "delta+q3+rc"}
"""`channel` of runs whose messages are coded."""


def processes(folder: Path) -> dict[int, tuple[str, int]]:
    """Command lines of the processes that work in `folder`, by number, and their parents."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (path / "environ").read_bytes():
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
                found[int(path.name)] = command, int(parent)
        except OSError:
            continue
    return found


def kill(kind: str, folder: Path, chance: random.Random) -> str | None:
    """Kill a process of a kind; what it was, or None if there is none."""
    there = processes(folder)
    numbers = [n for n, (command, _) in there.items() if KINDS[kind] in command]
    if kind == "ClientApp":
        numbers = [n for n in numbers if there[n][1] in numbers]
    if not numbers:
        return None
    number = chance.choice(sorted(numbers))
    os.kill(number, signal.SIGKILL)
    return f"{kind} {number}"


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
    sources.of(study.data).fetch(study.data, folders.cell.state)
    command = [sys.executable, "-m", "plfl", "deploy", "--config", str(here / "study.yaml")]
    command += ["--minimum", "2", "--timeout", "60", "--patience", "900"]
    begun, killed = time.monotonic(), 0
    environment = os.environ | {"PLFL_TORTURE": str(here)}
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
        dataset = windows.build(
            sources.of(study.data).load(study.data, folders.cell.state), study.windows
        )
        problems = list(compare(folders, *replay(study, folders.cell, dataset, folders.history)))
    time.sleep(1)
    problems += [f"left over: {command}" for command, _ in processes(here).values()]
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
