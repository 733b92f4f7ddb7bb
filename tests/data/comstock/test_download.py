"""Downloads from a real S3 server on loopback, and whatever the network does to them."""

import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.base.errors import DataError
from plfl.config.sections import Data
from plfl.data import receipts
from plfl.data.comstock import download
from plfl.data.comstock import series as comstock
from plfl.data.comstock.releases import PAPER_RELEASE, ROOT, Layout
from tests.helpers.comstock_files import study
from tests.helpers.faults import downloads
from tests.helpers.faults.downloads import (
    BY_COUNTY,
    COUNTIES,
    IDS,
    UPGRADES,
    Store,
    check_cache,
    check_complete,
    check_message,
    fetch,
    manifest,
    needed,
    offline,
    root,
)
from tests.helpers.faults.proxy import ALWAYS, KINDS, Fault, FaultProxy
from tests.helpers.refusals import naming

FEW = IDS[5::6]
"""The buildings of one county."""
LAYOUT = Layout(PAPER_RELEASE, 10)
SERIES = LAYOUT.load("NY", IDS[5])
WEATHER = LAYOUT.weather(COUNTIES[IDS[5]])
METADATA = LAYOUT.metadata("NY")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return downloads.make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def bucket(store: Store) -> Iterator[FaultProxy]:
    with downloads.bucket(store) as proxy:
        yield proxy


@pytest.fixture
def proxy(bucket: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> FaultProxy:
    """The bucket at `AWS_ENDPOINT_URL_S3`, without faults."""
    bucket.play({})
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.url)
    return bucket


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path) -> Iterator[None]:
    """A user without AWS credentials, settings or proxies."""
    with downloads.without_aws(tmp_path):
        yield


@pytest.fixture
def impatient() -> Iterator[None]:
    with downloads.impatient():
        yield


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """The data section of a study with an empty cache."""
    return study(tmp_path / "data")


@pytest.fixture
def copied(data: Data, store: Store) -> Path:
    """The cache of `data`, which was filled by hand with `FEW` buildings."""
    for key in needed(PAPER_RELEASE, FEW):
        path = root(data) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store[key])
    return root(data)


def cached(data: Data) -> set[str]:
    """Keys of all files in the cache, temporary ones too; not the manifests."""
    files = [path for path in root(data).rglob("*") if path.is_file() and path != manifest(data)]
    return {path.relative_to(root(data)).as_posix() for path in files}


def refused(data: Data, ids: list[int] = FEW) -> str:
    """The message with which a download ends."""
    with pytest.raises(DataError) as error:
        fetch(data, ids)
    return str(error.value)


# -- cold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", UPGRADES)
def test_each_form_of_release_is_downloaded_and_read(
    proxy: FaultProxy,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    release: str,
) -> None:
    data = study(tmp_path / "data", release=release, upgrade=UPGRADES[release])
    receipt = fetch(data, FEW)
    check_complete(data, store, receipt, FEW)
    for key, entry in receipt["files"].items():
        assert entry["etag"] == hashlib.md5(store[key]).hexdigest()
    assert list(comstock.read(root(data), data, "NY", FEW)) == [str(i) for i in FEW]
    # With everything here there is no look at the network.
    monkeypatch.setattr(boto3, "client", None)
    assert fetch(data, FEW) == receipt


def test_only_what_the_study_names_is_downloaded(proxy: FaultProxy, data: Data) -> None:
    fetch(data.model_copy(update={"features": ["load", "time_index", "floor_area"]}), FEW[:1])
    assert cached(data) == {METADATA, SERIES}
    receipt = fetch(data, FEW[:1])
    assert cached(data) == {METADATA, SERIES, WEATHER}
    assert receipt["release"] == PAPER_RELEASE
    assert (receipt["upgrade"], receipt["state"]) == (10, "NY")


def test_counties_are_fetched_until_every_building_is_found(
    proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "WORKERS", 1)
    data, layout = study(tmp_path / "data", release=BY_COUNTY), Layout(BY_COUNTY, 10)

    def metadata() -> list[str]:
        return comstock.metadata_keys(root(data), layout, "NY")

    found = IDS[2:0:-1]
    receipt = fetch(data, found)
    assert metadata() == [layout.metadata("NY", COUNTIES[i]) for i in IDS[:3]]
    assert set(receipt["files"]) == needed(BY_COUNTY, found)
    fetch(data, IDS[:1])
    assert len(metadata()) == 3
    message = refused(data, [IDS[0], 99])
    assert f"{BY_COUNTY}, upgrade 10" in message and "building 99 in NY" in message
    assert len(metadata()) == 6
    assert layout.load("NY", IDS[3]) not in cached(data)


# -- what goes wrong in the network --------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("403", "404", "429")])
def test_what_goes_wrong_once_is_corrected(
    proxy: FaultProxy, data: Data, store: Store, kind: str
) -> None:
    plan = {f"{ROOT}/{key}": Fault(kind) for key in (METADATA, SERIES, WEATHER)}
    proxy.play(plan)
    check_complete(data, store, fetch(data, FEW), FEW)
    assert {name for name, _ in proxy.met} == set(plan)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("kind", "method", "key"),
    [
        *((kind, "GET", SERIES) for kind in KINDS),
        *((kind, "GET", WEATHER) for kind in ("cut unnoticed", "HTML")),
        *((kind, "GET", METADATA) for kind in ("flip", "HTML")),
        *((kind, "HEAD", SERIES) for kind in ("HTML", "hang")),
        ("HTML without length", "HEAD", SERIES),
    ],
)
def test_what_stays_wrong_is_told(
    proxy: FaultProxy, data: Data, store: Store, kind: str, method: str, key: str
) -> None:
    proxy.play({f"{ROOT}/{key}": Fault(kind, method, times=ALWAYS)})
    check_message(refused(data), {key})
    check_cache(data, store)
    assert not (root(data) / key).exists()
    proxy.play({})
    check_complete(data, store, fetch(data, FEW), FEW)


@pytest.mark.usefixtures("impatient")
def test_a_page_of_a_list(proxy: FaultProxy, tmp_path: Path, store: Store) -> None:
    data = study(tmp_path / "data", release=BY_COUNTY)
    # HTML may be sound XML, in which boto3 sees an empty list.
    for fault in ({"page 2": Fault("hang", times=ALWAYS)}, {"page 1": Fault("HTML", times=ALWAYS)}):
        proxy.play(fault)
        check_message(refused(data, IDS), {Layout(BY_COUNTY, 10).metadata("NY")})
        assert not data.folder.exists()

    proxy.play({"page 2": Fault("hang")})
    check_complete(data, store, fetch(data))


@pytest.mark.usefixtures("impatient")
def test_an_etag_that_is_no_md5_is_no_reason_to_refuse(
    proxy: FaultProxy, data: Data, store: Store
) -> None:
    proxy.play({f"{ROOT}/{SERIES}": Fault("other ETag", "HEAD", times=ALWAYS)})
    assert fetch(data, FEW)["files"][SERIES]["etag"] == "0123456789abcdef-3"
    assert (root(data) / SERIES).read_bytes() == store[SERIES]


@pytest.mark.parametrize("release", [PAPER_RELEASE, BY_COUNTY])
def test_no_network(tmp_path: Path, release: str) -> None:
    data = study(tmp_path / "data", release=release)
    with offline():
        message = refused(data)
    assert message.startswith("the ComStock bucket cannot be reached (Could not connect to the ")
    assert "run again when there is a network, or set data.source to sample" in message
    assert not data.folder.exists()


# -- what lies in the cache ----------------------------------------------------------------------


def test_a_changed_file_is_downloaded_anew_and_no_other(
    proxy: FaultProxy, data: Data, store: Store
) -> None:
    receipt = fetch(data, FEW)
    path, others = root(data) / SERIES, receipt["files"].keys() - {SERIES}
    path.write_bytes(store[SERIES][:50] + b"?" + store[SERIES][51:])
    times = {key: (root(data) / key).stat().st_mtime_ns for key in others}
    proxy.play({f"{ROOT}/{key}": Fault("404", "HEAD", times=ALWAYS) for key in others})
    assert fetch(data, FEW) == receipt
    assert path.read_bytes() == store[SERIES]
    assert {key: (root(data) / key).stat().st_mtime_ns for key in others} == times


@pytest.mark.parametrize("content", ["{", "[]", '{"files": {"a": {"size": 1}}}'])
def test_an_unreadable_manifest_is_made_anew(
    proxy: FaultProxy, data: Data, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = fetch(data, FEW[:1])
    manifest(data).write_text(content, encoding="utf-8")
    before = (root(data) / SERIES).stat().st_mtime_ns
    with caplog.at_level(logging.WARNING, "plfl"):
        assert fetch(data, FEW[:1]) == receipt
    assert f"{manifest(data)} cannot be read" in caplog.text
    assert json.loads(manifest(data).read_text(encoding="utf-8")) == receipt
    assert (root(data) / SERIES).stat().st_mtime_ns == before


def test_copied_files_are_kept_if_the_bucket_confirms_them(
    proxy: FaultProxy, data: Data, copied: Path
) -> None:
    with offline():
        message = refused(data)
    assert "cannot be reached" in message and str(copied) in message
    times = {key: (copied / key).stat().st_mtime_ns for key in cached(data)}
    assert all(entry["etag"] for entry in fetch(data, FEW)["files"].values())
    assert {key: (copied / key).stat().st_mtime_ns for key in cached(data)} == times


def test_any_change_of_a_cached_file_is_found_out(
    proxy: FaultProxy, data: Data, store: Store
) -> None:
    receipt = fetch(data, FEW)
    digests = {str(root(data) / key): entry["sha256"] for key, entry in receipt["files"].items()}

    @settings(max_examples=40, deadline=None, database=None)
    @given(st.sampled_from(sorted(receipt["files"])), st.data())
    def change(key: str, draw: st.DataObject) -> None:
        path, whole = root(data) / key, store[key]
        at = draw.draw(st.integers(0, len(whole) - 1))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
        changes = [whole[:at], flipped, whole[:at] + whole[at + 1 :], whole + whole[:1]]
        path.write_bytes(draw.draw(st.sampled_from(changes)))
        check_message(refused(data), {key})
        with pytest.raises(DataError, match="has changed since the data were fetched"):
            receipts.verify({"files": digests})
        path.write_bytes(whole)

    with offline():
        assert fetch(data, FEW) == receipt
        change()
        assert fetch(data, FEW) == receipt


# -- what is refused -----------------------------------------------------------------------------


def test_an_unknown_building_is_refused_before_anything_but_metadata(
    proxy: FaultProxy, data: Data
) -> None:
    assert "no building 7 in NY" in refused(data, [*FEW, 7])
    assert cached(data) == {METADATA}


@pytest.mark.parametrize("key", ["../outside.csv", "/outside.csv", "a/../../outside.csv"])
def test_no_key_leads_out_of_the_store(tmp_path: Path, key: str) -> None:
    cache = download.Cache(tmp_path / "store", LAYOUT, "NY")
    with naming(DataError, "points outside the store"):
        cache.fetch([key])
