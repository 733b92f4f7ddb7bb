"""The long-lived process of one building: a `Client` behind a socket in its folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from plfl.base.errors import ConfigError, DataError, PlflError
from plfl.base.files import digest, hold
from plfl.data import sources
from plfl.deploy.host import listen, private, private_folder
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.client import Client
from plfl.study import Cell, Study

if TYPE_CHECKING:  # needs cryptography, which comes with the extra `deploy`
    from plfl.deploy.keys import Seal

log = logging.getLogger(__name__)

OWN = "series.parquet"
"""Optional file of a client's folder, provided by its owner: the series to use."""


def work(
    study: Study,
    cell: Cell,
    building: str,
    folder: Path,
    ready: Callable[[], None],
    seals: Sequence[Seal] = (),
) -> None:
    """Answer the messages that arrive at the socket, one by one, until this process is ended.

    `ready` is called when the socket exists. `seals`: messages are sealed with the last one, if
    there is one when they arrive.

    Raises:
        PlflError: another worker uses the folder, other users can read it, or the data are not
            usable.
    """
    os.umask(0o077)
    private_folder(folder)
    with hold(folder / ".lock", busy="another worker uses this folder; stop it first"):
        table = series(study, cell, building, folder)
        client = Client(study, cell, building, table, folder)
        with listen(folder) as listener:
            ready()
            while True:
                # A relay may end before it gets its answer; the server then asks again.
                with suppress(EOFError, ConnectionError), listener.accept() as connection:
                    data = connection.recv_bytes()
                    connection.send_bytes(_answer(client, data, seals[-1] if seals else None))


def _answer(client: Client, data: bytes, seal: Seal | None) -> bytes:
    if seal is None:
        return client.answer(data)
    try:
        return seal.close(client.answer(seal.open(data)))
    except PlflError as error:
        log.error("message of the server: %s", error)
        return b""


def series(study: Study, cell: Cell, building: str, folder: Path) -> pd.DataFrame:
    """The series of a building, from its `series_file`.

    Raises:
        ConfigError: the study has no such building.
        DataError: the source has no series of the building, or the owner's table lacks a feature
            of the study.
    """
    path = series_file(study, cell, building, folder)
    table = pd.read_parquet(path)
    if missing := [name for name in study.data.inputs if name not in table]:
        raise DataError(
            f"{path}: has no column {', '.join(missing)}, which data.features lists; add it, "
            "remove it from data.features on all hosts, or delete the file to use the series of "
            f"data.source {study.data.source}"
        )
    return table[study.data.inputs]


def series_file(study: Study, cell: Cell, building: str, folder: Path) -> Path:
    """The file of a building's series: its owner's table, or otherwise the series of the study's
    data source, which is then stored in the folder.

    The name of the latter contains a digest of the settings that determine it.
    """
    if (own := folder / OWN).exists():
        return own
    settings = sources.of(study.data).settings(study.data, cell.state) | {
        "clients": 1,
        "buildings": [building],
    }
    path = folder / f"series-{digest(cell.state, settings)}.parquet"
    if not path.exists():
        table = _from_source(study, cell, building)
        with private(path) as temporary:
            table.to_parquet(temporary)
    return path


def _from_source(study: Study, cell: Cell, building: str) -> pd.DataFrame:
    """The series of a building from the study's data source."""
    names = agreement.roster(study, cell)
    if building not in names:
        problem = f"{cell.state} has no client {building!r}; it has {', '.join(names)}"
        raise ConfigError("--building", [problem])
    data = study.data
    if data.source != "meters":
        only = {cell.state: [int(building)]}
        data = data.model_copy(update={"clients": 1, "buildings": only})
    # Clients on one machine share the data folder, and fetching removes partially written files.
    with hold(data.folder / ".clients.lock"):
        source = sources.of(data)
        source.fetch(data, cell.state)
        tables = source.load(data, cell.state)
        if building in tables:
            return tables[building]
    raise DataError(
        f"--building {building}: data.source {data.source} has no series of it; choose another "
        "building, or put series.parquet into the client's folder"
    )
