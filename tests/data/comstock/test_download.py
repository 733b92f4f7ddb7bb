"""Downloading from a real S3 server on loopback that keeps public files in the bucket's layout."""

import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from s3transfer.utils import DeferredOpenFile  # type: ignore[import-untyped]

from plfl.base.errors import DataError, PlflError
from plfl.config.sections import Data
from plfl.data.comstock import download
from plfl.data.comstock import series as comstock
from plfl.data.comstock.releases import PAPER_RELEASE, Layout
from tests.helpers.comstock_files import COUNTIES, study, write_store, write_weather
from tests.helpers.faults.downloads import (
    BY_COUNTY,
    Bucket,
    Store,
    contents,
    moto,
    offline,
    without_aws,
)

IDS = list(COUNTIES)
LAYOUT = Layout(PAPER_RELEASE, 10)
METADATA = LAYOUT.metadata("NY")
SERIES = LAYOUT.load("NY", IDS[0])
WEATHER = LAYOUT.weather(COUNTIES[IDS[0]])
MANIFEST = f"{PAPER_RELEASE}/manifest-NY-upgrade10.json"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user without AWS credentials, settings or proxies, who does not wait for retries."""
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    with without_aws(tmp_path):
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with moto() as bucket:
        yield bucket


@pytest.fixture
def bucket(server: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket at `AWS_ENDPOINT_URL_S3`."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.address)
    yield server
    server.delete()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three buildings of New York."""
    folder = tmp_path_factory.mktemp("store")
    write_store(folder)
    return contents(folder)


@pytest.fixture
def full(bucket: Bucket, store: Store) -> Bucket:
    """A bucket with three buildings of New York."""
    bucket.put(store)
    return bucket


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """The data section of a study with an empty cache."""
    return study(tmp_path / "data")


def fetch(data: Data, ids: list[int] = IDS) -> dict[str, Any]:
    return download.download(data, "NY", ids)


def cached(data: Data) -> set[str]:
    """Keys of all files in the cache, temporary ones too; not the manifests."""
    root = data.folder / "comstock"
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    return {key for key in files if "manifest" not in key}


def refused(data: Data, ids: list[int] = IDS) -> str:
    """The message with which a download ends."""
    with pytest.raises(DataError) as error:
        fetch(data, ids)
    return str(error.value)


# -- cold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "release",
    [
        "2021/comstock_tmy3_release_1",
        "2023/comstock_amy2018_release_1",
        "2024/comstock_amy2018_release_2",
        "2025/comstock_amy2012_release_2",
    ],
)
def test_each_form_of_release_is_downloaded_and_read(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    upgrade = 0 if release.startswith("2021") else 10
    write_store(tmp_path / "store", release, upgrade)
    bucket.put(contents(tmp_path / "store"))
    data = study(tmp_path / "data", release=release, upgrade=upgrade)
    receipt = fetch(data)
    assert set(receipt["files"]) == cached(data)
    for key, entry in receipt["files"].items():
        content = (tmp_path / "store" / key).read_bytes()
        assert (data.folder / "comstock" / key).read_bytes() == content
        assert entry == {
            "size": len(content),
            "etag": hashlib.md5(content).hexdigest(),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    assert list(comstock.read(data.folder / "comstock", data, "NY", IDS)) == [str(i) for i in IDS]
    # With everything here there is no look at the network.
    monkeypatch.setattr(boto3, "client", None)
    assert fetch(data) == receipt


def test_only_what_the_study_names_is_downloaded(full: Bucket, data: Data) -> None:
    fetch(data.model_copy(update={"features": ["load", "time_index", "floor_area"]}), IDS[:1])
    assert cached(data) == {METADATA, SERIES}
    receipt = fetch(data, IDS[:1])
    assert cached(data) == {METADATA, SERIES, WEATHER}
    assert receipt["release"] == PAPER_RELEASE
    assert (receipt["upgrade"], receipt["state"]) == (10, "NY")


def test_the_manifest_grows_with_what_is_downloaded(full: Bucket, data: Data) -> None:
    first = fetch(data, IDS[:1])
    second = fetch(data, IDS[2:])
    manifest = json.loads((data.folder / "comstock" / MANIFEST).read_text(encoding="utf-8"))
    assert manifest == {**first, "files": first["files"] | second["files"]}
    assert SERIES not in second["files"]


def test_files_have_the_rights_of_any_other_file(full: Bucket, data: Data, tmp_path: Path) -> None:
    fetch(data, IDS[:1])
    (tmp_path / "other").touch()
    mode = (data.folder / "comstock" / SERIES).stat().st_mode
    assert mode == (tmp_path / "other").stat().st_mode


# -- cached --------------------------------------------------------------------------------------


def test_a_changed_file_is_downloaded_anew_and_no_other(full: Bucket, data: Data) -> None:
    receipt = fetch(data)
    root = data.folder / "comstock"
    path, content = root / SERIES, (root / SERIES).read_bytes()
    path.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    others = receipt["files"].keys() - {SERIES}
    times = {key: (root / key).stat().st_mtime_ns for key in others}
    full.delete(*others)
    assert fetch(data) == receipt
    assert path.read_bytes() == content
    assert {key: (root / key).stat().st_mtime_ns for key in others} == times


@pytest.mark.parametrize("content", ["{", "[]", '{"files": {"a": {"size": 1}}}'])
def test_an_unreadable_manifest_is_made_anew(
    full: Bucket, data: Data, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = fetch(data, IDS[:1])
    manifest = data.folder / "comstock" / MANIFEST
    manifest.write_text(content, encoding="utf-8")
    before = (data.folder / "comstock" / SERIES).stat().st_mtime_ns
    with caplog.at_level(logging.WARNING, "plfl"):
        assert fetch(data, IDS[:1]) == receipt
    assert f"{manifest} cannot be read" in caplog.text
    assert json.loads(manifest.read_text(encoding="utf-8")) == receipt
    assert (data.folder / "comstock" / SERIES).stat().st_mtime_ns == before


# -- files copied by hand ------------------------------------------------------------------------


@pytest.fixture
def copied(data: Data) -> Path:
    """A cache that was filled by hand."""
    root = data.folder / "comstock"
    write_store(root)
    return root


def test_copied_files_do_without_the_bucket_until_it_confirms_them(
    data: Data, copied: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    with offline(), caplog.at_level(logging.WARNING, "plfl"):
        receipt = fetch(data)
        assert fetch(data) == receipt
    assert "cannot be reached" in caplog.text
    assert str(copied) in caplog.text
    assert {entry["etag"] for entry in receipt["files"].values()} == {None}

    times = {key: (copied / key).stat().st_mtime_ns for key in cached(data)}
    bucket.put({key: (copied / key).read_bytes() for key in times})
    confirmed = fetch(data)
    assert all(entry.pop("etag") for entry in confirmed["files"].values())
    for key, entry in confirmed["files"].items():
        assert receipt["files"][key] == {**entry, "etag": None}
    assert {key: (copied / key).stat().st_mtime_ns for key in cached(data)} == times


def test_copied_files_are_not_enough_if_one_lacks(data: Data, copied: Path) -> None:
    (copied / SERIES).unlink()
    with offline():
        message = refused(data)
    assert "cannot be reached" in message
    assert message.endswith(f"{copied}: {SERIES}")


# -- metadata by county --------------------------------------------------------------------------


def test_counties_are_fetched_until_every_building_is_found(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counties = {11: "G3600010", 12: "G3600030", 13: "G3600050", 14: "G3600070"}
    layout = write_store(tmp_path / "store", BY_COUNTY, 10, counties=counties)
    bucket.put(contents(tmp_path / "store"))
    monkeypatch.setattr(download, "WORKERS", 1)
    data = study(tmp_path / "data", release=BY_COUNTY)

    def metadata() -> list[str]:
        return comstock.metadata_keys(data.folder / "comstock", layout, "NY")

    receipt = fetch(data, [13, 12])
    assert metadata() == [layout.metadata("NY", counties[i]) for i in (11, 12, 13)]
    assert set(receipt["files"]) == {
        *(layout.metadata("NY", counties[i]) for i in (12, 13)),
        *(layout.load("NY", i) for i in (12, 13)),
        *(layout.weather(counties[i]) for i in (12, 13)),
    }
    fetch(data, [11])
    assert len(metadata()) == 3
    message = refused(data, [11, 99])
    assert f"{BY_COUNTY}, upgrade 10" in message and "building 99 in NY" in message
    assert len(metadata()) == 4
    assert not [key for key in cached(data) if key == layout.load("NY", 14)]


# -- what is refused -----------------------------------------------------------------------------


def test_an_unknown_building_is_refused_before_anything_but_metadata(
    full: Bucket, data: Data
) -> None:
    assert "no building 7 in NY" in refused(data, [*IDS, 7])
    assert cached(data) == {METADATA}


def test_an_upgrade_that_the_release_lacks(full: Bucket, tmp_path: Path) -> None:
    data = study(tmp_path / "data", upgrade=77)
    message = refused(data)
    assert Layout(PAPER_RELEASE, 77).metadata("NY") in message
    assert "upgrade" in message
    assert not cached(data)


def test_all_absent_files_are_named_before_any_is_downloaded(full: Bucket, data: Data) -> None:
    absent = [LAYOUT.load("NY", building) for building in IDS[:2]]
    full.delete(*absent)
    assert f"{absent[0]}, {absent[1]}" in refused(data)
    assert cached(data) == {METADATA}


@pytest.mark.parametrize("release", [PAPER_RELEASE, BY_COUNTY])
def test_no_network(tmp_path: Path, release: str) -> None:
    data = study(tmp_path / "data", release=release)
    with offline():
        message = refused(data)
    assert message.startswith("the ComStock bucket cannot be reached (Could not connect to the ")
    assert "run again when there is a network, or set data.source to sample" in message
    assert not data.folder.exists()


@pytest.mark.parametrize(
    ("variable", "value"), [("AWS_ENDPOINT_URL_S3", "localhost:9000"), ("AWS_PROFILE", "nobody")]
)
def test_an_address_or_profile_that_is_none(
    data: Data, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    assert "check the AWS_ environment variables" in refused(data)


def test_a_full_disk(full: Bucket, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DeferredOpenFile, "write", write)
        with pytest.raises(PlflError, match="parquet: the disk is full; free some space"):
            fetch(data)
    assert not cached(data)
    assert set(fetch(data)["files"]) == cached(data)


def test_a_weather_file_is_known_by_its_first_column(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    write_weather(path, "G3600050")
    remote = download.Remote(path.stat().st_size, "")
    assert download._fault(path, remote) is None
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert download._fault(path, download.Remote(path.stat().st_size, "")) is None
