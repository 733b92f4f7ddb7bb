"""What crosses the wire, and where personal numbers are: `make campaign NAME=deploy-wire`.

Three clients of sample data with real Flower, each through a counting proxy of its own; first
without TLS, so that what crosses can be read, then with it. `--no-tls` leaves out the second run.
"""

import mmap
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import safetensors.torch
import yaml
from numpy.typing import NDArray

from plfl.config.study import Study
from plfl.data import sources, windows
from plfl.deploy.check import compare, study_of
from plfl.deploy.folders import CHECKPOINT, CellFolders
from plfl.deploy.hosts.keys import make_temporary
from plfl.deploy.hosts.processes import GRACE, Processes, free_port
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.replay import replay
from plfl.deploy.protocol.server import MODEL
from plfl.experiments.trainer import Trainer
from plfl.results.tables import Tables
from tests.helpers.counting import KINDS, Proxy

CLIENTS, ROUNDS = 3, 3
CHUNK = 1 << 20
"""Pairs that are looked at together."""
PROCESSES = ("flwr-serverapp", "superlink")
"""Those of a server that see messages; words of their command lines."""
LOW = np.uint64(0xFFFFFF)


def run(split: str, here: Path, tls: bool) -> tuple[CellFolders, list[Proxy]]:
    """A federation through proxies; its server's memory in the last round is left in `here`."""
    raw = study_of(CLIENTS, ROUNDS, here / "data")
    raw["grid"] = {**raw["grid"], "method": ["fedopt"], "sharing": [split]}  # type: ignore[dict-item]
    study = Study.parse(raw, "measure")
    (here / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    folders = CellFolders(study, study.cells[0], here)
    sources.of(study.data).fetch(study.data, folders.cell.state)
    names = agreement.roster(study, folders.cell)
    make_temporary(here / "keys", names)
    port = free_port()
    proxies = [Proxy(("127.0.0.1", port)) for _ in names]

    def command(what: str, keys: str) -> list[str]:
        secured = ["--keys", str(here / "keys" / keys)] if tls else ["--insecure"]
        start = [sys.executable, "-m", "plfl", "deploy", what, "--config", "study.yaml"]
        return [*start, *secured]

    with Processes(here / "logs", 3 * GRACE) as processes:
        server = [*command("server", "server"), "--port", str(port), "--patience", "900"]
        running = processes.start("server", server, folder=here)
        for name, proxy in zip(names, proxies, strict=True):
            client = [*command("client", f"clients/{name}"), "--building", name]
            client += ["--server", f"127.0.0.1:{proxy.port}"]
            processes.start(name, client, folder=here)
        looked = tls
        while running.poll() is None:
            saved = folders.server / CHECKPOINT / f"{ROUNDS - 1}-0.safetensors"
            if not looked and saved.exists():
                looked = True
                snapshot(folders, saved, here / "memory")
            time.sleep(0.1)
        if running.returncode:
            raise SystemExit(processes.tail("server", 20))
    return folders, proxies


def pairs(row: NDArray[np.float32], chosen: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pairs of neighbouring numbers as they lie in memory, both of them `chosen`."""
    both = chosen[:-1] & chosen[1:]
    two = np.stack([row[:-1], row[1:]], 1)[both]
    return np.unique(np.ascontiguousarray(two).view(np.uint64).ravel())


def personal(folders: CellFolders, names: list[str]) -> list[NDArray[np.uint64]]:
    """Pairs of the clients' personal parameters, after the last two rounds.

    Only of those that training has changed: with the others all begin.
    """
    dataset = windows.build(
        sources.of(folders.study.data).load(folders.study.data, folders.cell.state),
        folders.study.windows,
    )
    rates = agreement.candidate(folders.study, folders.cell)
    f = Trainer.of(folders.study, dataset).federation(folders.cell, rates)
    own, initial = ~f.shared.numpy(), f.initial.numpy()
    files = [path for name in names for path in folders.client(name).glob("*/round-*.safetensors")]
    rows = [safetensors.torch.load_file(path)["local"][0].numpy() for path in files]
    return [pairs(row, own & (row != initial)) for row in rows]


def model(file: Path, name: str) -> NDArray[np.uint64]:
    """Pairs of the server's model in a file: what has to be found, if the search is any good."""
    row = safetensors.torch.load_file(file)[name].numpy()
    return pairs(row, row != 0)


def count(data: bytes | NDArray[np.uint8], wanted: NDArray[np.uint64]) -> int:
    """How many places of `data` hold one of the `wanted` pairs (sorted), wherever they begin."""
    sieve = np.zeros(1 << 24, dtype=bool)
    sieve[(wanted & LOW).astype(np.int64)] = True
    hits = 0
    for offset in range(min(8, len(data))):
        view = np.frombuffer(data, np.uint64, (len(data) - offset) // 8, offset)
        for start in range(0, len(view), CHUNK):
            some = view[start : start + CHUNK]
            some = some[sieve[(some & LOW).astype(np.int64)]]
            nearest = np.minimum(np.searchsorted(wanted, some), len(wanted) - 1)
            hits += int((wanted[nearest] == some).sum())
    return hits


def snapshot(folders: CellFolders, checkpoint: Path, out: Path) -> None:
    """Copy a checkpoint, and the server's files and its processes' memory at the same moment."""
    out.mkdir()
    shutil.copy(checkpoint, out / "checkpoint.safetensors")
    with (out / "files").open("wb") as copy:
        for path in filter(Path.is_file, folders.server.rglob("*")):
            with suppress(FileNotFoundError):
                copy.write(path.read_bytes())
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            ours = str(folders.server).encode() in (path / "environ").read_bytes()
        except OSError:
            continue
        what = [name for name in PROCESSES if name.encode() in words]
        if ours and what:
            with (out / what[0]).open("wb") as copy:
                copy.writelines(_memory(path))


def _memory(path: Path) -> Iterator[bytes]:
    """What a process may write to, without the pages that are empty."""
    with (path / "mem").open("rb", 0) as memory:
        for line in (path / "maps").read_text().splitlines():
            span, rights, *_ = line.split()
            # What comes from a file was there before any training.
            if not rights.startswith("rw"):
                continue
            low, high = (int(end, 16) for end in span.split("-"))
            with suppress(OSError, ValueError, OverflowError):
                memory.seek(low)
                pages = np.frombuffer(memory.read(high - low), np.uint8).reshape(-1, mmap.PAGESIZE)
                yield pages[pages.any(1)].tobytes()


def tell(split: str, folders: CellFolders, proxies: list[Proxy], memory: Path) -> None:
    """Print what was counted."""
    columns = ["client", "bytes_down", "bytes_up"]
    train = Tables(folders.results).records(columns, split="train").groupby("client").sum()
    names = agreement.roster(folders.study, folders.cell)
    by_client = {name: proxy.parts() for name, proxy in zip(names, proxies, strict=True)}
    for way in ("down", "up"):
        whole = sum(by_client.values(), Counter[tuple[str, str]]())
        counted = train[f"bytes_{way}"]
        for (name, parts), proxy in zip(by_client.items(), proxies, strict=True):
            over = parts[way, "train"] / counted[name] - 1
            print(
                f"{split} {way}, client {name}: counted {counted[name]:,}, its numbers' objects "
                f"{parts[way, 'train']:,} ({over:+.2%}), all that crossed {proxy.bytes[way]:,}"
            )
        for kind in KINDS:
            print(f"  of all clients, {kind}: {whole[way, kind]:,}")
        fixed = sum(whole[way, kind] for kind in ("wrapping", "headers", "protocol"))
        print(
            f"  fixed cost of each of {whole[way, 'messages']} messages "
            f"{fixed / whole[way, 'messages']:,.0f}, of each of {whole[way, 'polls']} polls "
            f"{whole[way, 'polling'] / whole[way, 'polls']:,.0f}"
        )
    search(folders, names, proxies, memory)


def search(folders: CellFolders, names: list[str], proxies: list[Proxy], memory: Path) -> None:
    """Look for personal parameters in all that crossed, and in what the server had meanwhile."""
    with (memory / "traffic").open("wb") as copy:
        for kept in (kept for proxy in proxies for kept in proxy.connections):
            copy.write(kept["up"] + kept["down"])
    last = model(folders.server / MODEL, "x")
    saved = model(memory / "checkpoint.safetensors", "server/state/x")
    wanted = np.unique(np.concatenate(personal(folders, names)))
    print(f"{len(wanted):,} pairs of personal parameters of {len(names)} clients:")
    for file, control in (
        ("traffic", last),
        ("files", saved),
        ("flwr-serverapp", saved),
        ("superlink", saved),
    ):
        data = np.memmap(memory / file, mode="r")
        print(
            f"  in {file} ({len(data) / 1e6:,.1f} MB) {count(data, wanted)}; of the server's "
            f"own {len(control):,} pairs {count(data, control):,}"
        )


def main(split: str, tls: bool) -> None:
    """Measure one way of sharing."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for secure in [False, True] if tls else [False]:
        here = Path(tempfile.mkdtemp(prefix="plfl-wire-"))
        begun = time.monotonic()
        folders, proxies = run(split, here, secure)
        took = time.monotonic() - begun
        if secure:
            shutil.rmtree(here)
            crossed = {way: sum(p.bytes[way] for p in proxies) for way in ("down", "up")}
            of_it = sum((p.encryption() for p in proxies), Counter[str]())
            print(
                f"{split} with TLS, {took:.0f} s: all that crossed {crossed}, of it for TLS {of_it}"
            )
            continue
        print(
            f"{split} without TLS, {took:.0f} s; seconds per round "
            f"{[round(summary.seconds, 1) for summary in folders.history]}"
        )
        tell(split, folders, proxies, here / "memory")
        dataset = windows.build(
            sources.of(folders.study.data).load(folders.study.data, folders.cell.state),
            folders.study.windows,
        )
        problems = list(
            compare(folders, *replay(folders.study, folders.cell, dataset, folders.history))
        )
        if not problems:
            shutil.rmtree(here)
        print("; ".join(problems) or "identical bits", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], "--no-tls" not in sys.argv)
