"""Methods and sharing schemes with real Flower and in the simulator.

`make campaign NAME=deploy-bits` runs it.

Clients with sample data form one federation of real processes, which runs cell after cell: FedAvg,
FedAdam, SCAFFOLD and FedADC with P1 and with P2, and P3, where nothing is shared and all methods
coincide. The records, the server's state and the parameters of all clients of each cell are
compared with the simulator, bit by bit. Several runs use new processes and must be identical, too.
The last line is `identical bits`. The arguments are the numbers of runs (1) and of clients (12).
"""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import yaml

from plfl.config.study import Cell, Study
from plfl.data.prepare import load_dataset
from plfl.deploy import worker
from plfl.deploy.check import compare, study_of
from plfl.deploy.folders import CellFolders
from plfl.deploy.hosts.keys import ClientKeys, ServerKeys, make_temporary
from plfl.deploy.hosts.processes import GRACE, Processes, free_port
from plfl.deploy.launch import attend
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.client import Client
from plfl.deploy.protocol.policy import RoundPolicy
from plfl.deploy.protocol.replay import replay
from plfl.deploy.protocol.server import MODEL
from plfl.deploy.protocol.wire import Message
from plfl.deploy.server_processes import run_rounds, running_superlink
from plfl.results.tables import Tables

ROUNDS = 5
GRID = {
    "method": ["fedopt", "scaffold", "fedadc"],
    "client_opt": ["adam"],
    "server_opt": ["fedavg", "fedadam"],
    "sharing": ["P1", "P2", "P3"],
    "refused": "skip",
}
"""FedAvg and FedAdam; the other methods have a server's step of their own."""


@dataclass(frozen=True)
class SharedFolders(CellFolders):
    """Folders of a cell in a federation of several cells, which share those of the processes."""

    @property
    def server(self) -> Path:
        return self.root / "server"

    def client(self, name: str) -> Path:
        return self.root / "clients" / name / agreement.fingerprint(self.study, self.cell)


class Several:
    """One building in several cells: the client of the message's cell answers it."""

    def __init__(
        self, study: Study, cell: Cell, name: str, table: pd.DataFrame, folder: Path, calibrate: int
    ):
        self.clients = {
            key: Client(study, one, name, table, folder / key) for key, one in cells(study).items()
        }

    def answer(self, data: bytes) -> bytes:
        return self.clients[Message.unpack(data).about["agreement"]].answer(data)


def cells(study: Study) -> dict[str, Cell]:
    """The cells by fingerprint; with nothing shared (P3), all methods have the same."""
    return {agreement.fingerprint(study, cell): cell for cell in reversed(study.cells)}


def client(here: Path, name: str, address: str) -> None:
    """The process of a building."""
    setattr(worker, "Client", Several)  # noqa: B010
    study = Study.load(here / "study.yaml")
    keys = ClientKeys.of(here / "keys/clients" / name)
    attend(study, study.cells[0], name, here / "clients" / name, address, keys)


def run(here: Path, clients: int) -> tuple[str, list[str]]:
    """One federation, all cells; a digest of all that came of it, and what differs."""
    raw = study_of(clients, ROUNDS, here / "data")
    raw["grid"] = GRID
    study = Study.parse(raw, "bits")
    (here / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    dataset = load_dataset(study, "NY")
    names = agreement.roster(study, study.cells[0])
    make_temporary(here / "keys", names)
    problems, digest = [], hashlib.sha256()
    port, policy = free_port(), RoundPolicy(clients, patience=900.0)
    keys = ServerKeys.of(here / "keys/server")
    begun = time.monotonic()
    with (
        running_superlink(here / "server", "127.0.0.1", port, keys) as server,
        Processes(here / "logs", 3 * GRACE) as processes,
    ):
        for name in names:
            command = [sys.executable, "-m", "tests.campaigns.deploy_bits", "client", str(here)]
            processes.start(name, [*command, name, f"127.0.0.1:{port}"])
        for cell in reversed(cells(study).values()):
            folders = SharedFolders(study, cell, here)
            run_rounds(server, folders, policy)
            seconds = [summary.seconds for summary in folders.history]
            told = f"{time.monotonic() - begun:4.0f} s  {cell}: rounds of "
            told += ", ".join(f"{one:.1f}" for one in seconds) + " s"
            begun_simulator = time.monotonic()
            result, f = replay(study, cell, dataset, folders.history)
            simulated = (time.monotonic() - begun_simulator) / ROUNDS
            found = list(compare(folders, result, f))
            if any(len(summary.took_part) < clients for summary in folders.history):
                found.append("not all took part")
            problems += [f"{cell}: {one}" for one in found]
            told += f"; simulator {simulated:.3f} s; {'; '.join(found) or 'identical bits'}"
            print(told, flush=True)
            records = Tables(folders.results).records([*result.records.columns])
            digest.update(records.to_json().encode())
            digest.update((folders.server / MODEL).read_bytes())
            for name in names:
                last = sorted(folders.client(name).glob(f"*/round-{ROUNDS}.safetensors"))
                digest.update(last[-1].read_bytes())
    return digest.hexdigest(), problems


def main(runs: int = 1, clients: int = 12) -> int:
    """Run, compare, tell; exit status."""
    os.environ["OMP_NUM_THREADS"] = "1"
    digests, problems = [], list[str]()
    for number in range(runs):
        here = Path(tempfile.mkdtemp(prefix="plfl-bits-"))
        digest, found = run(here, clients)
        print(f"run {number + 1}: {digest}", flush=True)
        digests.append(digest)
        problems += found
        if not found:
            shutil.rmtree(here)
    if len(set(digests)) > 1:
        problems.append("the runs differ")
    print("\n".join(problems) or "identical bits")
    return int(bool(problems))


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(Path(sys.argv[2]), *sys.argv[3:])
    else:
        sys.exit(main(*map(int, sys.argv[1:])))
