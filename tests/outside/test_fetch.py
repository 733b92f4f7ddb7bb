"""Originals are downloaded from a server with their real layout, which may send half or damage."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from plfl.base.errors import DataError
from plfl.outside import originals
from plfl.outside.frozen import open_task
from plfl.outside.originals import Original, OriginalFile, fetch, original_of
from tests.helpers.refusals import naming

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "building_data/processed_data"
HOURS = pd.date_range("2018-01-01", "2019-12-31 23:00", freq="h", name="datetime")


class Server(ThreadingHTTPServer):
    """Serves files by their paths, and counts the bytes that it sends."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.sent, self.asked = files, Counter[str](), list[tuple[str, str]]()
        self.cut: dict[str, list[int]] = {}
        """Bytes after which a connection ends, once for each number, by path."""
        self.knows_ranges = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers with ranges, as file servers do."""

    server: Server

    def do_GET(self) -> None:
        path, wanted = self.path.lstrip("/"), self.headers.get("Range", "")
        self.server.asked.append((path, wanted))
        if path not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[path]
        first = int(wanted[6:-1]) if wanted and self.server.knows_ranges else 0
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        rest = content[first:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if cuts := self.server.cut.get(path):
            rest = rest[: cuts.pop(0)]
        self.wfile.write(rest)
        self.server.sent[path] += len(rest)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def make_building(seed: int, year: int) -> bytes:
    """A year of a building as the archive has it."""
    stamps = HOURS[HOURS.year == year]
    load = 20 + np.random.default_rng([seed, year]).gamma(2, 3, len(stamps)).round(1)
    return pd.DataFrame({"equipment load [kWh]": load}, stamps).to_csv().encode()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {
        f"{FOLDER}/UCam_Building_b{i}/electricity/{year}.csv": make_building(i, year)
        for i in range(2)
        for year in (2018, 2019)
    }


@pytest.fixture
def server(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(originals, "FIRST_WAIT", 0.0)
    with Server(dict(files)) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def archive(files: dict[str, bytes], server: Server) -> Original:
    listed = tuple(OriginalFile(p, len(b), sha256(b).hexdigest()) for p, b in files.items())
    folder = "Cambridge-Estates-Building-Energy-Archive"
    return Original("cambridge", "Archive", "page", "MIT", server.address, folder, listed)


def test_files_are_downloaded_once_and_become_a_table(
    archive: Original, server: Server, here: Path
) -> None:
    tables = fetch(archive, Path("data"), say=lambda _: None)
    path = Path("data/cambridge/cambridge_2018_2019_hourly_kwh.parquet")
    assert tables == {path: 2}
    table = pd.read_parquet(path)
    read = pd.read_csv(Path("data/originals/cambridge", archive.folder, archive.files[0].path))
    np.testing.assert_allclose(table.iloc[: len(read), 0], read.iloc[:, 1], rtol=1e-6)
    assert server.sent == {file.path: file.size for file in archive.files}
    fetch(archive, Path("data"), say=lambda _: None)
    assert len(server.asked) == len(archive.files)


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_download_goes_on_where_it_was_cut_off(
    archive: Original, server: Server, here: Path, knows_ranges: bool
) -> None:
    file = archive.files[1]
    server.cut[file.path], server.knows_ranges = [1000, 2500], knows_ranges
    fetch(archive, Path("data"), say=lambda _: None)
    ranges = [wanted for path, wanted in server.asked if path == file.path]
    if knows_ranges:
        assert ranges == ["", "bytes=1000-", "bytes=3500-"]
        assert server.sent[file.path] == file.size
    else:
        assert ranges == ["", "bytes=1000-", "bytes=2500-"]
        assert server.sent[file.path] == file.size + 3500


def test_what_arrived_stays_for_the_next_command(
    archive: Original, server: Server, here: Path
) -> None:
    file = archive.files[0]
    server.cut[file.path] = [100] * originals.DOWNLOAD_TRIES
    with naming(DataError, file.path, "500 of", "goes on from there"):
        fetch(archive, Path("data"), say=lambda _: None)
    part = next(Path("data").rglob("*.part"))
    assert part.stat().st_size == 100 * originals.DOWNLOAD_TRIES
    fetch(archive, Path("data"), say=lambda _: None)
    assert server.asked[originals.DOWNLOAD_TRIES] == (
        file.path,
        f"bytes={100 * originals.DOWNLOAD_TRIES}-",
    )
    assert not [*Path("data").rglob("*.part")]


def test_damaged_files_are_refused_and_leave_nothing(
    archive: Original, server: Server, here: Path
) -> None:
    file = archive.files[2]
    content = bytearray(server.files[file.path])
    content[500] ^= 1
    server.files[file.path] = bytes(content)
    with naming(DataError, file.path, "SHA-256", file.sha256, "--from"):
        fetch(archive, Path("data"), say=lambda _: None)
    folder = Path("data/originals/cambridge", archive.folder)
    assert not (folder / file.path).exists() and not [*folder.rglob("*.part")]
    assert not Path("data/cambridge").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content + b"more", ("is larger than",)),
        (lambda content: content[:-10], ("sent less than it said", "goes on from there")),
        (None, ("404",)),
    ],
)
def test_other_content_and_missing_files_are_refused(
    archive: Original,
    server: Server,
    here: Path,
    change: Callable[[bytes], bytes] | None,
    words: tuple[str, ...],
) -> None:
    path = archive.files[0].path
    content = server.files.pop(path)
    if change is not None:
        server.files[path] = change(content)
    with naming(DataError, path, *words):
        fetch(archive, Path("data"), say=lambda _: None)
    assert not Path("data/originals/cambridge", archive.folder, path).exists()


def test_a_file_that_was_changed_here_is_downloaded_again(
    archive: Original, server: Server, here: Path
) -> None:
    fetch(archive, Path("data"), say=lambda _: None)
    file = archive.files[3]
    path = Path("data/originals/cambridge", archive.folder, file.path)
    path.write_bytes(path.read_bytes()[::-1])
    fetch(archive, Path("data"), say=lambda _: None)
    assert sha256(path.read_bytes()).hexdigest() == file.sha256


def test_a_server_that_is_gone_is_named(archive: Original, here: Path) -> None:
    closed = replace(archive, base="http://127.0.0.1:9/")
    with naming(DataError, "http://127.0.0.1:9/", "0 of"):
        fetch(closed, Path("data"), say=lambda _: None)


def test_what_only_a_person_can_download_is_said(here: Path) -> None:
    london = originals.originals()["lcl_homes"]
    with naming(DataError, london.page, "LCL", str(Path("data/originals/lcl_homes"))):
        fetch(london, Path("data"))


def test_every_task_of_meters_has_its_original() -> None:
    names = {}
    for path in sorted((ROOT / "tasks").glob("*.yaml")):
        task = open_task(path)[1]
        assert task is not None
        original = original_of(task)
        names[task.name] = original.name if original else None
        assert (original is not None) == (task.data_study.data.source == "meters")
    assert names["campus-1-week"] == "cambridge"
    assert originals.originals()["cambridge"].size < 6_000_000
    for original in originals.originals().values():
        assert original.licence and original.page.startswith("https://")
        assert original.files or original.by_hand
        for file in original.files:
            assert len(file.sha256) == 64 and file.size > 0


def test_the_command_says_what_it_does(
    archive: Original, server: Server, here: Path, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(originals, "originals", lambda: {"cambridge": archive})
    names = ["UCam_Building_b0", "UCam_Building_b1"]
    raw = yaml.safe_load((ROOT / "tasks" / "campus-1-week.yaml").read_text())
    raw["study"]["data"] |= {"clients": 2}
    raw["study"]["data"]["meters"]["only"] = names
    Path("mine.yaml").write_text(yaml.safe_dump(raw | {"clients": 2, "digest": "0" * 64}))
    printed = invoke("data", "fetch", "mine.yaml", "--from", f"{server.address}/", status=2)
    assert f"from {server.address}" in printed.out and "licence MIT" in printed.out
    for file in archive.files:
        assert f"  {file.path}, {file.size:,} bytes, SHA-256 {file.sha256}\n" in printed.out
    assert "hourly_kwh.parquet: 2 meters" in printed.out
    digest = printed.err.split("with the digest ")[1][:64]
    Path("mine.yaml").write_text(yaml.safe_dump(raw | {"clients": 2, "digest": digest}))
    again = invoke("data", "fetch", "mine.yaml")
    assert "the data are those of campus-1-week, version 1" in again.out
    assert "needs no download" in invoke("data", "fetch", "sample").out
