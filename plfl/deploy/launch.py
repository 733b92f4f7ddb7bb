"""The server, a client, or a whole federation on this machine: started, watched, taken down."""

import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plfl.deploy import agreement, flower
from plfl.deploy.private import private_folder
from plfl.deploy.processes import GRACE, Processes, ending_in_order, free_port, is_open
from plfl.deploy.terms import Taken, Terms
from plfl.errors import PlflError
from plfl.files import atomic
from plfl.locks import hold
from plfl.study import Cell, Study

if TYPE_CHECKING:
    from plfl.deploy.keys import ClientKeys, ServerKeys

log = logging.getLogger(__name__)

PLAN, PROGRESS, OUTCOME = "plan.json", "progress.jsonl", "outcome.json"
"""Files of a server's folder: what to do, the rounds so far, and what came of it."""
CHECKPOINT = "checkpoint"
"""Folder in it: what the rounds go on from."""
AT_WORK, BEGUN = "at-work.lock", "begun"
"""Files of a server's folder: what a ServerApp locks for as long as it lives, and its sign that it
has done so."""
MENDS = 6
"""How often the processes of a server are started again before it gives up."""
START = 300.0
"""Seconds within which a SuperLink has to listen."""
PAUSE = 0.2
"""Seconds between two looks at a process or file."""
SILENCE = 60.0
"""Seconds within which a ServerApp has to begin; afterwards Flower is asked what became of it."""
MENDABLE = 2
"""Exit status of a command that says what the user has to mend."""
PERSISTENCE = 30.0
"""Seconds for which a client goes on asking a server that refuses it."""


@dataclass(frozen=True)
class Place:
    """Folders of one deployed cell."""

    study: Study
    cell: Cell
    root: Path = Path()
    """Working directory, which the study's folders lie below."""

    @property
    def results(self) -> Path:
        """Folder of its tables."""
        return self.root / agreement.narrowed(self.study, self.cell).results

    @property
    def server(self) -> Path:
        """Folder of the server."""
        return self.results / "deploy" / "server"

    @property
    def history(self) -> list[Taken]:
        """Who took part in the rounds so far."""
        path = self.server / PROGRESS
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [Taken(**json.loads(line)) for line in lines]

    def client(self, name: str) -> Path:
        """Folder of a client that runs on this machine."""
        return self.results / "deploy" / "clients" / name


def serve(
    place: Place,
    terms: Terms,
    host: str = "127.0.0.1",
    port: int = 8000,
    keys: "ServerKeys | None" = None,
    tell: Callable[[Taken], None] = lambda taken: None,
) -> None:
    """Run the SuperLink and the server's rounds until the last one is done.

    Without `keys` nothing is encrypted, and anybody is taken for who it says it is.

    Raises:
        PlflError: something went wrong; nothing is left running.
    """
    flower.require()
    folder = place.server
    busy = "another server is at work in this folder"
    with hold(folder / ".lock", busy=busy), linked(folder, host, port, keys) as crew:
        run_rounds(crew, place, terms, tell)


@contextmanager
def linked(folder: Path, host: str, port: int, keys: "ServerKeys | None") -> Iterator["Crew"]:
    """A SuperLink that listens and knows its clients' keys; all processes end with the block."""
    certificates = None if keys is None else keys.certificates
    root = None if certificates is None else certificates[0].resolve()
    address = f"{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    link = flower.Link(address, root)
    home = folder / "flower"
    with ending_in_order(), Processes(folder / "logs") as processes:
        environment = flower.environment(home, **{flower.FOLDER: str(folder.resolve())})
        # What a SuperLink that is started again goes on from; it ends with this server.
        database = home / "link.db"
        home.mkdir(parents=True, exist_ok=True)
        _forget(database)
        command = flower.superlink(host, port, database, certificates)
        crew = Crew(processes, link, home, environment, command)
        crew.start_link()
        if keys is not None:
            crew.nodes = flower.register(link, home, keys.clients)
        try:
            yield crew
        finally:
            processes.stop(*reversed(processes.running))
            _forget(database)


def run_rounds(
    crew: "Crew", place: Place, terms: Terms, tell: Callable[[Taken], None] = lambda taken: None
) -> None:
    """Let the processes of a server run the rounds of a cell.

    Raises:
        PlflError: see `serve`.
    """
    folder = place.server
    for name in (PROGRESS, OUTCOME):
        (folder / name).unlink(missing_ok=True)
    plan = {
        "study": place.study.model_dump(mode="json"),
        "cell": str(place.cell),
        "terms": asdict(terms),
        "results": str(place.results.resolve()),
        "nodes": crew.nodes,
    }
    with atomic(folder / PLAN) as temporary:
        temporary.write_text(json.dumps(plan), encoding="utf-8")
    crew.start_rounds(folder)
    _watch(crew, place, tell)
    # Not before its results are there: a ServerApp that is killed on the way goes on from it.
    shutil.rmtree(folder / CHECKPOINT)


def _forget(database: Path) -> None:
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


@dataclass
class Crew:
    """The processes of a server, each of which can be lost and started again."""

    processes: Processes
    link: flower.Link
    home: Path
    environment: dict[str, str]
    superlink: list[str]
    """Command of the SuperLink."""
    nodes: dict[int, str] | None = None
    """Names of the clients by the nodes that their keys are; None: insecure."""
    run: str = ""
    """Flower's number of the run."""
    mends: int = 0
    """How often something was started again."""

    def start_link(self) -> None:
        """Start the SuperLink and wait until it listens."""
        self.processes.start("superlink", self.superlink, self.environment)
        end = time.monotonic() + START
        while not is_open(self.link.address):
            self.processes.check("superlink")
            if time.monotonic() > end:
                address = self.link.address
                raise PlflError(f"the SuperLink does not listen at {address} after {START:.0f} s")
            time.sleep(PAUSE)

    def start_rounds(self, folder: Path) -> None:
        """Start a ServerApp, which goes on after the last round that was saved."""
        (folder / BEGUN).unlink(missing_ok=True)
        if "superexec" not in self.processes.running:
            command = flower.superexec(self.link)
            self.processes.start("superexec", command, self.environment)
        self.run = flower.start_run(self.link, self.home)

    def mend(self, what: str) -> None:
        """Count and tell that something is started again.

        Raises:
            PlflError: it has happened too often.
        """
        self.mends += 1
        if self.mends > MENDS:
            raise PlflError(
                f"{what}, after {MENDS} restarts; {self.processes.log('superlink')} ends with\n"
                f"{self.processes.tail('superlink')}\n{self.processes.log('superexec')} ends with\n"
                f"{self.processes.tail('superexec')}"
            )
        log.warning("%s: it is started again", what)

    def lost(self, name: str) -> bool:
        """Whether a process has ended; what is left of its session is ended too."""
        code = self.processes.running[name].poll()
        if code is None:
            return False
        self.processes.stop(name)
        self.mend(f"{name} has ended with status {code}")
        return True


def _watch(crew: Crew, place: Place, tell: Callable[[Taken], None]) -> None:
    """Tell of the rounds until there is an outcome; start again what was lost.

    Raises:
        PlflError: the outcome is a bad one, or too much was lost.
    """
    told, heard = 0, time.monotonic()
    folder, outcome = place.server, place.server / OUTCOME
    while True:
        ended = outcome.exists()
        for taken in place.history[told:]:
            tell(taken)
            told += 1
        if ended:
            found = json.loads(outcome.read_text(encoding="utf-8"))
            if not found["done"]:
                raise PlflError(f"{found['error']} (see {folder / 'server.log'})")
            return
        if crew.lost("superlink"):
            crew.start_link()
        # Its ServerApp ends with it.
        gone = crew.lost("superexec")
        if not gone and _is_gone(folder) and not outcome.exists():
            gone = True
            crew.mend("the ServerApp has ended")
        if not (gone or (folder / BEGUN).exists()) and time.monotonic() - heard > SILENCE:
            state = flower.status(crew.run, crew.home)
            gone, heard = state.startswith("finished"), time.monotonic()
            if gone:
                crew.mend(f"the ServerApp has not begun ({state})")
        if gone:
            crew.start_rounds(folder)
            heard = time.monotonic()
        time.sleep(PAUSE)


def _is_gone(folder: Path) -> bool:
    """Whether a ServerApp has begun but is no more; its lock ends with it, however it ends."""
    if not (folder / BEGUN).exists():
        return False
    try:
        hold(folder / AT_WORK, busy="at work").release()
    except PlflError:
        return False
    return True


def attend(
    study: Study,
    cell: Cell,
    building: str,
    folder: Path,
    address: str,
    keys: "ClientKeys | None" = None,
    persistence: float = PERSISTENCE,
    calibrate: int = 0,
) -> None:
    """Run the worker of a building and its SuperNode until this process is ended.

    A SuperNode that ends, whatever its exit status, is started again: the building shall be there
    for as long as its worker is. Only when the server at `address` has refused it for some seconds
    (`persistence`), or cannot prove to be the one that `keys` trust, is that the end. For
    `calibrate` see `client.Client`.

    Raises:
        PlflError: the server is not trusted, or refuses this client; see also `worker.work`.
    """
    flower.require()
    from plfl.deploy.worker import work

    private_folder(folder)
    link = flower.Link(address, None if keys is None else keys.trusted)
    key = None if keys is None else keys.key
    command = flower.supernode(link, free_port(), folder, key)
    environment = flower.environment(folder / "flower")
    reasons: list[str] = []
    with ending_in_order(), Processes(folder / "logs") as processes:

        def supervise() -> None:
            accepted = time.monotonic()
            while not reasons:
                begun = time.monotonic()
                code = processes.start("supernode", command, environment).wait()
                said = processes.tail("supernode", 20) if code == 1 else ""
                if flower.UNTRUSTED.search(said):
                    reasons.append(
                        f"the server at {address} cannot prove to be the one that "
                        f"{link.root_certificates} vouches for; copy the folder that "
                        "`plfl deploy keys` made for this client, and give there with --host what "
                        "the server is reached by"
                    )
                elif not flower.REFUSED.search(said):
                    accepted = time.monotonic()
                elif begun - accepted > persistence:
                    reasons.append(
                        f"the server at {address} refuses client {building}: it does not know its "
                        "key, or another process uses it; the server's folder needs "
                        f"clients/{building}.pub of the same `plfl deploy keys`"
                    )
                time.sleep(1)
            os.kill(os.getpid(), signal.SIGTERM)

        def ready() -> None:
            threading.Thread(target=supervise, daemon=True).start()

        try:
            work(study, cell, building, folder, ready, calibrate)
        except SystemExit:
            if reasons:
                raise PlflError(reasons[0]) from None
            raise


def federate(
    config: Path,
    place: Place,
    names: list[str],
    terms: Terms,
    rounds: int | None = None,
    tell: Callable[[str], None] = print,
    *,
    insecure: bool = False,
) -> None:
    """Run a server and all its clients on this machine, by the commands for separate hosts.

    Their keys are made for this run alone; without any where it shall be `insecure`.

    Raises:
        PlflError: something went wrong; nothing is left running.
    """
    flower.require()
    port = free_port()
    plfl = [sys.executable, "-m", "plfl", "deploy"]
    common = ["--config", str(config), "--cell", str(place.cell)]
    common += ["--rounds", str(rounds)] if rounds else []
    logs, keys = place.results / "deploy" / "logs", place.results / "deploy" / "keys"
    if not insecure:
        from plfl.deploy.keys import throw_away

        throw_away(keys, names)

    def secured(*folder: str) -> list[str]:
        return ["--insecure"] if insecure else ["--keys", str(keys.resolve().joinpath(*folder))]

    with ending_in_order(), Processes(logs, 3 * GRACE) as processes:
        server = [*plfl, "server", *common, *secured("server")]
        server += ["--port", str(port), "--minimum", str(terms.minimum)]
        server += ["--patience", str(terms.patience), "--timeout", str(terms.timeout)]
        running = processes.start("server", server, folder=place.root, shown=True)

        def start(name: str) -> None:
            client = [*plfl, "client", *common, *secured("clients", name)]
            client += ["--building", name]
            client += ["--server", f"127.0.0.1:{port}"]
            processes.start(name, client, folder=place.root)

        for name in names:
            start(name)
        tell(f"{place.cell}: a server and {len(names)} clients; logs in {processes.logs}")
        while (code := running.poll()) is None:
            for name in names:
                ended = processes.running[name].poll()
                if ended == MENDABLE:
                    processes.check(name)
                elif ended is not None:
                    tell(f"client {name} ended with status {ended}; it is started again")
                    start(name)
            time.sleep(PAUSE)
        if code:
            raise PlflError(f"the server ended with status {code}")
