"""Downloads of 36 buildings, and what must be true after each of them."""

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
from botocore.config import Config
from botocore.retries.standard import ExponentialBackoff

from plfl.config.sections import Data
from plfl.data.comstock import download
from plfl.data.comstock.releases import BUCKET, PAPER_RELEASE, REGION, ROOT, Layout
from tests.helpers.comstock_files import write_store
from tests.helpers.faults.proxy import FaultProxy, fault_proxy
from tests.helpers.s3 import empty, serving

COUNTIES = {1000 + i: f"G36{i % 6:03d}0" for i in range(36)}
"""36 buildings in six counties."""
IDS = list(COUNTIES)
BY_COUNTY = "2024/comstock_amy2018_release_2"
UPGRADES = {
    PAPER_RELEASE: 10,
    BY_COUNTY: 10,
    "2021/comstock_tmy3_release_1": 0,
    "2025/comstock_amy2012_release_2": 10,
}
"""A release of each form, and the upgrade of its files."""
PAGE_SIZE = 4
"""Keys on a page of a list, so that there are several pages."""

Store = dict[str, bytes]
"""What the bucket has, by key."""


# -- servers -------------------------------------------------------------------------------------


def make_store(folder: Path) -> Store:
    """All buildings in each release of `UPGRADES`."""
    for release, upgrade in UPGRADES.items():
        write_store(folder, release, upgrade, counties=COUNTIES)
    files = [path for path in folder.rglob("*.*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@contextmanager
def bucket(store: Store) -> Iterator[FaultProxy]:
    """The ComStock bucket with these files on moto's S3 server, behind a proxy."""
    with serving() as (_, address), fault_proxy(address, PAGE_SIZE) as proxy:
        empty(address)
        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        of = {"endpoint_url": address, "region_name": REGION, "config": Config(proxies={})}
        s3 = boto3.client("s3", **of, **keys)
        where = {"LocationConstraint": REGION}
        s3.create_bucket(Bucket=BUCKET, ACL="public-read", CreateBucketConfiguration=where)
        for key, content in store.items():
            s3.put_object(Bucket=BUCKET, Key=f"{ROOT}/{key}", Body=content, ACL="public-read")
        yield proxy


# -- the client ----------------------------------------------------------------------------------


@contextmanager
def without_aws(folder: Path) -> Iterator[None]:
    """The environment of a user without AWS settings or proxies."""
    with mock.patch.dict(os.environ):
        for name in ("PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL"):
            os.environ.pop(f"AWS_{name}", None)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            os.environ[name] = str(folder / "none")
        for name in ("NO_PROXY", "no_proxy"):
            os.environ[name] = "127.0.0.1"
        yield


@contextmanager
def impatient() -> Iterator[None]:
    """A client that gives up soon and does not wait before it tries again."""
    with (
        mock.patch.multiple(download, ATTEMPTS=2, READ_TIMEOUT=0.3),
        mock.patch.object(ExponentialBackoff, "delay_amount", lambda *_: 0),
    ):
        yield


@contextmanager
def offline() -> Iterator[None]:
    """Nobody listens at the address of the bucket, and nobody asks twice."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with (
        mock.patch.object(download, "ATTEMPTS", 1),
        mock.patch.dict(os.environ, AWS_ENDPOINT_URL_S3=address),
    ):
        yield


def fetch(data: Data, ids: list[int] = IDS) -> dict[str, Any]:
    """Download these buildings and return the receipt."""
    return download.download(data, "NY", ids)


def root(data: Data) -> Path:
    """The folder of the cache."""
    return data.folder / "comstock"


def manifest(data: Data) -> Path:
    """What the cache knows of its files."""
    return root(data) / data.comstock.release / f"manifest-NY-upgrade{data.comstock.upgrade}.json"


def needed(release: str, ids: list[int] = IDS) -> set[str]:
    """The keys that a download of these buildings is about."""
    layout = Layout(release, UPGRADES[release])
    counties = [COUNTIES[building] for building in ids]
    return {
        *(layout.metadata("NY", county if layout.by_county else "*") for county in counties),
        *(layout.load("NY", building) for building in ids),
        *(layout.weather(county) for county in counties),
    }


# -- what must be true ---------------------------------------------------------------------------


def check_cache(data: Data, store: Store) -> None:
    """Every file in the cache is the bucket's; nothing half-written is left; the manifest tells the
    truth."""
    folder, known = root(data), manifest(data)
    entries = json.loads(known.read_text())["files"] if known.exists() else {}
    for path in folder.rglob("*"):
        key = path.relative_to(folder).as_posix()
        if path.is_file() and path != known:
            assert path.read_bytes() == store.get(key), key
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
        assert entry["size"] == len(content)
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
    check_cache(data, store)


def check_message(message: str, names: set[str]) -> None:
    """It names what it is about, and a remedy."""
    assert any(name in message for name in names), message
    assert any(word in message for word in ("run again", "Run again", "check ", "look for")), (
        message
    )
