"""What crosses the wire between real Flower processes, counted and searched for personal numbers.

Three clients of sample data with real Flower, each through a counting proxy of its own; without
TLS, so that what crosses can be read.
"""

import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import yaml
from numpy.typing import NDArray

from plfl.config.study import Study
from plfl.data.prepare import load_dataset
from plfl.deploy.check import study_of
from plfl.deploy.folders import CellFolders
from plfl.deploy.hosts.processes import GRACE, Processes, free_port
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.server import MODEL
from plfl.experiments.trainer import Trainer
from plfl.results.tables import Tables

CLIENTS, ROUNDS = 3, 3
CHUNK = 1 << 20
"""Pairs that are looked at together."""
TRAIN = {"up": b'\\"loss\\"', "down": b'\\"kind\\":\\"train\\"'}
"""What the facts of a message of a training round have in them, as safetensors writes them."""
MESSAGE = b'"__metadata__":{"plfl":'
"""What any message of plfl has in it."""
KINDS = ["train", "other messages", "wrapping", "headers", "protocol", "polling", "app"]
"""What bytes are for, see `Proxy.parts`."""


class Proxy:
    """Listens at `port` of this machine and passes everything on to `target`, and back."""

    def __init__(self, target: tuple[str, int]):
        self.target, self.port = target, free_port()
        self.bytes = Counter[str]()
        self.connections: list[dict[str, bytearray]] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            inner, _ = self._listener.accept()
            try:
                outer = socket.create_connection(self.target)
            except OSError:
                inner.close()
                continue
            kept = {"up": bytearray(), "down": bytearray()}
            self.connections.append(kept)
            for one, other, way in ((inner, outer, "up"), (outer, inner, "down")):
                given = (one, other, way, kept)
                threading.Thread(target=self._pass, args=given, daemon=True).start()

    def _pass(
        self, one: socket.socket, other: socket.socket, way: str, kept: dict[str, bytearray]
    ) -> None:
        try:
            while data := one.recv(1 << 16):
                with self._lock:
                    self.bytes[way] += len(data)
                    kept[way] += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            one.close()
            other.close()

    def parts(self) -> Counter[tuple[str, str]]:
        """Bytes by direction and by what they are for; plain HTTP only.

        `train` are the objects that hold a training round's numbers, `other messages` those by
        which clients join and are scored, `wrapping` those that Flower puts around both; `headers`
        are the rest of the same requests. Requests that carry no object are `polling` (looking for
        messages, heartbeats), `app` (Flower's copy of its application) or `protocol`. How many
        messages of plfl there were, and how many requests of polling, are `messages` and `polls`.
        """
        found = Counter[tuple[str, str]]()
        for kept in self.connections:
            asked = list(_messages(bytes(kept["up"])))
            answered = list(_messages(bytes(kept["down"])))
            # A request whose answer never came is left out; that is at most one a connection.
            for (head, body), (head_back, body_back) in zip(asked, answered, strict=False):
                path = head.split(b" ", 2)[1].decode()
                for way, top, content in (("up", head, body), ("down", head_back, body_back)):
                    carries = path.endswith("push-object" if way == "up" else "pull-object")
                    if carries:
                        found[way, _content(content, way)] += len(content)
                        found[way, "messages"] += MESSAGE in content
                        found[way, "headers"] += len(top)
                    else:
                        purpose = _purpose(path)
                        found[way, purpose] += len(top) + len(content)
                        found[way, "polls"] += purpose == "polling"
        return found


def _content(content: bytes, way: str) -> str:
    if MESSAGE not in content:
        return "wrapping"
    return "train" if TRAIN[way] in content else "other messages"


def _purpose(path: str) -> str:
    if path.endswith(("pull-messages", "send-node-heartbeat")):
        return "polling"
    return "app" if path.endswith("get-fab") else "protocol"


def _messages(stream: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Head and body of each HTTP message of a stream."""
    start = 0
    while (end := stream.find(b"\r\n\r\n", start)) >= 0:
        head = stream[start : end + 4]
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        start = end + 4 + length
        yield head, stream[end + 4 : start]


def run(split: str, here: Path) -> tuple[CellFolders, list[Proxy]]:
    """A federation through proxies."""
    raw = study_of(CLIENTS, ROUNDS, here / "data")
    raw["grid"] = {**raw["grid"], "method": ["fedopt"], "sharing": [split]}  # type: ignore[dict-item]
    study = Study.parse(raw, "measure")
    (here / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    folders = CellFolders(study, study.cells[0], here)
    load_dataset(study, folders.cell.state)  # clients find the files that they need
    names, port = agreement.roster(study, folders.cell), free_port()
    proxies = [Proxy(("127.0.0.1", port)) for _ in names]
    with Processes(here / "logs", 3 * GRACE) as processes:

        def start(name: str, what: str, *options: str) -> None:
            command = [sys.executable, "-m", "plfl", "deploy", what, "--config", "study.yaml"]
            processes.start(name, [*command, "--insecure", *options], folder=here)

        start("server", "server", "--port", str(port), "--patience", "900")
        for name, proxy in zip(names, proxies, strict=True):
            address = f"127.0.0.1:{proxy.port}"
            start(name, "client", "--building", name, "--server", address)
        if processes.running["server"].wait():
            raise SystemExit(processes.tail("server", 20))
    return folders, proxies


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
    """How many places of `data` hold one of the `wanted` pairs (sorted), wherever they begin."""
    hits = 0
    for offset in range(min(8, len(data))):
        view = np.frombuffer(data, np.uint64, (len(data) - offset) // 8, offset)
        for start in range(0, len(view), CHUNK):
            some = view[start : start + CHUNK]
            nearest = np.minimum(np.searchsorted(wanted, some), len(wanted) - 1)
            hits += int((wanted[nearest] == some).sum())
    return hits


@pytest.mark.parametrize("split", ["P1", "P2"])
def test_what_crosses_is_what_the_channel_counts_and_nothing_personal(
    split: str, tmp_path: Path
) -> None:
    folders, proxies = run(split, tmp_path)
    columns = ["client", "bytes_down", "bytes_up"]
    train = Tables(folders.results).records(columns, split="train", model="local")
    train = train.groupby("client").sum()
    names = agreement.roster(folders.study, folders.cell)
    by_client = {name: proxy.parts() for name, proxy in zip(names, proxies, strict=True)}
    print(f"\n{split}; seconds per round {[round(one.seconds, 1) for one in folders.history]}")
    for way in ("down", "up"):
        whole = sum(by_client.values(), Counter[tuple[str, str]]())
        counted = train[f"bytes_{way}"]
        for (name, parts), proxy in zip(by_client.items(), proxies, strict=True):
            over = parts[way, "train"] / counted[name] - 1
            print(
                f"{way}, client {name}: counted {counted[name]:,}, its numbers' objects "
                f"{parts[way, 'train']:,} ({over:+.2%}), all that crossed {proxy.bytes[way]:,}"
            )
            assert 0 < over < 0.03
        for kind in KINDS:
            print(f"  of all clients, {kind}: {whole[way, kind]:,}")
        fixed = sum(whole[way, kind] for kind in ("wrapping", "headers", "protocol"))
        print(
            f"  fixed cost of each of {whole[way, 'messages']} messages "
            f"{fixed / whole[way, 'messages']:,.0f}, of each of {whole[way, 'polls']} polls "
            f"{whole[way, 'polling'] / whole[way, 'polls']:,.0f}"
        )
    if split == "P2":
        streams = (kept["up"] + kept["down"] for proxy in proxies for kept in proxy.connections)
        crossed = b"".join(map(bytes, streams))
        wanted = personal(folders, names)
        print(f"{len(wanted):,} pairs of personal parameters are looked for")
        assert count(crossed, wanted) == 0
        # What has to be found, if the search is any good.
        row = safetensors.torch.load_file(folders.server / MODEL)["x"].numpy()
        control = pairs(row, row != 0)
        assert count(crossed, control) == len(names) * len(control)
