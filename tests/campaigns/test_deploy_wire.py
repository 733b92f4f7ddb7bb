"""No personal parameter crosses the wire between real Flower processes.

Three clients of sample data with real Flower behind a proxy that keeps every byte; without TLS, so
that what crosses can be read.
"""

import socket
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import safetensors.torch
import yaml
from numpy.typing import NDArray

from plfl.data.prepare import load_dataset
from plfl.deploy.check import study_of
from plfl.deploy.folders import CellFolders
from plfl.deploy.host import GRACE, Processes, free_port
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.server import MODEL
from plfl.experiments.trainer import Trainer
from plfl.results.tables import Tables
from plfl.study import Study

CLIENTS, ROUNDS = 3, 3


class Proxy:
    """Listens at `port` of this machine, passes all on to `target` and back, and keeps it."""

    def __init__(self, target: int):
        self.target, self.port = target, free_port()
        self.streams: list[bytearray] = []
        self._listener = socket.create_server(("127.0.0.1", self.port))
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            inner, _ = self._listener.accept()
            try:
                outer = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                inner.close()
                continue
            for one, other in ((inner, outer), (outer, inner)):
                kept = bytearray()
                self.streams.append(kept)
                Thread(target=self._pass, args=(one, other, kept), daemon=True).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket, kept: bytearray) -> None:
        try:
            while data := one.recv(1 << 16):
                kept += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            one.close()
            other.close()


def run(here: Path) -> tuple[CellFolders, bytes]:
    """A federation with personal parts, and all bytes that crossed."""
    raw = study_of(CLIENTS, ROUNDS, here / "data")
    raw["grid"] = {**raw["grid"], "method": ["fedopt"], "sharing": ["P2"]}  # type: ignore[dict-item]
    study = Study.parse(raw, "measure")
    (here / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    folders = CellFolders(study, study.cells[0], here)
    load_dataset(study, folders.cell.state)  # clients find the files that they need
    proxy = Proxy(free_port())
    with Processes(here / "logs", 3 * GRACE) as processes:

        def start(name: str, what: str, *options: str) -> None:
            command = [sys.executable, "-m", "plfl", "deploy", what, "--config", "study.yaml"]
            processes.start(name, [*command, "--insecure", *options], folder=here)

        start("server", "server", "--port", str(proxy.target), "--patience", "900")
        for name in agreement.roster(study, folders.cell):
            start(name, "client", "--building", name, "--server", f"127.0.0.1:{proxy.port}")
        assert processes.running["server"].wait() == 0, processes.tail("server", 20)
    return folders, b"".join(proxy.streams)


def pairs(row: NDArray[np.float32], chosen: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pairs of neighbouring numbers as they lie in memory, both of them `chosen`."""
    both = chosen[:-1] & chosen[1:]
    two = np.stack([row[:-1], row[1:]], 1)[both]
    return np.unique(np.ascontiguousarray(two).view(np.uint64).ravel())


def personal(folders: CellFolders, names: list[str]) -> NDArray[np.uint64]:
    """Pairs of the clients' personal parameters, after the last two rounds.

    Only of those that training has changed: with the others all begin.
    """
    dataset = load_dataset(folders.study, folders.cell.state)
    rates = agreement.candidate(folders.study, folders.cell)
    f = Trainer.of(folders.study, dataset).federation(folders.cell, rates)
    own, initial = ~f.shared.numpy(), f.initial.numpy()
    files = [path for name in names for path in folders.client(name).glob("*/round-*.safetensors")]
    rows = [safetensors.torch.load_file(path)["local"][0].numpy() for path in files]
    return np.unique(np.concatenate([pairs(row, own & (row != initial)) for row in rows]))


def count(data: bytes, wanted: NDArray[np.uint64]) -> int:
    """How many places of `data` hold one of the `wanted` pairs, wherever they begin."""
    views = (np.frombuffer(data, np.uint64, (len(data) - n) // 8, n) for n in range(8))
    return sum(int(np.isin(view, wanted).sum()) for view in views)


def test_nothing_personal_crosses(tmp_path: Path) -> None:
    folders, crossed = run(tmp_path)
    columns = ["bytes_down", "bytes_up", "message_down", "message_up"]
    train = Tables(folders.results).records(columns, split="train", model="local")
    for column, size in train.sum().items():
        print(f"\n{column} of all clients: {size:,.0f}", end="")
    print(f"\nall that crossed: {len(crossed):,} bytes in {len(folders.history)} rounds")
    names = agreement.roster(folders.study, folders.cell)
    wanted = personal(folders, names)
    print(f"{len(wanted):,} pairs of personal parameters are looked for")
    assert count(crossed, wanted) == 0
    # What has to be found, if the search is any good.
    row = safetensors.torch.load_file(folders.server / MODEL)["x"].numpy()
    control = pairs(row, row != 0)
    assert count(crossed, control) == len(names) * len(control)
