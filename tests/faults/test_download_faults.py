"""Downloads under fire: whatever the network does, the cache holds whole, right files or none.

`make campaign NAME=torture` makes hundreds of the downloads of which `test_campaign` makes a few.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.base.errors import DataError
from plfl.data import receipts
from plfl.data.comstock import download
from plfl.data.comstock.releases import PAPER_RELEASE, ROOT, Layout
from tests.helpers.comstock_files import study, write_load
from tests.helpers.faults import downloads
from tests.helpers.faults.downloads import (
    BY_COUNTY,
    COUNTIES,
    IDS,
    PAGE_SIZE,
    Store,
    check_cache,
    check_complete,
    check_message,
    fetch,
    needed,
    offline,
    root,
)
from tests.helpers.faults.proxy import ALWAYS, KINDS, Fault, FaultProxy, fault_proxy
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
def proxies(store: Store) -> Iterator[FaultProxy]:
    """A proxy before the server, whose bucket is full."""
    with downloads.moto() as bucket, fault_proxy(bucket.address, PAGE_SIZE) as proxy:
        bucket.put(store)
        yield proxy


@pytest.fixture
def proxy(proxies: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> FaultProxy:
    """The proxy, at `AWS_ENDPOINT_URL_S3`, without faults."""
    proxies.play({})
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxies.url)
    return proxies


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path) -> Iterator[None]:
    with downloads.without_aws(tmp_path):
        yield


@pytest.fixture
def impatient() -> Iterator[None]:
    with downloads.impatient():
        yield


# -- one fault -----------------------------------------------------------------------------------

TOLD = [kind for kind in KINDS if kind != "slow"]
MENDED = [kind for kind in KINDS if kind not in ("403", "404", "429")]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", MENDED)
def test_what_goes_wrong_once_is_corrected(
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
def test_a_page_of_a_list(proxy: FaultProxy, tmp_path: Path, store: Store) -> None:
    data = study(tmp_path / "data", release=BY_COUNTY)
    # HTML may be sound XML, in which boto3 sees an empty list.
    for fault in ({"page 2": Fault("hang", times=ALWAYS)}, {"page 1": Fault("HTML", times=ALWAYS)}):
        proxy.play(fault)
        with pytest.raises(DataError) as error:
            fetch(data)
        check_message(str(error.value), {Layout(BY_COUNTY, 10).metadata("NY")})
        assert not data.folder.exists()

    proxy.play({"page 2": Fault("hang")})
    check_complete(data, store, fetch(data))


@pytest.mark.usefixtures("impatient")
def test_an_etag_that_is_no_md5_is_no_reason_to_refuse(
    proxy: FaultProxy, tmp_path: Path, store: Store
) -> None:
    data = study(tmp_path / "data")
    proxy.play({f"{ROOT}/{SERIES}": Fault("other ETag", "HEAD", times=ALWAYS)})
    assert fetch(data, FEW)["files"][SERIES]["etag"] == "0123456789abcdef-3"
    assert (root(data) / SERIES).read_bytes() == store[SERIES]


@pytest.mark.parametrize("seed", range(10))
def test_campaign(seed: int, proxy: FaultProxy, store: Store, tmp_path: Path) -> None:
    downloads.survive(seed, proxy, store, tmp_path / "data")


# -- what lies in the cache ----------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
def test_a_copy_that_the_bucket_refutes_is_not_used_when_the_download_fails(
    proxy: FaultProxy, tmp_path: Path, store: Store
) -> None:
    data = study(tmp_path / "data")
    write_load(root(data) / SERIES, IDS[4])
    proxy.play({f"{ROOT}/{SERIES}": Fault("reset", times=ALWAYS)})
    with naming(DataError, SERIES):
        fetch(data, FEW)
    proxy.play({})
    check_complete(data, store, fetch(data, FEW), FEW)


def test_a_copy_that_changes_before_the_bucket_confirms_it_is_found_out(
    tmp_path: Path, store: Store
) -> None:
    data = study(tmp_path / "data")
    for key in needed(PAPER_RELEASE, FEW):
        path = root(data) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store[key])
    with offline():
        fetch(data, FEW)
        write_load(root(data) / SERIES, IDS[4])
        with pytest.raises(DataError, match="copies that you changed yourself, delete") as error:
            fetch(data, FEW)
        check_message(str(error.value), {SERIES})
        manifest = data.comstock.release + "/manifest-NY-upgrade10.json"
        (root(data) / manifest).unlink()
        assert fetch(data, FEW)["files"][SERIES]["etag"] is None


def test_any_change_of_a_cached_file_is_found_out(
    proxy: FaultProxy, tmp_path: Path, store: Store
) -> None:
    data = study(tmp_path / "data")
    receipt = fetch(data, FEW)
    digests = {str(root(data) / key): entry["sha256"] for key, entry in receipt["files"].items()}

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
            receipts.verify({"files": digests})
        path.write_bytes(whole)

    with offline():
        assert fetch(data, FEW) == receipt
        change()
        assert fetch(data, FEW) == receipt


@pytest.mark.parametrize("key", ["../outside.csv", "/outside.csv", "a/../../outside.csv"])
def test_no_key_leads_out_of_the_store(tmp_path: Path, key: str) -> None:
    cache = download.Cache(tmp_path / "store", LAYOUT, "NY")
    with pytest.raises(DataError, match="points outside the store"):
        cache.fetch([key])
