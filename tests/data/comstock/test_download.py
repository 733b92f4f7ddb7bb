"""Downloads and draws from moto's S3 server on loopback, and from servers that answer wrongly."""

import hashlib
import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.retries.standard import ExponentialBackoff

from plfl.base.errors import DataError
from plfl.config.data import Data
from plfl.data import sources
from plfl.data.comstock import download, series
from plfl.data.comstock.releases import BUCKET, BUCKET_ROOT, PAPER_RELEASE, REGION, ReleaseKeys
from tests.helpers.comstock_files import study, write_store
from tests.helpers.refusals import naming
from tests.helpers.s3 import empty, serving

COUNTIES = {1000 + i: f"G36{i % 4:03d}0" for i in range(12)}
"""Twelve buildings in four counties."""
IDS = list(COUNTIES)
FEW = IDS[3::4]
"""The buildings of one county."""
BY_COUNTY = "2024/comstock_amy2018_release_2"
UPGRADES = {
    PAPER_RELEASE: 10,
    BY_COUNTY: 10,
    "2021/comstock_tmy3_release_1": 0,
    "2025/comstock_amy2012_release_2": 10,
}
"""A release of each form, and the upgrade of its files."""
LAYOUT = ReleaseKeys(PAPER_RELEASE, 10)
METADATA = LAYOUT.metadata("NY")
SERIES = LAYOUT.load("NY", FEW[0])
WEATHER = LAYOUT.weather(COUNTIES[FEW[0]])


class Bucket:
    """The ComStock bucket with the buildings in each release of `UPGRADES`."""

    def __init__(self, address: str, folder: Path):
        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        study = {"endpoint_url": address, "region_name": REGION, "config": Config(proxies={})}
        self.address, self.files = address, {}
        self.s3: Any = boto3.client("s3", **study, **keys)
        where = {"LocationConstraint": REGION}
        self.s3.create_bucket(Bucket=BUCKET, ACL="public-read", CreateBucketConfiguration=where)
        for release, upgrade in UPGRADES.items():
            write_store(folder, release, upgrade, counties=COUNTIES)
        for path in folder.rglob("*.*"):
            if path.is_file():
                self.put(path.relative_to(folder).as_posix(), path.read_bytes())

    def put(self, key: str, content: bytes) -> None:
        """Store a file."""
        self.files[key] = content
        self.s3.put_object(
            Bucket=BUCKET, Key=f"{BUCKET_ROOT}/{key}", Body=content, ACL="public-read"
        )

    def delete(self, key: str) -> bytes:
        """Remove a file; return its content."""
        self.s3.delete_object(Bucket=BUCKET, Key=f"{BUCKET_ROOT}/{key}")
        return self.files.pop(key)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with serving() as (_, address):
        empty(address)
        yield Bucket(address, tmp_path_factory.mktemp("bucket"))


@pytest.fixture(autouse=True)
def bucket(filled: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The bucket of a user without AWS settings or proxies."""
    for name in ("PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", filled.address)
    monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0)
    return filled


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens at the address of the bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free.getsockname()[1]}")


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """The data section of a study with an empty store."""
    return study(tmp_path / "data")


def cached(data: Data) -> dict[str, Path]:
    """All files in the store by key, temporary ones too; not the manifests."""
    root = data.folder / "comstock"
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix != ".json"]
    return {path.relative_to(root).as_posix(): path for path in files}


def needed(release: str, ids: list[int]) -> set[str]:
    """The keys that a download of these buildings is about."""
    layout = ReleaseKeys(release, UPGRADES[release])
    return {
        *(layout.metadata("NY", COUNTIES[i] if layout.is_by_county else "*") for i in ids),
        *(layout.load("NY", building) for building in ids),
        *(layout.weather(COUNTIES[building]) for building in ids),
    }


def times(data: Data) -> dict[str, int]:
    """When each file in the store was written."""
    return {key: path.stat().st_mtime_ns for key, path in cached(data).items()}


@pytest.mark.parametrize("release", UPGRADES)
def test_each_form_of_release_is_downloaded_and_then_needs_no_network(
    bucket, tmp_path, monkeypatch, release
):
    data = study(tmp_path / "data", release=release, upgrade=UPGRADES[release])
    digests = download.download(data, "NY", FEW)
    assert set(digests) == needed(release, FEW)
    for key, digest in digests.items():
        assert cached(data)[key].read_bytes() == bucket.files[key]
        assert digest == hashlib.sha256(bucket.files[key]).hexdigest()
    tables = series.read(data.folder / "comstock", data, "NY", FEW)
    assert list(tables) == [str(building) for building in FEW]
    monkeypatch.setattr(boto3, "client", None)
    assert download.download(data, "NY", FEW) == digests


def test_only_what_the_study_names_is_downloaded(data: Data) -> None:
    calm = data.model_copy(update={"features": ["load", "time_index", "floor_area"]})
    download.download(calm, "NY", FEW[:1])
    assert set(cached(data)) == {METADATA, SERIES}
    download.download(data, "NY", FEW[:1])
    assert set(cached(data)) == {METADATA, SERIES, WEATHER}


def test_counties_are_fetched_until_every_building_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "WORKERS", 1)
    data, layout = study(tmp_path / "data", release=BY_COUNTY), ReleaseKeys(BY_COUNTY, 10)

    def here() -> list[str]:
        return series.metadata_keys(data.folder / "comstock", layout, "NY")

    assert set(download.download(data, "NY", IDS[1:3])) == needed(BY_COUNTY, IDS[1:3])
    assert here() == [layout.metadata("NY", COUNTIES[i]) for i in IDS[:3]]
    with naming(DataError, BY_COUNTY, "building 99 in NY"):
        download.download(data, "NY", [IDS[0], 99])
    assert len(here()) == 4
    assert layout.load("NY", IDS[0]) not in cached(data)


def test_an_unknown_building_is_refused_before_anything_but_metadata(data: Data) -> None:
    with naming(DataError, "no building 7 in NY"):
        download.download(data, "NY", [*FEW, 7])
    assert set(cached(data)) == {METADATA}


# -- what goes wrong in the network --------------------------------------------------------------


def test_what_arrived_before_an_error_is_not_downloaded_again(bucket: Bucket, data: Data) -> None:
    content = bucket.delete(SERIES)
    with naming(DataError, f"has no file {SERIES}", "data.comstock"):
        download.download(data, "NY", FEW)
    before = times(data)
    assert METADATA in before and SERIES not in before
    bucket.put(SERIES, content)
    assert set(download.download(data, "NY", FEW)) == needed(PAPER_RELEASE, FEW)
    assert before.items() <= times(data).items()


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("release", [PAPER_RELEASE, BY_COUNTY])
def test_no_network(tmp_path: Path, release: str) -> None:
    data = study(tmp_path / "data", release=release)
    with naming(
        DataError, ReleaseKeys(release, 10).metadata("NY"), "run again", "source to sample"
    ):
        download.download(data, "NY", FEW)
    assert not data.folder.exists()


WHOLE = b"PAR1" * 1000


class _Wrong(BaseHTTPRequestHandler):
    """Announces `WHOLE`, and answers with something else."""

    body, status = b"", 200

    def do_HEAD(self) -> None:
        self.send_response(self.status)
        if self.body != b"<html>":
            self.send_header("ETag", f'"{hashlib.md5(WHOLE).hexdigest()}"')
        self.send_header("Content-Length", str(len(WHOLE)))
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


@pytest.mark.parametrize(
    ("body", "status", "remedy"),
    [
        (b"?" + WHOLE[1:], 200, "arrived damaged"),
        (WHOLE[:100], 200, "run again"),
        (b"<html>", 200, "check for a proxy"),
        (WHOLE, 403, "check for a proxy"),
        (WHOLE, 503, "run again later"),
    ],
)
def test_wrong_answers_leave_nothing(body, status, remedy, data, monkeypatch):
    answers = type("Answers", (_Wrong,), {"body": body, "status": status})
    with ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        with naming(DataError, METADATA, remedy):
            download.download(data, "NY", FEW)
        server.shutdown()
    assert not cached(data)


# -- what lies in the store ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [lambda c: c[:-9], lambda c: c[:50] + b"?" + c[51:], lambda _: b""]
)
def test_a_changed_file_is_downloaded_anew_and_no_other(bucket, data, change):
    digests = download.download(data, "NY", FEW)
    before, path = times(data), cached(data)[SERIES]
    path.write_bytes(change(bucket.files[SERIES]))
    assert download.download(data, "NY", FEW) == digests
    assert path.read_bytes() == bucket.files[SERIES]
    after = times(data)
    assert {key for key in after if after[key] != before[key]} == {SERIES}


@pytest.mark.parametrize("content", ["{", "[]", '{"files": 1}', None])
def test_files_that_no_manifest_lists_are_kept_if_the_bucket_has_them(data, content, caplog):
    digests = download.download(data, "NY", FEW)
    manifest = data.folder / "comstock" / PAPER_RELEASE / "manifest-NY-upgrade10.json"
    manifest.write_text(content, encoding="utf-8") if content else manifest.unlink()
    before = times(data)
    assert download.download(data, "NY", FEW) == digests
    assert times(data) == before
    assert json.loads(manifest.read_text(encoding="utf-8")) == {"files": digests}
    assert (f"{manifest} cannot be read" in caplog.text) == (content is not None)


@pytest.mark.usefixtures("offline")
def test_copied_files_are_not_used_before_the_bucket_has_confirmed_them(bucket, data):
    path = data.folder / "comstock" / METADATA
    path.parent.mkdir(parents=True)
    path.write_bytes(bucket.files[METADATA])
    with naming(DataError, METADATA, "run again"):
        download.download(data, "NY", FEW)


# -- drawing -------------------------------------------------------------------------------------


def drawn(data: Data, clients: int = 3, **comstock: Any) -> list[str]:
    """The names of drawn clients, as the source says before and after fetching."""
    data = Data(
        folder=data.folder, states=["NY"], clients=clients, comstock={"draw": 1, **comstock}
    )
    source = sources.source_of(data)
    assert source.settings(data, "NY")["buildings"] == []
    source.fetch(data, "NY")
    assert source.clients(data, "NY") == list(source.load(data, "NY"))
    return source.clients(data, "NY")


def test_a_draw_depends_on_its_seed_only(data: Data, tmp_path: Path) -> None:
    names = drawn(data)
    assert len(set(names)) == 3 and set(names) < set(map(str, IDS))
    assert drawn(study(tmp_path / "elsewhere"), release=BY_COUNTY) == names
    assert drawn(data, clients=12)[:3] == names
    assert len({tuple(drawn(data, draw=seed)) for seed in range(8)}) > 4


def test_a_draw_is_from_every_county_and_its_receipt_says_so(data: Data) -> None:
    drawing = Data(
        folder=data.folder, states=["NY"], clients=1, comstock={"draw": 1, "release": BY_COUNTY}
    )
    files = sources.source_of(drawing).fetch(drawing, "NY")["files"]
    layout = ReleaseKeys(BY_COUNTY, 10)
    for county in set(COUNTIES.values()):
        assert str(drawing.folder / "comstock" / layout.metadata("NY", county)) in files


@pytest.mark.parametrize(
    "keys",
    [
        {"comstock": {"draw": 1}, "buildings": {"NY": IDS}},
        {"comstock": {"draw": 1}, "source": "sample"},
    ],
)
def test_contradictions_of_a_draw_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="draw"):
        Data(states=["NY"], **keys)
