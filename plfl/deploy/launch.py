"""The server, a client, or a whole federation on this machine: started, watched, taken down."""

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from plfl.deploy import agreement, flower
from plfl.deploy.processes import GRACE, Processes, ending_in_order, free_port, is_open
from plfl.deploy.terms import Taken, Terms
from plfl.errors import PlflError
from plfl.files import atomic
from plfl.locks import hold
from plfl.study import Cell, Study

PLAN, PROGRESS, OUTCOME = "plan.json", "progress.jsonl", "outcome.json"
"""Files of a server's folder: what to do, the rounds so far, and what came of it."""
START = 60.0
"""Seconds within which a SuperLink has to listen."""
PAUSE = 0.2
"""Seconds between two looks at a process or file."""
SILENCE = 30.0
"""Seconds without a word from the ServerApp after which Flower is asked what became of it."""
MENDABLE = 2
"""Exit status of a command that says what the user has to mend."""


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
    tell: Callable[[Taken], None] = lambda taken: None,
) -> None:
    """Run the SuperLink and the server's rounds until the last one is done.

    Raises:
        PlflError: something went wrong; nothing is left running.
    """
    flower.require()
    with hold(place.server / ".lock", busy="another server is at work in this folder"):
        _serve(place, terms, host, port, tell)


def _serve(place: Place, terms: Terms, host: str, port: int, tell: Callable[[Taken], None]) -> None:
    folder = place.server
    for name in (PROGRESS, OUTCOME):
        (folder / name).unlink(missing_ok=True)
    plan = {
        "study": place.study.model_dump(mode="json"),
        "cell": str(place.cell),
        "terms": asdict(terms),
        "results": str(place.results.resolve()),
    }
    with atomic(folder / PLAN) as temporary:
        temporary.write_text(json.dumps(plan), encoding="utf-8")
    link = flower.Link(f"{'127.0.0.1' if host == '0.0.0.0' else host}:{port}")
    home = folder / "flower"
    with ending_in_order(), Processes(folder / "logs") as processes:
        environment = flower.environment(home, **{flower.FOLDER: str(folder.resolve())})
        processes.start("superlink", flower.superlink(host, port), environment)
        _await_port(processes, link)
        processes.start("superexec", flower.superexec(link), environment)
        run = flower.start_run(link, home)
        _watch(processes, place, run, tell)


def _await_port(processes: Processes, link: flower.Link) -> None:
    end = time.monotonic() + START
    while not is_open(link.address):
        processes.check("superlink")
        if time.monotonic() > end:
            raise PlflError(f"the SuperLink does not listen at {link.address} after {START:.0f} s")
        time.sleep(PAUSE)


def _watch(processes: Processes, place: Place, run: str, tell: Callable[[Taken], None]) -> None:
    """Tell of the rounds until there is an outcome.

    Raises:
        PlflError: it is a bad one.
    """
    told, heard = 0, time.monotonic()
    folder, outcome = place.server, place.server / OUTCOME
    log = folder / "server.log"
    while True:
        ended = outcome.exists()
        for taken in place.history[told:]:
            tell(taken)
            told, heard = told + 1, time.monotonic()
        if ended:
            found = json.loads(outcome.read_text(encoding="utf-8"))
            if not found["done"]:
                raise PlflError(f"{found['error']} (see {log})")
            return
        processes.check("superlink")
        processes.check("superexec")
        if time.monotonic() - heard > SILENCE:
            heard = time.monotonic()
            state = flower.status(run, folder / "flower")
            if state.startswith("finished") and not outcome.exists():
                raise PlflError(
                    f"the ServerApp is gone ({state}); {processes.log('superexec')} ends with\n"
                    + processes.tail("superexec")
                )
        time.sleep(PAUSE)


def attend(study: Study, cell: Cell, building: str, folder: Path, link: flower.Link) -> None:
    """Run the worker of a building and its SuperNode until this process is ended.

    A SuperNode that ends, whatever its exit status, is started again: the building shall be there
    for as long as its worker is.

    Raises:
        PlflError: see `worker.work`.
    """
    flower.require()
    from plfl.deploy.client import private_folder
    from plfl.deploy.worker import work

    private_folder(folder)
    command = flower.supernode(link, free_port(), folder)
    environment = flower.environment(folder / "flower")
    with ending_in_order(), Processes(folder / "logs") as processes:

        def supervise() -> None:
            while True:
                processes.start("supernode", command, environment).wait()
                time.sleep(1)

        def ready() -> None:
            threading.Thread(target=supervise, daemon=True).start()

        work(study, cell, building, folder, ready)


def federate(
    config: Path,
    place: Place,
    names: list[str],
    terms: Terms,
    rounds: int | None = None,
    tell: Callable[[str], None] = print,
) -> None:
    """Run a server and all its clients on this machine, by the commands for separate hosts.

    Raises:
        PlflError: something went wrong; nothing is left running.
    """
    flower.require()
    port = free_port()
    plfl = [sys.executable, "-m", "plfl", "deploy"]
    common = ["--config", str(config), "--cell", str(place.cell), "--insecure"]
    common += ["--rounds", str(rounds)] if rounds else []
    logs = place.results / "deploy" / "logs"
    with ending_in_order(), Processes(logs, 3 * GRACE) as processes:
        server = [*plfl, "server", *common, "--port", str(port), "--minimum", str(terms.minimum)]
        server += ["--patience", str(terms.patience), "--timeout", str(terms.timeout)]
        running = processes.start("server", server, folder=place.root, shown=True)

        def start(name: str) -> None:
            client = [*plfl, "client", *common, "--building", name]
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
