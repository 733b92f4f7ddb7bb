"""Runs a server, a client, or a complete federation on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from plfl.base.errors import PlflError
from plfl.base.files import hold
from plfl.deploy import flower
from plfl.deploy.folders import CellFolders
from plfl.deploy.host import (
    GRACE,
    Processes,
    ending_in_order,
    free_port,
    new_secret,
    private_folder,
)
from plfl.deploy.protocol.rounds import RoundPolicy, RoundSummary
from plfl.deploy.server_processes import run_rounds, running_superlink
from plfl.deploy.worker import work
from plfl.study import Cell, Study

if TYPE_CHECKING:  # needs cryptography, which comes with the extra `deploy`
    from plfl.deploy.keys import ClientKeys, Seal, ServerKeys

PAUSE = 0.2
"""Seconds between two checks of the processes."""
USER_ERROR = 2
"""Exit status of a command after an error that the user can fix."""
RETRY_SECONDS = 90.0
"""Seconds for which a client keeps trying to connect to a server that refuses it. For a minute
after a SuperNode was killed, Flower takes it for connected and refuses its successor."""


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
    private_folder(folder)
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
) -> None:
    """Run a client, which is the worker of a building and its SuperNode, until it is stopped.

    A SuperNode that ends is restarted, unless the connection cannot succeed: the server has refused
    it for `retry_seconds` seconds, or has no certificate that `keys` trust.

    Raises:
        PlflError: the server is not trusted or refuses this client; see also `worker.work`.
    """
    flower.require()
    private_folder(folder)
    link = flower.Link(address, None if keys is None else keys.trusted)
    seals: list[Seal] = []
    problems: list[PlflError] = []
    with ending_in_order(), Processes(folder / "logs") as processes:

        def supervise() -> None:
            try:
                _run_supernode(processes, link, folder, keys, seals, retry_seconds)
            except PlflError as error:
                problems.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

        def ready() -> None:
            threading.Thread(target=supervise, daemon=True).start()

        try:
            work(study, cell, building, folder, ready, seals)
        except SystemExit:
            if not problems:
                raise
            refused = f"client {building}: {problems[0]}"
            raise PlflError(refused) from None


def _run_supernode(
    processes: Processes,
    link: flower.Link,
    folder: Path,
    keys: ClientKeys | None,
    seals: list[Seal],
    retry_seconds: float,
) -> None:
    """Run a SuperNode and its SuperExec, and restart them. With keys, the seal for each connection
    is appended to `seals`.

    Raises:
        PlflError: the connection to the server cannot succeed.
    """
    secret, environment = new_secret(folder), flower.environment(folder / "flower")
    accepted = time.monotonic()
    while True:
        begun = time.monotonic()
        if keys is not None:
            try:
                seals.append(keys.seal(link.address))
            except OSError:  # the server has not started yet
                time.sleep(1)
                continue
        local = flower.Link(f"127.0.0.1:{free_port()}")
        key = None if keys is None else keys.key
        commands = {
            "supernode": flower.supernode(link, local, secret, folder, key),
            "superexec": flower.superexec(local, secret),
        }
        started = [processes.start(name, commands[name], environment) for name in commands]
        while all(process.poll() is None for process in started):
            time.sleep(PAUSE)
        output = processes.tail("supernode", 20) if started[0].poll() == 1 else ""
        processes.stop(*commands)
        if not flower.REFUSED.search(output):
            accepted = time.monotonic()
        elif begun - accepted > retry_seconds:
            raise PlflError(
                f"the server at {link.address} refuses it: the server does not know the client's "
                "key, or another process uses it; copy the client's file in server/clients, "
                "created by the same `plfl deploy keys`, to the server's folder of keys"
            )
        time.sleep(1)


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
        from plfl.deploy.keys import make

        keys = deploy / "keys"
        shutil.rmtree(keys, ignore_errors=True)
        make(keys, names)
    port = str(free_port())

    def command(what: str, own_keys: Path, *options: str) -> list[str]:
        words = [sys.executable, "-P", "-m", "plfl", "deploy", what, "--config", str(config)]
        words += ["--cell", str(folders.cell), *(["--rounds", str(rounds)] if rounds else [])]
        secured = ["--insecure"] if keys is None else ["--keys", str((keys / own_keys).resolve())]
        return [*words, *secured, *options]

    with ending_in_order(), Processes(deploy / "logs", 3 * GRACE) as processes:

        def start(name: str) -> None:
            options = ["--building", name, "--server", f"127.0.0.1:{port}"]
            client = command("client", Path("clients", name), *options)
            processes.start(name, client, folder=folders.root)

        options = [f"--{key}={value}" for key, value in asdict(policy).items()]
        serving = command("server", Path("server"), "--port", port, *options)
        server = processes.start("server", serving, folder=folders.root, shown=True)
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
