"""The processes of a server: a SuperLink, and a SuperExec with the ServerApp that runs the rounds.

They are started, watched, restarted after a crash, and ended together.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plfl.base.errors import PlflError
from plfl.base.files import write_text
from plfl.deploy.flower import runtime as flower
from plfl.deploy.folders import (
    APP_LOCK,
    APP_STARTED,
    CHECKPOINT,
    OUTCOME,
    PLAN,
    PROGRESS,
    SERVER_LOG,
    CellFolders,
)
from plfl.deploy.hosts.processes import Processes, ending_in_order, is_open
from plfl.deploy.protocol.policy import RoundPolicy, RoundSummary
from plfl.pipeline.locks import hold

if TYPE_CHECKING:  # needs cryptography, which comes with the extra `deploy`
    from plfl.deploy.hosts.keys import ServerKeys

log = logging.getLogger(__name__)

MAX_RESTARTS = 6
"""A server gives up after this many restarts of its processes."""
START = 300.0
"""Seconds within which a SuperLink must listen."""
SILENCE = 60.0
"""Seconds to wait for a ServerApp to start before asking Flower for its status."""
PAUSE = 0.2
"""Seconds between two checks of the processes and their files."""


@dataclass
class ServerProcesses:
    """The processes of a server; each is restarted if it dies."""

    group: Processes
    link: flower.Link
    home: Path
    """Folder for Flower's own files."""
    environment: dict[str, str]
    superlink: list[str]
    """Command of the SuperLink."""
    nodes: dict[int, str] | None = None
    """Names of the clients by the node ids of their keys; None: no authentication."""
    run: str = ""
    """Flower's id of the run."""
    restarts: int = 0
    """Number of restarts so far."""

    def start_link(self) -> None:
        """Start the SuperLink and wait until it listens."""
        self.group.start("superlink", self.superlink, self.environment)
        end = time.monotonic() + START
        while not is_open(self.link.address):
            self.group.check("superlink")
            if time.monotonic() > end:
                raise PlflError(
                    f"the SuperLink does not listen on {self.link.address} after {START:.0f} s; "
                    f"see {self.group.log('superlink')}"
                )
            time.sleep(PAUSE)

    def start_rounds(self, folder: Path) -> None:
        """Start a ServerApp, which continues after the last saved round."""
        (folder / APP_STARTED).unlink(missing_ok=True)
        if "superexec" not in self.group.running:
            command = flower.superexec(self.link)
            self.group.start("superexec", command, self.environment)
        self.run = flower.start_run(self.link, self.home)

    def count_restart(self, reason: str) -> None:
        """Count and log a restart."""
        self.restarts += 1
        if self.restarts > MAX_RESTARTS:
            raise PlflError(
                f"{reason}, after {MAX_RESTARTS} restarts; {self.group.log('superlink')} ends "
                f"with\n{self.group.tail('superlink')}\n{self.group.log('superexec')} ends with\n"
                f"{self.group.tail('superexec')}"
            )
        log.warning("%s; restarting it", reason)

    def died(self, name: str) -> bool:
        """Whether a process has died. If so, end the rest of its session and count a restart."""
        code = self.group.running[name].poll()
        if code is None:
            return False
        self.group.stop(name)
        self.count_restart(f"{name} ended with status {code}")
        return True


@contextmanager
def running_superlink(
    folder: Path, host: str, port: int, keys: ServerKeys | None
) -> Iterator[ServerProcesses]:
    """A SuperLink that listens and has registered its clients. It ends with the block. Without keys
    there is no encryption and no authentication."""
    certificates = None if keys is None else keys.certificates
    root = None if certificates is None else certificates[0].resolve()
    address = f"{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    link = flower.Link(address, root)
    home = folder / "flower"
    with ending_in_order(), Processes(folder / "logs") as group:
        environment = flower.environment(home, **{flower.FOLDER: str(folder.resolve())})
        # A restarted SuperLink continues from its database, which is removed at the end.
        database = home / "link.db"
        home.mkdir(parents=True, exist_ok=True)
        _remove(database)
        command = flower.superlink(host, port, database, certificates)
        processes = ServerProcesses(group, link, home, environment, command)
        processes.start_link()
        if keys is not None:
            processes.nodes = flower.register(link, home, keys.files)
        try:
            yield processes
        finally:
            group.stop(*reversed(group.running))
            _remove(database)


def _remove(database: Path) -> None:
    """Remove a database and the files that SQLite keeps next to it."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def run_rounds(
    processes: ServerProcesses,
    folders: CellFolders,
    policy: RoundPolicy,
    tell: Callable[[RoundSummary], None] = lambda summary: None,
) -> None:
    """Run the rounds of a cell; `tell` is called after each.

    Raises:
        PlflError: the ServerApp reports an error, or the processes die too often.
    """
    folder = folders.server
    for name in (PROGRESS, OUTCOME):
        (folder / name).unlink(missing_ok=True)
    plan = {
        "study": folders.study.model_dump(mode="json"),
        "folder": str(Path.cwd()),  # plug-ins are relative to it
        "cell": str(folders.cell),
        "policy": asdict(policy),
        "results": str(folders.results.resolve()),
        "nodes": processes.nodes,
    }
    write_text(folder / PLAN, json.dumps(plan))
    processes.start_rounds(folder)
    _watch(processes, folders, tell)
    # Only after the results are written: a restarted ServerApp needs the checkpoint.
    shutil.rmtree(folder / CHECKPOINT)


def _watch(
    processes: ServerProcesses, folders: CellFolders, tell: Callable[[RoundSummary], None]
) -> None:
    """Report the rounds until the ServerApp has written its outcome; restart processes that
    died."""
    reported, asked = 0, time.monotonic()
    folder, outcome = folders.server, folders.server / OUTCOME
    while True:
        ended = outcome.exists()
        for summary in folders.history[reported:]:
            tell(summary)
            reported += 1
        if ended:
            result = json.loads(outcome.read_text(encoding="utf-8"))
            if not result["done"]:
                raise PlflError(f"{result['error']} (see {folder / SERVER_LOG})")
            return
        if processes.died("superlink"):
            processes.start_link()
        # The ServerApp ends together with the SuperExec.
        gone = processes.died("superexec")
        if not gone and _is_gone(folder) and not outcome.exists():
            gone = True
            processes.count_restart("the ServerApp ended")
        has_started = (folder / APP_STARTED).exists()
        if not (gone or has_started) and time.monotonic() - asked > SILENCE:
            state = flower.status(processes.run, processes.home)
            gone, asked = state.startswith("finished"), time.monotonic()
            if gone:
                processes.count_restart(f"the ServerApp did not start ({state})")
        if gone:
            processes.start_rounds(folder)
            asked = time.monotonic()
        time.sleep(PAUSE)


def _is_gone(folder: Path) -> bool:
    """Whether a ServerApp has started and ended, for any reason: its lock is then free."""
    if not (folder / APP_STARTED).exists():
        return False
    try:
        hold(folder / APP_LOCK, busy="a ServerApp is running").release()
    except PlflError:
        return False
    return True
