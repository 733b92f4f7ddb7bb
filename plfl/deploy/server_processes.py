"""The processes of a server: a SuperLink, and a SuperExec with the ServerApp that runs the rounds.

They are started, watched, restarted after a crash, and ended together. Other machines reach the
SuperLink only through a gate, which is a thread of this process.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any

from plfl.base.errors import PlflError
from plfl.base.files import hold, write_text
from plfl.deploy import flower
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
from plfl.deploy.host import (
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

MAX_RESTARTS = 6
"""A server gives up after this many restarts of its processes."""
START = 300.0
"""Seconds within which a SuperLink must listen."""
SILENCE = 60.0
"""Seconds to wait for a ServerApp to start before asking Flower for its status."""
FORWARD = 120.0
"""Seconds within which a SuperLink has to answer a request."""
PLAIN = {*ascii_letters, *digits, *"/-_"}
"""Characters of the paths that the gate passes on."""
PAUSE = 0.2
"""Seconds between two checks of the processes and their files."""
FLEET = "/v1/fleet/"
"""The part of a SuperLink's interface that SuperNodes use. It requires authentication; the other
parts, such as starting a run or registering a key, do not."""


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
    superexec: list[str]
    """Command of the SuperExec."""
    keys: ServerKeys | None
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
            self.group.start("superexec", self.superexec, self.environment)
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
    """A running SuperLink that clients reach at this host and port, with the clients of `keys`
    registered; all processes are ended afterwards.

    `folder`: that of the server. With keys, other machines reach only `FLEET`, through a gate.

    Raises:
        PlflError: the address cannot be used, or the SuperLink does not start.
    """
    home = folder / "flower"
    private_folder(home)
    secret = new_secret(home)
    with _bound(host, port) as listener:
        if keys is None:
            # Only this machine reaches it. Another process could take the port meanwhile.
            listener.close()
            shown = f"[{host}]" if ":" in host else host
            link, certificates = flower.Link(f"{shown}:{port}"), None
        else:
            certificates = keys.certificates
            link = flower.Link(f"127.0.0.1:{free_port()}", certificates[0])
        with ending_in_order(), Processes(folder / "logs") as group:
            environment = flower.environment(home, **{flower.FOLDER: str(folder.resolve())})
            # A restarted SuperLink continues from its database, which is removed at the end.
            database = home / "link.db"
            _remove(database)
            processes = ServerProcesses(
                group,
                link,
                home,
                environment,
                flower.superlink(link, secret, database, certificates),
                flower.superexec(link, secret),
                keys,
            )
            processes.start_link()
            if keys is not None:
                processes.nodes = flower.register(
                    link, home, {name: keys.file(name) for name in keys.clients}
                )
                _open_gate(listener, link, keys)
            try:
                yield processes
            finally:
                group.stop(*reversed(group.running))
                _remove(database)


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that is bound to an address of this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
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

    _, certificate, key = keys.certificates
    settings = uvicorn.Config(
        gate(link),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_config=None,
        lifespan="off",
        ws="none",
        timeout_keep_alive=60,  # longer than the pauses between the requests of a SuperNode
    )
    threading.Thread(target=uvicorn.Server(settings).run, args=([listener],), daemon=True).start()


def gate(link: flower.Link) -> Callable[[dict[str, Any], Any, Any], Awaitable[None]]:
    """An ASGI application that forwards `FLEET` to the SuperLink at `link`."""
    import httpx

    trusted = ssl.create_default_context(cafile=link.root_certificates)
    superlink = httpx.AsyncClient(
        base_url=f"https://{link.address}", verify=trusted, timeout=FORWARD, trust_env=False
    )

    async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
        async def body() -> AsyncIterator[bytes]:
            more = True
            while more:
                event = await receive()
                more = event.get("more_body", False)
                yield event.get("body", b"")

        async def refuse(status: int, why: bytes) -> None:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": why})

        # As it was sent: a decoded path could mean another one to the SuperLink.
        path = scope["raw_path"].decode("ascii")
        if not path.startswith(FLEET) or not set(path) <= PLAIN:
            await refuse(403, b"local access only")
            return
        headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
        sent = superlink.stream(scope["method"], path, headers=headers, content=body())
        try:
            async with sent as response:
                content = b"".join([part async for part in response.aiter_raw()])
        except httpx.TransportError:
            await refuse(503, b"the SuperLink does not answer")  # a SuperNode then tries again
            return
        start = {"type": "http.response.start", "status": response.status_code}
        await send(start | {"headers": response.headers.raw})
        await send({"type": "http.response.body", "body": content})

    return answer


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
        "keys": None if processes.keys is None else str(processes.keys.folder.resolve()),
    }
    write_text(folder / PLAN, json.dumps(plan))
    processes.start_rounds(folder)
    _watch(processes, folders, tell)
    # Only after the results are written: a restarted ServerApp needs the checkpoint.
    shutil.rmtree(folder / CHECKPOINT)
    (folder / RELEASES).unlink(missing_ok=True)


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
            for note in result["notes"]:
                log.warning("%s", note)
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
