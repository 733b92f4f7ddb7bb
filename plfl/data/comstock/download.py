"""Downloads the files of a study from the public ComStock bucket, once, and verifies them.

boto3 tries again after errors of the network, and sees truncated answers. Access is anonymous.
boto3 honours `AWS_ENDPOINT_URL_S3` (a mirror, a test server) and the usual proxy variables.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from tqdm import tqdm

from plfl.base.errors import DataError, Problem
from plfl.base.files import atomic, md5, sha256, write_text
from plfl.config.data import Data
from plfl.data.comstock import series
from plfl.data.comstock.releases import BUCKET, BUCKET_ROOT, REGION, ReleaseKeys

WORKERS = 8
"""Number of parallel downloads."""
ATTEMPTS = 5
"""Number of attempts for a request."""

log = logging.getLogger(__name__)


def download(data: Data, state: str, ids: Sequence[int]) -> dict[str, str]:
    """Download the metadata of a state, the time series of some of its buildings and the weather of
    their counties into the store `data.folder / "comstock"`. Without `ids`, the buildings are drawn
    at random (`series.draw`).

    Since 2024 release 2, each county has its own metadata file, and an id does not reveal its
    county. The files in the store are searched first. Then the others are downloaded in the order
    of their keys, `WORKERS` at a time, until every id is found; a draw needs all of them.

    Returns:
        The SHA-256 of each required file, by its key.

    Raises:
        DataError: a building is not in this state or release, the bucket cannot be reached or
            refuses access, or a file is missing or damaged.
        PlflError: the disk is full or the folder cannot be written.
    """
    release_keys = ReleaseKeys.from_data(data)
    store = Store(data.folder / "comstock", release_keys, state)
    store.fetch_metadata(set(ids))
    chosen_ids = ids or series.draw(store.root, data, state)
    buildings = series.buildings(store.root, release_keys, state, chosen_ids, data.features)
    required = [release_keys.load(state, building.id) for building in buildings]
    if ids:
        required += [building.metadata for building in buildings]
    else:  # the draw was from all of them
        required += series.metadata_keys(store.root, release_keys, state)
    if any(feature in data.features for feature in series.WEATHER):
        required += [release_keys.weather(building.county) for building in buildings]
    store.fetch(required)
    return {key: store.digests[key] for key in sorted(set(required))}


class Store:
    """The folder of the files, and the connection to the bucket.

    The manifest of a state has the SHA-256 of every file that was downloaded. Files that match it
    are not requested again, so a complete store works offline. Others, such as those that were
    copied there or changed, are kept if they have the MD5 that the bucket reports.
    """

    def __init__(self, root: Path, release_keys: ReleaseKeys, state: str):
        self.root, self.release_keys, self.state = root, release_keys, state
        self.manifest = (
            root / release_keys.release / f"manifest-{state}-upgrade{release_keys.upgrade}.json"
        )
        self.digests: dict[str, str] = {}
        if self.manifest.exists():
            try:
                files = json.loads(self.manifest.read_text(encoding="utf-8"))["files"]
                self.digests = {key: str(digest) for key, digest in files.items()}
            except (ValueError, KeyError, TypeError, AttributeError):
                log.warning("%s cannot be read; its files are confirmed again", self.manifest)

    def fetch_metadata(self, ids: set[int]) -> None:
        """Fetch metadata until all `ids` are found or none are left; without `ids`, all."""
        pattern = self.release_keys.metadata(self.state)
        if not self.release_keys.is_by_county:
            self.fetch([pattern])
            return

        def fetch(keys: Sequence[str]) -> set[int]:
            self.fetch(keys)
            return set(series.metadata(self.root, self.release_keys, self.state, keys)["id"])

        own_keys = series.metadata_keys(self.root, self.release_keys, self.state)
        missing_ids = ids - fetch(own_keys)
        if ids and not missing_ids:
            return
        elsewhere = [key for key in self._list_keys(pattern) if key not in own_keys]
        for start in range(0, len(elsewhere), WORKERS):
            missing_ids -= fetch(elsewhere[start : start + WORKERS])
            if ids and not missing_ids:
                return

    def fetch(self, keys: Sequence[str]) -> None:
        """Make sure that these files are in the store; those that arrive before an error stay."""
        missing_keys = [key for key in dict.fromkeys(keys) if not self._is_intact(key)]
        if not missing_keys:
            return
        self._client  # noqa: B018  created once, here: creating clients is not thread-safe
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                files, name = pool.map(self._retrieve, missing_keys), f"ComStock {self.state}"
                # None: the bar is shown only on a terminal.
                list(tqdm(files, name, total=len(missing_keys), unit="file", disable=None))
        finally:
            if any(key in self.digests for key in missing_keys):
                text = json.dumps({"files": dict(sorted(self.digests.items()))}, indent=1)
                write_text(self.manifest, text + "\n")

    def _is_intact(self, key: str) -> bool:
        """Whether the file is unchanged since it was downloaded."""
        path = self.root / key
        intact = path.is_file() and self.digests.get(key) == sha256(path)
        if not intact:
            self.digests.pop(key, None)
        return intact

    def _retrieve(self, key: str) -> None:
        """Download a file, unless it is here and as in the bucket."""
        path, source = self.root / key, {"Bucket": BUCKET, "Key": f"{BUCKET_ROOT}/{key}"}
        with _explain_store_errors(key):
            etag = self._client.head_object(**source)["ETag"].strip('"')
            if not (path.is_file() and md5(path) == etag):
                with atomic(path) as temporary:
                    self._client.download_file(
                        **source, Filename=str(temporary), Config=TransferConfig(use_threads=False)
                    )
                    # The ETag of a file that was uploaded in parts is not its MD5.
                    if re.fullmatch("[0-9a-f]{32}", etag) and md5(temporary) != etag:
                        raise DataError(
                            Problem(key, f"arrived damaged (its MD5 is not {etag})", "run again")
                        )
        self.digests[key] = sha256(path)

    def _list_keys(self, pattern: str) -> list[str]:
        """Keys in the bucket that match a pattern, in which `*` stands for a county, sorted."""
        names = re.compile(re.escape(pattern).replace(r"\*", "[A-Za-z0-9]+"))
        prefix = f"{BUCKET_ROOT}/{pattern[: pattern.index('*')]}"
        with _explain_store_errors(pattern):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=BUCKET, Prefix=prefix
            )
            keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(
            filter(names.fullmatch, (key.removeprefix(f"{BUCKET_ROOT}/") for key in keys))
        )

    @cached_property
    def _client(self) -> Any:
        config = Config(
            signature_version=UNSIGNED,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            connect_timeout=10,
            read_timeout=20,
            max_pool_connections=WORKERS,
        )
        with _explain_store_errors("boto3"):
            return boto3.client("s3", region_name=REGION, config=config)


@contextmanager
def _explain_store_errors(key: str) -> Iterator[None]:
    """Turn boto3's exceptions about a key into errors that a user can act on."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "NoSuchKey"):
            raise DataError(
                Problem(
                    "",
                    f"the ComStock bucket has no file {key}",
                    "check data.states and data.comstock (not every release has every upgrade)",
                )
            ) from None
        raise DataError(
            Problem(
                key,
                f"the ComStock bucket refuses it ({error})",
                "run again later, and check for a proxy or AWS_ENDPOINT_URL_S3",
            )
        ) from error
    except (BotoCoreError, Boto3Error, KeyError, ValueError) as error:
        cause = getattr(error, "last_exception", error)
        if isinstance(error, KeyError):
            cause = f"no {error} in its answer"
        raise DataError(
            Problem(
                key,
                f"cannot be downloaded from the ComStock bucket ({cause})",
                "run again when there is a network, or set data.source to sample; if there is "
                "one, check for a proxy, AWS_ENDPOINT_URL_S3 and ~/.aws",
            )
        ) from error
