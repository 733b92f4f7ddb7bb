"""Downloads under fire: whatever the network does, the cache holds whole, right files or none.

`PLFL_FAULT_SEEDS=300` sets how many seeded downloads `test_campaign` makes. With `s3rver` (npm) on
the PATH a part of them is made from this second, independent S3 server as well.
"""

import hashlib
import json
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.retries.standard import ExponentialBackoff
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer

from plfl.data import download, source
from plfl.data.releases import BUCKET, PAPER_RELEASE, REGION, ROOT, Layout
from plfl.errors import DataError
from plfl.study import Data
from tests.data.comstock_files import study, write_load, write_store
from tests.faults.proxy import ALWAYS, KINDS, Fault, FaultProxy, fault_proxy

SEEDS = int(os.environ.get("PLFL_FAULT_SEEDS", "20"))
COUNTIES = {1000 + i: f"G36{i % 6:03d}0" for i in range(36)}
"""36 buildings in six counties."""
IDS = list(COUNTIES)
FEW = IDS[5::6]
"""The buildings of one county."""
BY_COUNTY = "2024/comstock_amy2018_release_2"
LAYOUT = Layout(PAPER_RELEASE, 10)
SERIES = LAYOUT.load("NY", IDS[5])
WEATHER = LAYOUT.weather(COUNTIES[IDS[5]])
METADATA = LAYOUT.metadata("NY")
PAGE_SIZE = 4

Store = dict[str, bytes]
"""What the bucket has, by key."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """36 buildings in a release with metadata by state and in one with metadata by county."""
    folder = tmp_path_factory.mktemp("store")
    for release in (PAPER_RELEASE, BY_COUNTY):
        write_store(folder, release, counties=COUNTIES)
    files = [path for path in folder.rglob("*.*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@contextmanager
def moto() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@contextmanager
def s3rver(folder: Path) -> Iterator[str]:
    """The server of https://github.com/jamhall/s3rver."""
    command = shutil.which("s3rver")
    if command is None:
        pytest.skip("no s3rver on the PATH; `npm install --global s3rver` brings it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--directory", str(folder), "--address", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen([command, *arguments, "--silent"]) as process:
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def fill(address: str, store: Store) -> None:
    """Put the store into a server, as the bucket's owner."""
    keys = {"aws_access_key_id": "S3RVER", "aws_secret_access_key": "S3RVER"}
    config = Config(proxies={}, s3={"addressing_style": "path"})
    owner = boto3.client("s3", endpoint_url=address, region_name=REGION, config=config, **keys)
    where = {"LocationConstraint": REGION}
    owner.create_bucket(Bucket=BUCKET, ACL="public-read", CreateBucketConfiguration=where)
    for key, content in store.items():
        owner.put_object(Bucket=BUCKET, Key=f"{ROOT}/{key}", Body=content, ACL="public-read")


@pytest.fixture(scope="module", params=["moto", "s3rver"])
def proxies(
    request: pytest.FixtureRequest, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultProxy]:
    """A proxy before each server, whose bucket is full."""
    if request.param == "moto":
        server, page_size = moto(), PAGE_SIZE
    else:  # which answers 500 when it is asked for the second page of a list
        server, page_size = s3rver(tmp_path_factory.mktemp("s3rver")), 1000
    with server as address, fault_proxy(address, page_size) as proxy:
        fill(address, store)
        yield proxy


@pytest.fixture
def proxy(proxies: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> FaultProxy:
    """The proxy, at `AWS_ENDPOINT_URL_S3`, without faults."""
    proxies.play({})
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxies.url)
    return proxies


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without AWS settings or proxies."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that gives up soon and does not wait before it tries again."""
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    monkeypatch.setattr(download, "READ_TIMEOUT", 0.3)
    monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0)


def fetch(data: Data, ids: list[int] = IDS) -> dict[str, Any]:
    return download.download(data, "NY", ids)


def root(data: Data) -> Path:
    return data.folder / "comstock"


def needed(release: str, ids: list[int] = IDS) -> set[str]:
    """The keys that a download of these buildings is about."""
    layout = Layout(release, 10)
    counties = [COUNTIES[building] for building in ids]
    return {
        *(layout.metadata("NY", county if layout.by_county else "*") for county in counties),
        *(layout.load("NY", building) for building in ids),
        *(layout.weather(county) for county in counties),
    }


def check_cache(data: Data, store: Store, stale: dict[str, bytes] | None = None) -> None:
    """Every file in the cache is the bucket's, or the one that lay there before and no manifest
    calls good; nothing half-written is left; the manifest tells the truth."""
    folder = root(data)
    manifest = folder / data.comstock.release / "manifest-NY-upgrade10.json"
    entries = json.loads(manifest.read_text())["files"] if manifest.exists() else {}
    for path in folder.rglob("*"):
        key = path.relative_to(folder).as_posix()
        if path.is_file() and path != manifest:
            content = path.read_bytes()
            assert content == store.get(key) or content == (stale or {}).get(key), key
    for key, entry in entries.items():
        whole = store[key]
        assert entry["sha256"] == hashlib.sha256(whole).hexdigest()
        assert entry["etag"] in (None, hashlib.md5(whole).hexdigest())


def check_complete(data: Data, store: Store, receipt: dict[str, Any], ids: list[int] = IDS) -> None:
    """The receipt is of all that is needed, and all of it is there and right."""
    assert set(receipt["files"]) == needed(data.comstock.release, ids)
    for key, entry in receipt["files"].items():
        content = (root(data) / key).read_bytes()
        assert content == store[key], key
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
    check_cache(data, store)


def check_message(message: str, names: set[str]) -> None:
    """It names what it is about, and a remedy."""
    assert any(name in message for name in names), message
    assert any(word in message for word in ("run again", "Run again", "check ", "look for")), (
        message
    )


# -- one fault -----------------------------------------------------------------------------------

MENDED = [kind for kind in KINDS if kind not in ("403", "404", "429")]
TOLD = {
    "reset": "cannot be reached",
    "hang": "broke off",
    "reset midway": "broke off",
    "hang midway": "broke off",
    "cut": "broke off",
    "cut unnoticed": "what arrived",
    "flip": "what arrived",
    "flip despite checksum": "what arrived",
    "403": "refuses access",
    "404": "has no file",
    "429": "failed",
    "500": "failed",
    "503": "failed",
    "502 in HTML": "failed",
    "HTML": "what arrived",
    "HTML without length": "what arrived",
    "empty": "what arrived",
    "garbage": "cannot be reached",
}
"""What the message says of each fault that does not go away."""


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", MENDED)
def test_what_goes_wrong_once_is_mended(
    proxy: FaultProxy, tmp_path: Path, store: Store, kind: str
) -> None:
    data = study(tmp_path / "data")
    plan = {f"{ROOT}/{key}": Fault(kind) for key in (METADATA, SERIES, WEATHER)}
    proxy.play(plan)
    check_complete(data, store, fetch(data, FEW), FEW)
    assert {name for name, _ in proxy.met} == set(plan)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        *((kind, SERIES) for kind in TOLD),
        *((kind, WEATHER) for kind in ("cut unnoticed", "flip", "HTML", "empty")),
        *((kind, METADATA) for kind in ("cut unnoticed", "flip", "HTML", "hang")),
    ],
)
def test_what_stays_wrong_is_told(
    proxy: FaultProxy, tmp_path: Path, store: Store, kind: str, key: str
) -> None:
    data = study(tmp_path / "data")
    proxy.play({f"{ROOT}/{key}": Fault(kind, times=ALWAYS)})
    with pytest.raises(DataError) as error:
        fetch(data, FEW)
    assert TOLD[kind] in str(error.value)
    check_message(str(error.value), {key})
    check_cache(data, store)
    assert not (root(data) / key).exists()
    proxy.play({})
    check_complete(data, store, fetch(data, FEW), FEW)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["HTML", "HTML without length", "garbage", "hang", "429"])
def test_a_question_about_a_file_that_something_else_answers(
    proxy: FaultProxy, tmp_path: Path, store: Store, kind: str
) -> None:
    data = study(tmp_path / "data")
    proxy.play({f"{ROOT}/{SERIES}": Fault(kind, "HEAD", times=ALWAYS)})
    with pytest.raises(DataError) as error:
        fetch(data, FEW)
    check_message(str(error.value), {SERIES})
    check_cache(data, store)


@pytest.mark.usefixtures("impatient")
def test_a_late_page_of_a_list(proxy: FaultProxy, tmp_path: Path, store: Store) -> None:
    if proxy.page_size != PAGE_SIZE:
        pytest.skip("this server makes no pages")
    data = study(tmp_path / "data", release=BY_COUNTY)
    proxy.play({"page 2": Fault("hang", times=ALWAYS)})
    with pytest.raises(DataError) as error:
        fetch(data)
    check_message(str(error.value), {Layout(BY_COUNTY, 10).metadata("NY")})
    assert not data.folder.exists()

    proxy.play({"page 2": Fault("hang")})
    check_complete(data, store, fetch(data))


# -- a seeded campaign ---------------------------------------------------------------------------


def campaign(seed: int, release: str) -> dict[str, Fault]:
    """Faults with some of what a download asks for."""
    dice = random.Random(seed)
    keys = sorted(f"{ROOT}/{key}" for key in needed(release))
    if release == BY_COUNTY:
        keys += ["page 1", "page 2"]
    victims = dice.sample(keys, dice.choice([1, 1, 2, 5, 15]))
    plan = {
        key: Fault(
            kind=dice.choice(list(KINDS)),
            method="GET" if key.startswith("page") else dice.choice(["GET", "GET", "HEAD"]),
            times=dice.choice([1, 1, 2, ALWAYS]),
        )
        for key in victims
    }
    # A file is asked about twice: by us and, right before it is fetched, by boto3.
    return {
        key: replace(fault, after=dice.choice([0, 1])) if fault.method == "HEAD" else fault
        for key, fault in plan.items()
    }


def spoil(data: Data, store: Store, dice: random.Random) -> dict[str, bytes]:
    """Leave in the cache what may lie there: right copies, old copies, damaged ones."""
    stale = {}
    for key in dice.sample(sorted(needed(data.comstock.release)), 6):
        path = root(data) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        content = store[key]
        if dice.random() < 0.5:
            stale[key] = content = content[: dice.randrange(len(content))]
        path.write_bytes(content)
    return stale


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_campaign(
    proxy: FaultProxy,
    tmp_path: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    release = BY_COUNTY if seed % 3 == 2 else PAPER_RELEASE
    data = study(tmp_path / "data", release=release)
    stale: dict[str, bytes] = {}
    if seed % 5 == 4:
        stale = spoil(data, store, random.Random(seed))
    proxy.play(campaign(seed, release))
    try:
        receipt = fetch(data)
    except DataError as error:
        # Nothing vouches for a list of files: one that came damaged may lack what it should name.
        names = needed(release) | {Layout(release, 10).metadata("NY"), "there is no building"}
        check_message(str(error), names)
        check_cache(data, store, stale)
    else:
        check_complete(data, store, receipt)
    assert proxy.met or seed % 5 == 4  # what is there already is not asked for

    proxy.play({})
    monkeypatch.setattr(download, "READ_TIMEOUT", 20.0)
    check_complete(data, store, fetch(data))


# -- what lies in the cache ----------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
def test_a_copy_that_the_bucket_refutes_is_not_used_when_the_download_fails(
    proxy: FaultProxy, tmp_path: Path, store: Store
) -> None:
    data = study(tmp_path / "data")
    write_load(root(data) / SERIES, IDS[4])
    proxy.play({f"{ROOT}/{SERIES}": Fault("reset", times=ALWAYS)})
    with pytest.raises(DataError, match=f"Missing or changed in .*{SERIES}"):
        fetch(data, FEW)
    proxy.play({})
    check_complete(data, store, fetch(data, FEW), FEW)


def test_a_copy_that_changes_before_the_bucket_confirms_it_is_found_out(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = study(tmp_path / "data")
    for key in needed(PAPER_RELEASE, FEW):
        path = root(data) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store[key])
    offline(monkeypatch)
    fetch(data, FEW)
    write_load(root(data) / SERIES, IDS[4])
    with pytest.raises(DataError, match="copies that you changed yourself, delete") as error:
        fetch(data, FEW)
    check_message(str(error.value), {SERIES})
    manifest = data.comstock.release + "/manifest-NY-upgrade10.json"
    (root(data) / manifest).unlink()
    assert fetch(data, FEW)["files"][SERIES]["etag"] is None


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens at the address of the bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")


def test_any_change_of_a_cached_file_is_found_out(
    proxy: FaultProxy, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = study(tmp_path / "data")
    receipt = fetch(data, FEW)
    digests = {str(root(data) / key): entry["sha256"] for key, entry in receipt["files"].items()}
    offline(monkeypatch)
    assert fetch(data, FEW) == receipt

    @settings(max_examples=40, deadline=None, database=None)
    @given(st.sampled_from(sorted(receipt["files"])), st.data())
    def change(key: str, draw: st.DataObject) -> None:
        path, whole = root(data) / key, store[key]
        at = draw.draw(st.integers(0, len(whole) - 1))
        path.write_bytes(
            draw.draw(
                st.sampled_from(
                    [
                        whole[:at],
                        whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :],
                        whole[:at] + whole[at + 1 :],
                        whole + whole[:1],
                    ]
                )
            )
        )
        with pytest.raises(DataError) as error:
            fetch(data, FEW)
        check_message(str(error.value), {key})
        with pytest.raises(DataError, match="has changed since the data were fetched"):
            source.verify({"files": digests})
        path.write_bytes(whole)

    change()
    assert fetch(data, FEW) == receipt


@pytest.mark.parametrize("key", ["../outside.csv", "/outside.csv", "a/../../outside.csv"])
def test_no_key_leads_out_of_the_store(tmp_path: Path, key: str) -> None:
    cache = download.Cache(tmp_path / "store", LAYOUT, "NY")
    with pytest.raises(DataError, match="leads out of the store"):
        cache.fetch([key])
