"""Series of loads: of the ComStock bucket, of own meters and of sample data.

`fetch` brings the files of a state to this machine and returns a receipt that lists them; `load`
reads them into the clients' tables. Only `fetch` uses the network.

Functions import what reads and writes series when they need it: the workflow, which lists files and
buildings each time it starts, does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plfl.base.errors import DataError
from plfl.base.files import sha256, sweep
from plfl.config.features import FEATURES
from plfl.config.sections import Data
from plfl.data import readers
from plfl.data.comstock import releases
from plfl.data.sample import ids as sample_ids
from plfl.plugins import signature

if TYPE_CHECKING:  # see above
    import pandas as pd

    from plfl.data.comstock.series import Building
    from plfl.data.tables import Tables

Receipt = dict[str, Any]
"""`source`; `files`: the SHA-256 of each file, by its path from the working directory; `clients`:
by name, further information about each client as text."""


def buildings(data: Data, state: str) -> list[int]:
    """Building ids of a state's clients, for sources with ids: the first `data.clients` of a list.

    Raises:
        DataError: there is no list for the state, or it is too short.
    """
    listed = data.buildings.get(state)
    if listed is None:
        if data.source == "sample":
            listed = sample_ids.buildings(state, data.clients_of(state))
        else:
            listed = releases.paper_buildings(state)
    clients = data.clients_of(state)
    if len(listed) < clients:
        raise DataError(
            f"data.clients: {clients} clients, but {state} has {len(listed)} buildings; lower "
            f"it, or list more ids in data.buildings.{state}"
        )
    return listed[:clients]


def settings(data: Data, state: str) -> dict[str, Any]:
    """The part of the configuration that determines the series of a state's clients."""
    blocks = {"meters"} if data.source == "meters" else {"comstock", data.source}
    ids = [] if data.source == "meters" else buildings(data, state)
    keys = {"source", "folder", "clients", "features", *blocks}
    if data.resample:
        keys.add("resample")
    chosen = data.model_dump(mode="json", include=keys) | {"buildings": ids}
    if data.source == "meters" and readers.available():
        used = {reader for file in own_files(data, state) if (reader := readers.reader_of(file))}
        chosen |= {"readers": signature(*used)} if used else {}
    return chosen


def own_files(data: Data, state: str) -> list[Path]:
    """The user's own files about a state's clients; empty if the source is not `meters`."""
    if data.source != "meters":
        return []
    from plfl.data import meters

    beside = (data.meters.weather, data.meters.about)
    return [*meters.files(data, state), *(path for path in beside if path)]


def fetch(data: Data, state: str) -> Receipt:
    """Bring the files of a state's clients to this machine: download, generate or find them.

    Raises:
        DataError: a file is missing, unreachable or damaged.
        PlflError: the disk is full or the folder cannot be written.
    """
    root = _root(data)
    if data.source != "meters":
        sweep(root)
    if data.source == "comstock":
        from plfl.data.comstock.download import download

        found, receipt = download(data, state, buildings(data, state))
        files = {str(root / key): entry["sha256"] for key, entry in receipt["files"].items()}
        known = _known_of(found)
    elif data.source == "sample":
        from plfl.data.comstock import series as comstock
        from plfl.data.sample import store as sample

        ids = buildings(data, state)
        release, upgrade = data.comstock.release, data.comstock.upgrade
        paths = sample.generate(root, release, upgrade, state, ids, data.sample.seed)
        files = digests(paths)
        layout = releases.Layout.of(data)
        known = _known_of(comstock.buildings(root, layout, state, ids, data.features))
    else:
        from plfl.data import meters

        files = digests(own_files(data, state))
        about = meters.known(data.meters)
        known = {
            name: {"file": path.as_posix(), **about.get(name, {})}
            for name, path in meters.clients(data, state).items()
        }
    return {"source": data.source, "files": files, "clients": known}


def load(data: Data, state: str) -> Tables:
    """The tables of a state's clients by name, in order, with the available `data.features`.

    Raises:
        DataError: a file is missing or unreadable, or contains invalid values. It may be raised
            only where a table is read.
    """
    from plfl.data.features import assemble, resampled
    from plfl.data.tables import Tables

    series: Mapping[str, pd.DataFrame]
    if data.source == "meters":
        from plfl.data import meters

        series = meters.read(data, state)
    else:
        from plfl.data.comstock import series as comstock

        series = comstock.read(_root(data), data, state, buildings(data, state))

    def table(name: str) -> pd.DataFrame:
        found = series[name]
        return assemble(resampled(found, data.resample) if data.resample else found, data.features)

    return Tables(series, table)


def read_receipt(path: Path) -> Receipt:
    """The receipt that the `download` rule wrote at `path`.

    Raises:
        DataError: it is missing or damaged.
    """
    try:
        receipt: Receipt = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(digest, str) for digest in receipt["files"].values()):
            raise ValueError("a digest is not text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: is damaged ({error}); write it again with "
            "`plfl study … -- --forcerun download`"
        ) from None
    return receipt


def verify(receipt: Receipt) -> None:
    """Check that the files of a receipt have not changed.

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
            fault = "was deleted"
        except (OSError, ValueError) as error:
            fault = f"has become unreadable ({error})"
        raise DataError(
            f"{path}: {fault} since the data were fetched; fetch them again with "
            "`plfl study … -- --forcerun download`"
        )


def _known_of(buildings: Iterable[Building]) -> dict[str, dict[str, str]]:
    """What the metadata say about buildings, by client, as text."""
    return {
        str(building.id): {
            **building.known,
            "county (GISJOIN)": building.county,
            **{
                name.replace("_", " "): f"{value:.0f} {FEATURES[name].unit}"
                for name, value in building.static.items()
            },
        }
        for building in buildings
    }


def _root(data: Data) -> Path:
    """The folder of the files in ComStock's layout. Sample data have a folder of their own."""
    is_sample = data.source == "sample"
    return data.folder / (f"sample-{data.sample.seed}" if is_sample else "comstock")


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of files, as a receipt lists them."""
    return {str(path): sha256(path) for path in paths}
