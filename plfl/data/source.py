"""One interface to the three sources of series: the ComStock bucket, own meters, sample data.

`fetch` brings a state's files to this machine and writes down which they are; `load` makes the
clients' tables of exactly these files. Only `fetch` ever looks at the network.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from plfl.data.features import FEATURES, assemble
from plfl.errors import DataError
from plfl.files import sha256, sweep
from plfl.study import Data

Receipt = dict[str, Any]
"""`source`; `files`: SHA-256 of each file by its path from the working directory; `clients`: by
name, what is known of each in words."""

MODULES = {
    "comstock": "plfl.data.download",
    "meters": "plfl.data.meters",
    "sample": "plfl.data.sample",
}
"""Where each source is written, so that a change of one re-runs what depends on it alone."""


def buildings(data: Data, state: str) -> list[int]:
    """Ids of a state's clients, for the sources that have ids: the first `data.clients` of a list.

    Raises:
        DataError: no list is known for the state, or it is too short.
    """
    from plfl.data import releases, sample

    listed = data.buildings.get(state)
    if listed is None:
        if data.source == "sample":
            listed = sample.buildings(state, data.clients)
        else:
            listed = releases.paper_buildings(state)
    if len(listed) < data.clients:
        raise DataError(
            f"data.clients: {data.clients} asked for, but {state} has {len(listed)} buildings; "
            f"lower it or list more ids in data.buildings.{state}"
        )
    return listed[: data.clients]


def settings(data: Data, state: str) -> dict[str, Any]:
    """Everything of the configuration that fixes the series of a state's clients.

    Raises:
        DataError: see `buildings`.
    """
    blocks = {"meters"} if data.source == "meters" else {"comstock", data.source}
    ids = [] if data.source == "meters" else buildings(data, state)
    keys = {"source", "folder", "clients", "features", *blocks}
    return data.model_dump(mode="json", include=keys) | {"buildings": ids}


def own_files(data: Data, state: str) -> list[Path]:
    """The user's own files that the state's clients are known from, if the source is `meters`.

    Raises:
        DataError: there are none, or not enough.
    """
    from plfl.data import meters

    if data.source != "meters":
        return []
    about = data.meters.about
    return meters.files(data, state) + ([about] if about else [])


def fetch(data: Data, state: str) -> Receipt:
    """Bring the files of a state's clients here: download, generate or look for them.

    Raises:
        DataError: something is absent, unreachable or damaged.
        PlflError: the disk is full or the folder cannot be written.
    """
    root = _root(data)
    if data.source != "meters":
        sweep(root)
    if data.source == "comstock":
        from plfl.data.download import download

        files = download(data, state, buildings(data, state))["files"]
        digests = {str(root / key): entry["sha256"] for key, entry in files.items()}
        known = _portraits(data, state)
    elif data.source == "sample":
        from plfl.data import sample

        layout = data.comstock.release, data.comstock.upgrade
        ids = buildings(data, state)
        paths = sample.generate(root, *layout, state, ids, data.sample.seed)
        digests = _digests(paths)
        known = _portraits(data, state)
    else:
        from plfl.data import meters

        digests = _digests(own_files(data, state))
        told = meters.known(data.meters)
        known = {
            (name := meters.client_name(path)): {"file": path.as_posix(), **told.get(name, {})}
            for path in meters.files(data, state)
        }
    return {"source": data.source, "files": digests, "clients": known}


def load(data: Data, state: str) -> dict[str, pd.DataFrame]:
    """The tables of a state's clients by name, in order, with `data.features` as far as they go.

    Raises:
        DataError: a file is missing, unreadable or holds impossible values.
    """
    if data.source == "meters":
        from plfl.data import meters

        series = meters.read(data, state)
    else:
        from plfl.data import comstock

        series = comstock.read(_root(data), data, state, buildings(data, state))
    return {name: assemble(table, data.features) for name, table in series.items()}


def read_receipt(path: Path) -> Receipt:
    """The receipt that the `download` rule wrote down at `path`.

    Raises:
        DataError: it is missing or damaged.
    """
    try:
        receipt: Receipt = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(digest, str) for digest in receipt["files"].values()):
            raise ValueError("a digest is no text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: is damaged ({error}); write it anew with `snakemake --forcerun download`"
        ) from None
    return receipt


def verify(receipt: Receipt) -> None:
    """Make sure that the files of a receipt are still what they were.

    Raises:
        DataError: one is missing or has changed.
    """
    for name, digest in receipt["files"].items():
        path = Path(name)
        try:
            if sha256(path) == digest:
                continue
            fault = "has changed"
        except FileNotFoundError:
            fault = "is gone"
        except (OSError, ValueError) as error:
            fault = f"cannot be read any more ({error})"
        raise DataError(
            f"{path}: {fault} since the data were fetched; fetch them again with "
            "`snakemake --forcerun download`"
        )


def _portraits(data: Data, state: str) -> dict[str, dict[str, str]]:
    """What the metadata of the store say of a state's buildings, by client."""
    from plfl.data import comstock
    from plfl.data.releases import Layout

    ids = buildings(data, state)
    found = comstock.buildings(_root(data), Layout.of(data), state, ids, data.features)
    return {
        str(building.id): {
            **building.known,
            "county (GISJOIN)": building.county,
            **{
                name.replace("_", " "): f"{value:.0f} {FEATURES[name].unit}"
                for name, value in building.static.items()
            },
        }
        for building in found
    }


def _root(data: Data) -> Path:
    """The store in ComStock's layout; sample data never lie among real ones."""
    is_sample = data.source == "sample"
    return data.folder / (f"sample-{data.sample.seed}" if is_sample else "comstock")


def _digests(paths: Iterable[Path]) -> dict[str, str]:
    return {str(path): sha256(path) for path in paths}
