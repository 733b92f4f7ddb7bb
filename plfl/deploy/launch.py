"""Runs a server, a client, or a complete federation on this machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from plfl.base.errors import PlflError
from plfl.config.study import Cell, Study
from plfl.deploy.flower import runtime as flower
from plfl.deploy.folders import CellFolders
from plfl.deploy.hosts.private import private_folder
from plfl.deploy.hosts.processes import GRACE, Processes, ending_in_order, free_port
from plfl.deploy.protocol.policy import RoundPolicy, RoundSummary
from plfl.deploy.server_processes import run_rounds, running_superlink
from plfl.deploy.worker import work
from plfl.pipeline.locks import hold

if TYPE_CHECKING:  # needs cryptography, which comes with the extra `deploy`
    from plfl.deploy.hosts.keys import ClientKeys, ServerKeys

PAUSE = 0.2
"""Seconds between two checks of the processes."""
USER_ERROR = 2
"""Exit status of a command after an error that the user can fix."""
RETRY_SECONDS = 30.0
"""Seconds for which a client keeps trying to connect to a server that refuses it."""


def serve(
    folders: CellFolders,
    policy: RoundPolicy,
    host: str = "127.0.0.1",
    port: int = 8000,
    keys: ServerKeys | None = None,
    tell: Callable[[RoundSummary], None] = lambda summary: None,
) -> None:
    """Run a server for a cell until the last round is done; `tell` is called after each round.

    Without keys there is no encryption, and clients need not prove their names.

    Raises:
        PlflError: the rounds failed, or another server uses the folder. No process is left running.
    """
    flower.require()
    folder = folders.server
    busy = "another server uses this folder; stop it first"
    with (
        hold(folder / ".lock", busy=busy),
        running_superlink(folder, host, port, keys) as processes,
    ):
        run_rounds(processes, folders, policy, tell)


def attend(
    study: Study,
    cell: Cell,
    building: str,
    folder: Path,
    address: str,
    keys: ClientKeys | None = None,
    retry_seconds: float = RETRY_SECONDS,
    calibrate: int = 0,
) -> None:
    """Run a client, which is the worker of a building and its SuperNode, until it is stopped.

    A SuperNode that ends is restarted, unless the connection cannot succeed: the server has refused
    it for `retry_seconds` seconds, or has no certificate that `keys` trust. `calibrate`: see
    `plfl.deploy.protocol.client.Client`.

    Raises:
        PlflError: the server is not trusted or refuses this client; see also `worker.work`.
    """
    flower.require()
    private_folder(folder)
    link = flower.Link(address, None if keys is None else keys.trusted)
    key = None if keys is None else keys.key
    command = flower.supernode(link, free_port(), folder, key)
    environment = flower.environment(folder / "flower")
    reasons: list[str] = []
    with ending_in_order(), Processes(folder / "logs") as processes:

        def supervise() -> None:
            problem = _run_supernode(processes, command, environment, retry_seconds)
            reasons.append(_untrusted(link) if problem == "untrusted" else _refused(link, building))
            os.kill(os.getpid(), signal.SIGTERM)

        def ready() -> None:
            threading.Thread(target=supervise, daemon=True).start()

        try:
            work(study, cell, building, folder, ready, calibrate)
        except SystemExit:
            if reasons:
                raise PlflError(reasons[0]) from None
            raise


def _run_supernode(
    processes: Processes, command: list[str], environment: Mapping[str, str], retry_seconds: float
) -> Literal["untrusted", "refused"]:
    """Run a SuperNode, and restart it, until the connection to the server cannot succeed."""
    accepted = time.monotonic()
    while True:
        begun = time.monotonic()
        code = processes.start("supernode", command, environment).wait()
        output = processes.tail("supernode", 20) if code == 1 else ""
        if flower.UNTRUSTED.search(output):
            return "untrusted"
        if not flower.REFUSED.search(output):
            accepted = time.monotonic()
        elif begun - accepted > retry_seconds:
            return "refused"
        time.sleep(1)


def _untrusted(link: flower.Link) -> str:
    return (
        f"the server at {link.address} has no certificate for this address that is signed by "
        f"{link.root_certificates}; copy the folder that `plfl deploy keys` created for this "
        "client, and give the server's address to `plfl deploy keys` with --host"
    )


def _refused(link: flower.Link, building: str) -> str:
    return (
        f"the server at {link.address} refuses client {building}: it does not know the client's "
        "key, or another process uses it; copy clients/"
        f"{building}.pub, created by the same `plfl deploy keys`, to the server's folder of keys"
    )


def federate(
    config: Path,
    folders: CellFolders,
    names: list[str],
    policy: RoundPolicy,
    rounds: int | None = None,
    tell: Callable[[str], None] = print,
    *,
    insecure: bool = False,
) -> None:
    """Run a server and all its clients on this machine, with the commands for separate hosts.

    `rounds` replaces `federation.rounds`. Unless it is `insecure`, keys are created for this run.
    `tell` is called with each line of output.
    """
    flower.require()
    deploy = folders.results / "deploy"
    keys = None
    if not insecure:
        # Not at the top: needs cryptography, which comes with the extra `deploy`.
        from plfl.deploy.hosts.keys import make_temporary

        keys = deploy / "keys"
        make_temporary(keys, names)
    commands = _Commands(config, folders.cell, rounds, keys, free_port())
    with ending_in_order(), Processes(deploy / "logs", 3 * GRACE) as processes:

        def start(name: str) -> None:
            processes.start(name, commands.client(name), folder=folders.root)

        command = commands.server(policy)
        server = processes.start("server", command, folder=folders.root, shown=True)
        for name in names:
            start(name)
        tell(f"{folders.cell}: a server and {len(names)} clients; logs in {processes.logs}")
        while (code := server.poll()) is None:
            for name in names:
                status = processes.running[name].poll()
                if status == USER_ERROR:
                    processes.check(name)
                elif status is not None:
                    tell(f"client {name} ended with status {status}; restarting it")
                    start(name)
            time.sleep(PAUSE)
        if code:
            raise PlflError(f"the server ended with status {code}; see its messages above")


@dataclass(frozen=True)
class _Commands:
    """The commands for separate hosts, all of them on this machine."""

    config: Path
    cell: Cell
    rounds: int | None
    keys: Path | None
    """Folder of the keys; None: no encryption, no authentication."""
    port: int
    """Port of the server."""

    def server(self, policy: RoundPolicy) -> list[str]:
        """The command of the server."""
        command = [*self._command("server", Path("server")), "--port", str(self.port)]
        command += ["--minimum", str(policy.minimum), "--patience", str(policy.patience)]
        return [*command, "--timeout", str(policy.timeout)]

    def client(self, name: str) -> list[str]:
        """The command of the client of this name."""
        command = [*self._command("client", Path("clients", name)), "--building", name]
        return [*command, "--server", f"127.0.0.1:{self.port}"]

    def _command(self, what: str, own_keys: Path) -> list[str]:
        command = [sys.executable, "-P", "-m", "plfl", "deploy", what]
        command += ["--config", str(self.config), "--cell", str(self.cell)]
        if self.rounds:
            command += ["--rounds", str(self.rounds)]
        if self.keys is None:
            return [*command, "--insecure"]
        return [*command, "--keys", str((self.keys / own_keys).resolve())]
