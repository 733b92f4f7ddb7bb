"""Downloads the files of a study from the public ComStock bucket, once, and verifies them.

Access is anonymous. boto3 honours `AWS_ENDPOINT_URL_S3` (a mirror, a test server) and
the usual proxy variables.
"""

from __future__ import annotations

import codecs
import fnmatch
import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)
from tqdm import tqdm

from plfl.base.errors import DataError
from plfl.base.files import atomic, sha256, write_text
from plfl.base.text import some
from plfl.config.sections import Data
from plfl.data.comstock import series as comstock
from plfl.data.comstock.releases import BUCKET, REGION, ROOT, Layout

WORKERS = 8
"""Number of parallel downloads."""
ATTEMPTS = 5
"""Number of attempts for a request, and for a file that arrives damaged."""
CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 20.0
"""Seconds without data after which an attempt fails."""

log = logging.getLogger(__name__)
T = TypeVar("T")


def download(data: Data, state: str, ids: Sequence[int]) -> dict[str, Any]:
    """Download the files of some buildings of a state into the store `data.folder / "comstock"`.

    These are the metadata of the state, the time series of the buildings, and the weather of their
    counties. A manifest in the store has the size, ETag and SHA-256 of every file. Files that match
    it are not requested again, so a complete store works offline. Files that do not match are
    downloaded again. A file that is not in the manifest (copied by hand) is kept if it equals the
    file in the bucket.

    Since 2024 release 2, each county has its own metadata file, and an id does not reveal its
    county. The files in the store are searched first. Then the others are downloaded in the order
    of their keys, `WORKERS` at a time, until every id is found.

    Returns:
        The receipt: `release`, `upgrade`, `state` and `files`, which has `size` (bytes), `etag` and
        `sha256` of each required file, by key.

    Raises:
        DataError: a building is not in this state or release (checked once the metadata are here),
            the bucket cannot be reached or refuses access, or a file is missing, truncated or of
            the wrong type.
        PlflError: the disk is full or the folder cannot be written.
    """
    layout = Layout.of(data)
    cache = Cache(data.folder / "comstock", layout, state)
    if layout.by_county:
        _fetch_counties(cache, set(ids))
    else:
        cache.fetch([layout.metadata(state)])
    buildings = comstock.buildings(cache.root, layout, state, ids, data.features)
    series = [layout.load(state, building.id) for building in buildings]
    weather = []
    if any(feature in data.features for feature in comstock.WEATHER):
        weather = [layout.weather(building.county) for building in buildings]
    cache.fetch([*series, *weather])
    metadata = [building.metadata for building in buildings]
    return cache.receipt([*metadata, *series, *weather])


def _fetch_counties(cache: Cache, ids: set[int]) -> None:
    """Fetch metadata county by county until all `ids` are found or no county is left."""
    root, layout, state = cache.root, cache.layout, cache.state

    def fetch(keys: Sequence[str], ids: set[int]) -> set[int]:
        cache.fetch(keys)
        return ids - comstock.find(root, layout, state, keys, ids).keys()

    here = comstock.metadata_keys(root, layout, state)
    lacking = fetch(here, ids)
    if not lacking:
        return
    elsewhere = [key for key in cache.listing(layout.metadata(state)) if key not in here]
    for start in range(0, len(elsewhere), WORKERS):
        lacking = fetch(elsewhere[start : start + WORKERS], lacking)
        if not lacking:
            return


@dataclass(frozen=True)
class Entry:
    """A file in the manifest."""

    size: int
    etag: str
    sha256: str


@dataclass(frozen=True)
class Remote:
    """The bucket's facts about a file."""

    size: int
    etag: str

    @property
    def md5(self) -> str | None:
        """The MD5 of the file, if known.

        It is the ETag of a file stored in one piece. Other ETags, such as `MD5-3` for three pieces
        or those of a mirror, are not digests of the content.
        """
        return self.etag if re.fullmatch("[0-9a-f]{32}", self.etag) else None


class UnreachableError(DataError):
    """The bucket cannot be reached."""


class DamagedError(DataError):
    """The received file is not the announced one. The next attempt may succeed."""

    def __init__(self, key: str, fault: str):
        super().__init__(
            f"{key}: the received file {fault}. Run again; if the error remains, check for a proxy "
            "and for announcements of the publisher"
        )


class AbsentError(DataError):
    """The bucket has no such file."""

    def __init__(self, keys: Sequence[str]):
        super().__init__(
            f"the ComStock bucket has no file {some(keys, 12)}; check data.states and "
            "data.comstock (not every release has every upgrade)"
        )


class Cache:
    """The store on disk, with the manifest of one state, and the connection to the bucket."""

    def __init__(self, root: Path, layout: Layout, state: str):
        self.root = root
        self.layout = layout
        self.state = state
        self.manifest = root / layout.release / f"manifest-{state}-upgrade{layout.upgrade}.json"
        self.entries = _entries(self.manifest)

    def receipt(self, keys: Iterable[str]) -> dict[str, Any]:
        """The manifest, reduced to these files."""
        return {
            "release": self.layout.release,
            "upgrade": self.layout.upgrade,
            "state": self.state,
            "files": {key: asdict(self.entries[key]) for key in sorted(set(keys))},
        }

    def fetch(self, keys: Iterable[str]) -> None:
        """Make sure that these files are in the store; see `download`."""
        keys = list(keys)
        if outside := [key for key in keys if not _is_inside(key)]:
            raise DataError(
                f"{some(outside, 12)}: this key points outside the store, which no key of ComStock "
                "does; check the origin of the metadata or of the list of files that contain it"
            )
        wanted = [key for key in dict.fromkeys(keys) if not self._is_intact(key)]
        if not wanted:
            return
        known = dict(self.entries)
        try:
            if unlike := self._confirm(wanted):
                self._retrieve(unlike)
        except UnreachableError as error:
            lacking = [key for key in wanted if not self._is_intact(key)]
            raise UnreachableError(
                f"{error}. Missing or changed in {self.root}: {some(lacking, 12)}"
            ) from error
        finally:
            if self.entries != known:
                text = json.dumps(self.receipt(self.entries), indent=1)
                write_text(self.manifest, text + "\n")

    def listing(self, pattern: str) -> list[str]:
        """Keys in the bucket that match a glob pattern, sorted."""
        prefix = f"{ROOT}/{pattern[: pattern.index('*')]}"
        keys = []
        try:
            with _explained(pattern):
                pages = self._client.get_paginator("list_objects_v2")
                for page in pages.paginate(Bucket=BUCKET, Prefix=prefix):
                    if "Name" not in page:  # a network's login page may be valid XML
                        raise _impostor(pattern, "no list of files")
                    found = page.get("Contents", ())
                    keys += [item["Key"].removeprefix(f"{ROOT}/") for item in found]
        except UnreachableError as error:
            raise UnreachableError(f"{error}. The request was for the list of {pattern}") from error
        return sorted(fnmatch.filter(keys, pattern))

    @cached_property
    def _client(self) -> Any:
        config = Config(
            signature_version=UNSIGNED,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            max_pool_connections=WORKERS,
        )
        try:
            return boto3.client("s3", region_name=REGION, config=config)
        except (BotoCoreError, ValueError) as error:
            raise DataError(
                f"boto3 cannot create a client for the ComStock bucket ({error}); check the AWS_ "
                "environment variables and the files in ~/.aws"
            ) from error

    def _is_intact(self, key: str) -> bool:
        """Whether the file is unchanged since the bucket confirmed it."""
        entry, path = self.entries.get(key), self.root / key
        return (
            entry is not None
            and path.is_file()
            and path.stat().st_size == entry.size
            and sha256(path) == entry.sha256
        )

    def _confirm(self, wanted: Sequence[str]) -> dict[str, Remote]:
        """Ask the bucket about files, accept copied ones that match, and return the others."""
        self._client  # noqa: B018  created once, here: creating clients is not thread-safe
        answers = dict(zip(wanted, _parallel(self._head, wanted), strict=True))
        if absent := [key for key, remote in answers.items() if remote is None]:
            raise AbsentError(absent)
        remote = {key: answer for key, answer in answers.items() if answer is not None}
        for key in wanted:
            path, md5 = self.root / key, remote[key].md5
            if md5 and path.is_file() and _md5(path) == md5:
                self.entries[key] = _entry(path, remote.pop(key).etag)
        return remote

    def _head(self, key: str) -> Remote | None:
        try:
            with _explained(key):
                head = self._client.head_object(Bucket=BUCKET, Key=f"{ROOT}/{key}")
        except AbsentError:
            return None
        if not {"ContentLength", "ETag"} <= head.keys():
            raise _impostor(key, "no length or no ETag announced")
        return Remote(head["ContentLength"], head["ETag"].strip('"'))

    def _retrieve(self, files: dict[str, Remote]) -> None:
        """Download files, several at a time."""
        with tqdm(
            desc=f"ComStock {self.state}",
            total=sum(remote.size for remote in files.values()),
            unit="B",
            unit_scale=True,
            disable=None,
        ) as bar:

            def save(key: str) -> None:
                with atomic(self.root / key) as temporary:
                    for attempt in range(1, ATTEMPTS + 1):
                        try:
                            self._receive(key, files[key], temporary, bar.update)
                            break
                        except DamagedError as error:
                            if attempt == ATTEMPTS:
                                raise
                            log.warning("%s. Trying again", error)
                            bar.update(-temporary.stat().st_size)
                    entry = _entry(temporary, files[key].etag)
                self.entries[key] = entry

            _parallel(save, list(files))

    def _receive(self, key: str, remote: Remote, path: Path, arrived: Callable[[int], Any]) -> None:
        """Download a file once; refuse it unless it is what the bucket announced."""
        config = TransferConfig(use_threads=False, num_download_attempts=ATTEMPTS)
        try:
            with _explained(key):
                self._client.download_file(
                    BUCKET, f"{ROOT}/{key}", str(path), Callback=arrived, Config=config
                )
        except KeyError as error:  # raised by boto3 for an answer without, e.g., ContentLength
            raise _impostor(key, f"no {error} announced") from error
        if fault := _fault(path, remote):
            raise DamagedError(key, fault)


def _entries(manifest: Path) -> dict[str, Entry]:
    if not manifest.exists():
        return {}
    try:
        files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        return {key: Entry(**entry) for key, entry in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("%s cannot be read; its files are confirmed again", manifest)
        return {}


def _entry(path: Path, etag: str) -> Entry:
    return Entry(path.stat().st_size, etag, sha256(path))


def _is_inside(key: str) -> bool:
    """Whether a key, as a relative path, stays inside the store."""
    path = PurePosixPath(key)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in key


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _fault(path: Path, remote: Remote) -> str | None:
    """Why a download is of the wrong type, or not what the bucket announced; None if it is not."""
    with path.open("rb") as file:
        start = file.read(40)
    if path.suffix == ".parquet":
        try:
            pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            return f"is not a whole Parquet file ({error}); it begins {start!r}"
    elif not start.removeprefix(codecs.BOM_UTF8).startswith(b"date_time,"):
        return f"is not a weather file; it begins {start!r}"
    size, md5 = path.stat().st_size, _md5(path)
    if size != remote.size or remote.md5 not in (None, md5):
        announced = f"announced were {remote.size} and {remote.etag}"
        return f"has {size} bytes and MD5 {md5}, {announced}; it begins {start!r}"
    return None


@contextmanager
def _explained(key: str) -> Iterator[None]:
    """Turn boto3's exceptions about a key into errors that a user can act on."""
    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("404", "NoSuchKey"):
            raise AbsentError([key]) from None
        if code in ("403", "AccessDenied"):
            raise DataError(
                f"{key}: the ComStock bucket refuses access ({error}); it is public, so check for "
                "a proxy or AWS_ENDPOINT_URL_S3"
            ) from error
        raise DataError(f"{key}: the ComStock bucket failed ({error}); run again later") from error
    except FlexibleChecksumError as error:
        raise DamagedError(key, f"is damaged ({error})") from error
    except (ResponseStreamingError, IncompleteReadError, Boto3Error) as error:
        cause = getattr(error, "last_exception", error)
        raise DataError(f"{key}: the download broke off ({cause}); run again") from error
    except (ConnectionError, HTTPClientError) as error:
        raise UnreachableError(
            f"the ComStock bucket cannot be reached ({error}); run again when there is a network, "
            "or set data.source to sample"
        ) from error
    except BotoCoreError as error:
        raise _impostor(key, error) from error


def _impostor(key: str, evidence: object) -> DataError:
    return DataError(
        f"{key}: the answer is not from the ComStock bucket ({evidence}); check for a proxy or "
        "AWS_ENDPOINT_URL_S3"
    )


def _parallel(task: Callable[[str], T], keys: Sequence[str]) -> list[T]:
    """The results of a task for each key; after an error, no further task is started."""
    with ThreadPoolExecutor(WORKERS) as pool:
        futures = [pool.submit(task, key) for key in keys]
        try:
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
