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
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any

from plfl.base.errors import PlflError
from plfl.base.files import hold, write_text
from plfl.deploy import flower
from plfl.deploy.folders import (
    CHECKPOINT,
    OUTCOME,
    PLAN,
    PROGRESS,
    SERVER_LOG,
    CellFolders,
)
from plfl.deploy.host import (
    PAUSE,
    Processes,
    ending_in_order,
    free_port,
    is_open,
    new_secret,
    private_folder,
)
from plfl.deploy.protocol.rounds import RELEASES, RoundPolicy, RoundSummary

if TYPE_CHECKING:  # needs cryptography, which comes with the extra `deploy`
    from plfl.deploy.keys import ServerKeys

log = logging.getLogger(__name__)

START = 300.0
"""Seconds within which a SuperLink must listen."""
STATUS = 60.0
"""Seconds between two questions to Flower whether the ServerApp still runs."""
FORWARD = 120.0
"""Seconds within which a SuperLink has to answer a request."""
PLAIN = {*ascii_letters, *digits, *"/-_"}
"""Characters of the paths that the gate passes on."""
FLEET = "/v1/fleet/"
"""The part of a SuperLink's interface that SuperNodes use. It requires authentication; the other
parts, such as starting a run or registering a key, do not."""


class ServerProcesses:
    """The processes of a server in `folder`."""

    def __init__(self, group: Processes, folder: Path, keys: ServerKeys) -> None:
        self.group, self.folder, self.keys = group, folder, keys
        self.link = flower.Link(f"127.0.0.1:{free_port()}", keys.certificate)
        self.home = folder / "flower"
        """Folder for Flower's own files."""
        self.nodes: dict[str, int] = {}
        """Flower's ids of the clients."""
        self.run = ""
        """Flower's id of the run."""
        self._secret = new_secret(self.home)
        self._environment = flower.environment(self.home, **{flower.FOLDER: str(folder.resolve())})

    def start_link(self) -> None:
        """Start the SuperLink and wait until it listens."""
        command = flower.superlink(self.link, self._secret, self.keys.key)
        self.group.start("superlink", command, self._environment)
        end = time.monotonic() + START
        while not is_open(self.link.address):
            self.group.check("superlink")
            if time.monotonic() > end:
                raise PlflError(
                    f"the SuperLink does not listen on {self.link.address} after {START:.0f} s; "
                    f"see {self.group.log('superlink')}"
                )
            time.sleep(PAUSE)

    def start_rounds(self) -> None:
        """Start a ServerApp, which continues after the last saved round."""
        command = flower.superexec(self.link, self._secret)
        self.group.start("superexec", command, self._environment)
        self.run = flower.start_run(self.link, self.home)

    def check_rounds(self) -> None:
        """Check that the ServerApp still runs, or has written its outcome; PlflError if it has
        ended without one."""
        state = flower.status(self.run, self.home)
        if state.startswith("finished") and not (self.folder / OUTCOME).exists():
            raise PlflError(
                f"the ServerApp ended ({state}); {self.group.log('superexec')} ends with\n"
                f"{self.group.tail('superexec')}"
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
    flower.require()
    folder = folders.server
    private_folder(folder)
    busy = "another server uses this folder; stop it first"
    with (
        hold(folder / ".lock", busy=busy),
        running_superlink(folder, host, port, keys) as processes,
    ):
        for name in (PROGRESS, OUTCOME):
            (folder / name).unlink(missing_ok=True)
        plan = {
            "study": folders.study.model_dump(mode="json"),
            "folder": str(Path.cwd()),  # plug-ins are relative to it
            "cell": str(folders.cell),
            "policy": asdict(policy),
            "results": str(folders.results.resolve()),
            "nodes": processes.nodes,
            "keys": str(keys.folder.resolve()),
        }
        write_text(folder / PLAN, json.dumps(plan))
        processes.start_rounds()
        _watch(processes, folders, report)
        # Only after the results are written: a server that is started again needs it.
        shutil.rmtree(folder / CHECKPOINT)
        (folder / RELEASES).unlink(missing_ok=True)


@contextmanager
def running_superlink(
    folder: Path, host: str, port: int, keys: ServerKeys
) -> Iterator[ServerProcesses]:
    """A running SuperLink with the clients of `keys` registered; other machines reach its part
    `FLEET` at this host and port. All processes are ended afterwards.

    Raises:
        PlflError: the address cannot be used, or the SuperLink does not start.
    """
    private_folder(folder / "flower")
    with (
        _bound(host, port) as listener,
        ending_in_order(),
        Processes(folder / "logs") as group,
    ):
        processes = ServerProcesses(group, folder, keys)
        processes.start_link()
        processes.nodes = flower.register(processes.link, processes.home, keys.clients)
        _open_gate(listener, processes.link, keys)
        yield processes


def _watch(
    processes: ServerProcesses, folders: CellFolders, report: Callable[[RoundSummary], None]
) -> None:
    """Report the rounds until the ServerApp has written its outcome."""
    reported, asked = 0, time.monotonic()
    folder, outcome = folders.server, folders.server / OUTCOME
    while True:
        ended = outcome.exists()
        for summary in folders.history[reported:]:
            report(summary)
            reported += 1
        if ended:
            result = json.loads(outcome.read_text(encoding="utf-8"))
            if not result["done"]:
                raise PlflError(f"{result['error']} (see {folder / SERVER_LOG})")
            for note in result["notes"]:
                log.warning("%s", note)
            return
        for name in ("superlink", "superexec"):
            processes.group.check(name)
        if time.monotonic() - asked > STATUS:
            processes.check_rounds()
            asked = time.monotonic()
        time.sleep(PAUSE)


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that is bound to an address of this machine."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except (OSError, OverflowError, UnicodeError) as error:
        raise PlflError(
            f"{host}:{port}: cannot listen there ({error}); choose another --host or --port"
        ) from None
    with listener:
        yield listener


def _open_gate(listener: socket.socket, link: flower.Link, keys: ServerKeys) -> None:
    """Pass on what arrives at `listener` for `FLEET`, in a thread, for as long as this process
    lives. Other paths get status 403."""
    import uvicorn

    settings = uvicorn.Config(
        gate(link),
        ssl_certfile=keys.certificate,
        ssl_keyfile=keys.key,
        log_config=None,
        lifespan="off",
        ws="none",
        timeout_keep_alive=60,  # longer than the pauses between the requests of a SuperNode
    )
    threading.Thread(target=uvicorn.Server(settings).run, args=([listener],), daemon=True).start()


def gate(link: flower.Link) -> Callable[[dict[str, Any], Any, Any], Awaitable[None]]:
    """An ASGI application that forwards `FLEET` to the SuperLink at `link`."""
    import httpx

    trusted = ssl.create_default_context(cafile=link.trusted)
    superlink = httpx.AsyncClient(
        base_url=f"https://{link.address}", verify=trusted, timeout=FORWARD, trust_env=False
    )

    async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
        # As it was sent: a decoded path could mean another one to the SuperLink.
        path = scope["raw_path"].decode("ascii")
        is_allowed = path.startswith(FLEET) and set(path) <= PLAIN
        parts, more = [], is_allowed
        while more:
            event = await receive()
            parts.append(event.get("body", b""))
            more = event.get("more_body", False)
        headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
        response = httpx.Response(403, content=b"local access only")
        if is_allowed:
            try:
                response = await superlink.request(
                    scope["method"], path, headers=headers, content=b"".join(parts)
                )
            except httpx.TransportError:  # a SuperNode then tries again
                response = httpx.Response(503, content=b"the SuperLink does not answer")
        start = {"type": "http.response.start", "status": response.status_code}
        await send(start | {"headers": response.headers.raw})
        await send({"type": "http.response.body", "body": response.content})

    return answer
