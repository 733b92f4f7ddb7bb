"""What crosses the wire, and where personal numbers are: `python -m tests.deploy.measure P2`.

Three clients of sample data with real Flower, each through a counting proxy of its own; first
without TLS, so that what crosses can be read, then with it. `--no-tls` leaves out the second run.
"""

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import safetensors.torch
import yaml
from numpy.typing import NDArray

from plfl.data import source, windows
from plfl.deploy import agreement
from plfl.deploy.check import compare, study_of
from plfl.deploy.keys import throw_away
from plfl.deploy.launch import Place
from plfl.deploy.processes import GRACE, Processes, free_port
from plfl.deploy.replay import replay
from plfl.results.tables import Tables
from plfl.study import Study
from tests.deploy.counting import Proxy

CLIENTS, ROUNDS = 3, 3


def run(split: str, here: Path, tls: bool) -> tuple[Place, list[Proxy], Counter[str]]:
    """A federation through proxies; also how often personal numbers were in the server's memory."""
    raw = study_of(CLIENTS, ROUNDS, here / "data")
    raw["grid"] = {**raw["grid"], "method": ["fedopt"], "personalization": [split]}  # type: ignore[dict-item]
    study = Study.parse(raw, "measure")
    (here / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    place = Place(study, study.cells[0], here)
    source.fetch(study.data, place.cell.state)
    names = agreement.roster(study, place.cell)
    throw_away(here / "keys", names)
    port, seen = free_port(), Counter[str]()
    proxies = [Proxy(("127.0.0.1", port), keep=not tls) for _ in names]

    def command(what: str, keys: str) -> list[str]:
        secured = ["--keys", str(here / "keys" / keys)] if tls else ["--insecure"]
        start = [sys.executable, "-m", "plfl", "deploy", what, "--config", "study.yaml"]
        return [*start, *secured]

    with Processes(here / "logs", 3 * GRACE) as processes:
        server = [*command("server", "server"), "--port", str(port)]
        running = processes.start("server", server, folder=here)
        for name, proxy in zip(names, proxies, strict=True):
            client = [*command("client", f"clients/{name}"), "--building", name]
            client += ["--server", f"127.0.0.1:{proxy.port}"]
            processes.start(name, client, folder=here)
        looked = tls
        while running.poll() is None:
            if not looked and len(place.history) >= ROUNDS - 2:
                looked, seen = True, in_memory(place, names)
            time.sleep(0.1)
        if running.returncode:
            raise SystemExit(processes.tail("server", 20))
    return place, proxies, seen


def numbers(place: Place, name: str) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Pairs of neighbouring numbers of a client's model, as they lie in memory: personal, shared.

    Of the personal ones only those that training has changed: with the others all begin.
    """
    from plfl.deploy.client import Bench

    dataset = windows.build(source.load(place.study.data, place.cell.state), place.study.windows)
    bench = Bench.of(place.study, dataset)
    from plfl.experiment import federation_of
    from plfl.fleet import Fleet

    fleet = Fleet(dataset, bench.engine, place.study.federation, place.cell.seed)
    rates = agreement.candidate(place.study, place.cell)
    f = federation_of(place.study, place.cell, rates, bench.forecaster, fleet)
    files = place.client(name).glob("*/round-*.safetensors")
    rows = [safetensors.torch.load_file(path)["0/local"][0].numpy() for path in files]
    shared, initial = f.shared.numpy(), f.initial.numpy()

    def pairs(row: NDArray[np.float32], chosen: NDArray[np.bool_]) -> NDArray[np.uint64]:
        both = (chosen & (row != initial))[:-1] & (chosen & (row != initial))[1:]
        two = np.stack([row[:-1], row[1:]], 1)[both]
        return np.ascontiguousarray(two).view(np.uint64).ravel()

    found = [np.concatenate([pairs(row, which) for row in rows]) for which in (~shared, shared)]
    return np.unique(found[0]), np.unique(found[1])


def count(data: bytes, wanted: NDArray[np.uint64], step: int = 1) -> int:
    """How many places of `data`, `step` bytes apart, hold one of the `wanted` pairs."""
    if not len(wanted):
        return 0
    sieve = np.zeros(1 << 24, dtype=bool)
    sieve[(wanted & np.uint64(0xFFFFFF)).astype(np.int64)] = True
    hits = 0
    for offset in range(0, min(8, len(data)), step):
        view = np.frombuffer(data, np.uint64, (len(data) - offset) // 8, offset)
        some = view[sieve[(view & np.uint64(0xFFFFFF)).astype(np.int64)]]
        hits += int(np.isin(some, wanted).sum())
    return hits


def in_memory(place: Place, names: list[str]) -> Counter[str]:
    """Places in the memory of the server's processes that hold numbers of clients' models."""
    found = Counter[str]()
    wanted = [numbers(place, name) for name in names]
    personal, shared = (np.unique(np.concatenate(some)) for some in zip(*wanted, strict=True))
    found["personal pairs searched for"] = len(personal)
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            ours = str(place.server).encode() in (path / "environ").read_bytes()
        except OSError:
            continue
        if not ours or not (b"flwr-serverapp" in words or b"superlink" in words):
            continue
        found["processes"] += 1
        for data in _memory(path):
            found["megabytes"] += len(data) // 1_000_000
            found["personal"] += count(data, personal, 4)
            found["shared"] += count(data, shared, 4)
    return found


def _memory(path: Path) -> "list[bytes]":
    regions = []
    with (path / "mem").open("rb", 0) as memory:
        for line in (path / "maps").read_text().splitlines():
            span, rights, *_, _inode = line.split()[:5]
            # What comes from a file was there before any training.
            if not rights.startswith("rw"):
                continue
            low, high = (int(end, 16) for end in span.split("-"))
            try:
                memory.seek(low)
                regions.append(memory.read(high - low))
            except (OSError, ValueError, OverflowError):
                continue
    return regions


def tell(split: str, place: Place, proxies: list[Proxy], seen: Counter[str]) -> None:
    """Print what was counted."""
    records = Tables(place.results).records(
        ["stage", "client", "bytes_down", "bytes_up", "wire_down", "wire_up"]
    )
    train = records[records["stage"] == "train"].groupby("client").sum(numeric_only=True)
    names = agreement.roster(place.study, place.cell)
    whole = b"".join(bytes(k[w]) for p in proxies for k in p.connections for w in ("up", "down"))
    for way in ("down", "up"):
        parts = sum((p.parts() for p in proxies), Counter[tuple[str, str]]())
        ledger = int(train[f"bytes_{way}"].sum())
        crossed = sum(p.bytes[way] for p in proxies)
        messages = parts[way, "messages"]
        print(f"{split} {way}: ledger {ledger:,}, {messages} messages of a round")
        print(
            f"  objects with its numbers {parts[way, 'train']:,} "
            f"({parts[way, 'train'] / max(ledger, 1) - 1:+.2%})"
        )
        for what in ("other objects", "headers", "protocol", "polling", "app"):
            print(f"  {what} {parts[way, what]:,}")
        print(f"  all that crossed {crossed:,}")
    for name in names:
        personal, shared = numbers(place, name)
        files = b"".join(p.read_bytes() for p in place.server.rglob("*") if p.is_file())
        print(
            f"client {name}: {len(personal):,} personal pairs; in the traffic "
            f"{count(whole, personal)}, in the server's files {count(files, personal)}; "
            f"shared pairs in the traffic {count(whole, shared):,}"
        )
    print("server's memory:", dict(seen))


def main(split: str, tls: bool) -> None:
    """Measure one way of sharing."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for secure in [False, True] if tls else [False]:
        here = Path(tempfile.mkdtemp(prefix="plfl-wire-"))
        begun = time.monotonic()
        place, proxies, seen = run(split, here, secure)
        took = time.monotonic() - begun
        if secure:
            shutil.rmtree(here)
            crossed = {way: sum(p.bytes[way] for p in proxies) for way in ("down", "up")}
            print(f"{split} with TLS, {took:.0f} s: all that crossed {crossed}")
            continue
        print(
            f"{split} without TLS, {took:.0f} s; seconds per round "
            f"{[round(taken.seconds, 1) for taken in place.history]}"
        )
        tell(split, place, proxies, seen)
        dataset = windows.build(
            source.load(place.study.data, place.cell.state), place.study.windows
        )
        problems = list(compare(place, *replay(place.study, place.cell, dataset, place.history)))
        if not problems:
            shutil.rmtree(here)
        print("; ".join(problems) or "equal bits", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], "--no-tls" not in sys.argv)
