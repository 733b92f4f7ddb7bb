"""The server's machine: a SuperLink, and a SuperExec with the ServerApp that runs the rounds.

The processes are started, watched and ended together. A server that is started again continues
after the last completed round. Other machines reach the SuperLink only through a gate, which is a
thread of this process.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from plfl.base.errors import PlflError, Problem
from plfl.base.files import hold, write_text
from plfl.deploy import flower
from plfl.deploy.annotations import ServerKeys
from plfl.deploy.folders import (
    CHECKPOINT,
    OUTCOME,
    PROGRESS,
    RUN_SETTINGS,
    SERVER_LOG,
    CellFolders,
)
from plfl.deploy.gate import Door, open_gate
from plfl.deploy.host import (
    PROCESS_PAUSE,
    Processes,
    ending_in_order,
    free_port,
    is_open,
    new_secret,
    private_folder,
)
from plfl.deploy.protocol.answers import largest_answer
from plfl.deploy.protocol.rounds import RELEASES_FILE, RoundPolicy, RoundSummary

log = logging.getLogger(__name__)

START = 300.0
"""Seconds within which a SuperLink must listen."""
STATUS = 60.0
"""Seconds between two questions to Flower whether the ServerApp still runs."""


class ServerProcesses:
    """The processes of a server in `folder`."""

    def __init__(self, processes: Processes, folder: Path, keys: ServerKeys) -> None:
        self.processes, self.folder, self.keys = processes, folder, keys
        self.link = flower.Link(f"127.0.0.1:{free_port()}", keys.certificate)
        self.home = folder / "flower"
        """Folder for Flower's own files."""
        self.nodes: dict[str, int] = {}
        """Flower's ids of the clients."""
        self.run = ""
        """Flower's id of the run."""
        self._secret = new_secret(self.home)
        self._environment = flower.environment(
            self.home, **{flower.FOLDER_VARIABLE: str(folder.resolve())}
        )

    def start_link(self) -> None:
        """Start the SuperLink and wait until it listens."""
        command = flower.superlink(self.link, self._secret, self.keys.key)
        self.processes.start("superlink", command, self._environment)
        end = time.monotonic() + START
        while not is_open(self.link.address):
            self.processes.check_running("superlink")
            if time.monotonic() > end:
                raise PlflError(
                    Problem(
                        "",
                        f"the SuperLink does not listen on {self.link.address} after {START:.0f} s",
                        f"see {self.processes.log_file('superlink')}",
                    )
                )
            time.sleep(PROCESS_PAUSE)

    def start_rounds(self) -> None:
        """Start a ServerApp, which continues after the last saved round."""
        command = flower.superexec(self.link, self._secret)
        self.processes.start("superexec", command, self._environment)
        self.run = flower.start_run(self.link, self.home)

    def check_rounds(self) -> None:
        """Check that the ServerApp still runs, or has written its outcome; PlflError if it has
        ended without one."""
        state = flower.status(self.run, self.home)
        if state.startswith("finished") and not (self.folder / OUTCOME).exists():
            raise PlflError(
                Problem(
                    "",
                    f"the ServerApp ended ({state}), and "
                    f"{self.processes.log_file('superexec')} with\n"
                    f"{self.processes.tail('superexec')}",
                )
            )


def serve(
    folders: CellFolders,
    policy: RoundPolicy,
    host: str,
    port: int,
    keys: ServerKeys,
    report: Callable[[RoundSummary], None],
) -> None:
    """Run a server for a cell until the last round is done; `report` is called after each round.

    Raises:
        PlflError: the ServerApp reports an error, a process has died, or another server uses the
            folder. No process is left running.
    """
    flower.require_flower()
    folder = folders.server
    private_folder(folder)
    busy = "another server uses this folder; stop it first"
    largest = largest_answer(folders.study.plan.layout.width)
    with (
        hold(folder / ".lock", busy=busy),
        running_superlink(folder, host, port, keys, largest) as processes,
    ):
        for name in (PROGRESS, OUTCOME):
            (folder / name).unlink(missing_ok=True)
        settings = {
            "study": folders.study.written_keys,
            "folder": str(Path.cwd()),  # plug-ins are relative to it
            "cell": str(folders.cell),
            "policy": asdict(policy),
            "results": str(folders.results.resolve()),
            "nodes": processes.nodes,
            "keys": str(keys.folder.resolve()),
        }
        write_text(folder / RUN_SETTINGS, json.dumps(settings))
        processes.start_rounds()
        _watch(processes, folders, report)
        # Only after the results are written: a server that is started again needs it.
        shutil.rmtree(folder / CHECKPOINT)
        (folder / RELEASES_FILE).unlink(missing_ok=True)


@contextmanager
def running_superlink(
    folder: Path, host: str, port: int, keys: ServerKeys, largest: int
) -> Iterator[ServerProcesses]:
    """A running SuperLink with the clients of `keys` registered; other machines reach it at this
    host and port through a gate, which admits answers of at most `largest` bytes. All processes are
    ended afterwards.

    Raises:
        PlflError: the address cannot be used, or the SuperLink does not start.
    """
    private_folder(folder / "flower")
    with (
        _bound(host, port) as door,
        ending_in_order(),
        Processes(folder / "logs") as running_processes,
    ):
        processes = ServerProcesses(running_processes, folder, keys)
        processes.start_link()
        processes.nodes = flower.register(processes.link, processes.home, keys.clients)
        open_gate(door, processes.link, keys, largest)
        yield processes


def _watch(
    processes: ServerProcesses, folders: CellFolders, report: Callable[[RoundSummary], None]
) -> None:
    """Report the rounds until the ServerApp has written its outcome."""
    rounds_reported, asked_at = 0, time.monotonic()
    folder, outcome = folders.server, folders.server / OUTCOME
    while True:
        has_ended = outcome.exists()
        for summary in folders.history[rounds_reported:]:
            report(summary)
            rounds_reported += 1
        if has_ended:
            result = json.loads(outcome.read_text(encoding="utf-8"))
            if not result["done"]:
                raise PlflError(Problem("", result["error"], note=f"see {folder / SERVER_LOG}"))
            for note in result["notes"]:
                log.warning("%s", note)
            return
        for name in ("superlink", "superexec"):
            processes.processes.check_running(name)
        if time.monotonic() - asked_at > STATUS:
            processes.check_rounds()
            asked_at = time.monotonic()
        time.sleep(PROCESS_PAUSE)


@contextmanager
def _bound(host: str, port: int) -> Iterator[Door]:
    """A socket that is bound to an address of this machine."""
    listener = Door(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except (OSError, OverflowError, UnicodeError) as error:
        raise PlflError(
            Problem(
                "",
                f"{host}:{port}: cannot listen there ({error})",
                "choose another --host or --port",
            )
        ) from None
    with listener:
        yield listener
