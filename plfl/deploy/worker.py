"""The long-lived process of one building: its `Client` behind a socket in its folder."""

import contextlib
import os
from collections.abc import Callable
from multiprocessing.connection import Listener
from pathlib import Path

import pandas as pd

from plfl.data import source
from plfl.deploy import agreement
from plfl.deploy.client import Client
from plfl.deploy.private import private, private_folder
from plfl.deploy.sockets import listen
from plfl.errors import ConfigError, DataError
from plfl.locks import hold
from plfl.study import Cell, Data, Study, digest

OWN = "series.parquet"
"""File of a client's folder that its owner may have put there: the table to be used."""


def work(
    study: Study,
    cell: Cell,
    building: str,
    folder: Path,
    ready: Callable[[], None],
    calibrate: int = 0,
) -> None:
    """Answer whoever asks at the socket, one after the other, until this process is ended.

    `ready` is called once there is a socket; for `calibrate` see `Client`.

    Raises:
        PlflError: another worker holds the folder, others can read it, or the data are of no use.
    """
    os.umask(0o077)
    private_folder(folder)
    with hold(folder / ".lock", busy="another worker is at work in this folder; end it first"):
        table = series(study, cell, building, folder)
        client = Client(study, cell, building, table, folder, calibrate)
        with listen(folder) as listener:
            ready()
            while True:
                _serve(listener, client)


def _serve(listener: Listener, client: Client) -> None:
    # Whoever asked may be gone before the answer is there; the server will ask again.
    with contextlib.suppress(EOFError, ConnectionError), listener.accept() as connection:
        connection.send_bytes(client.answer(connection.recv_bytes()))


def series(study: Study, cell: Cell, building: str, folder: Path) -> pd.DataFrame:
    """The building's table: its owner's, or else what the study's source of data has of it.

    The latter is kept in the folder, under a name that changes with whatever fixes it.

    Raises:
        ConfigError: the study has no such building.
        DataError: its series cannot be had, or the owner's lacks a feature of the study.
    """
    if (own := folder / OWN).exists():
        return _own(own, study.data)
    asked = source.settings(study.data, cell.state) | {"clients": 1, "buildings": [building]}
    path = folder / f"series-{digest(cell.state, asked)}.parquet"
    if not path.exists():
        table = _made(study, cell, building)
        with private(path) as temporary:
            table.to_parquet(temporary)
    return pd.read_parquet(path)


def _own(path: Path, data: Data) -> pd.DataFrame:
    """What its owner has put there, as far as the study asks for it."""
    table = pd.read_parquet(path)
    if missing := [name for name in data.inputs if name not in table]:
        raise DataError(
            f"{path}: has no column {', '.join(missing)}, which data.features asks for; add it, "
            "take it out of data.features on all hosts, or remove the file to have the series made "
            f"from data.source {data.source}"
        )
    return table[[name for name in data.features if name in table]]


def _made(study: Study, cell: Cell, building: str) -> pd.DataFrame:
    """The building's table as the study's source of data has it."""
    names = agreement.roster(study, cell)
    if building not in names:
        problem = f"{cell.state} has no client {building!r}; it has {', '.join(names)}"
        raise ConfigError("--building", [problem])
    data = study.data
    if data.source != "meters":
        only = {cell.state: [int(building)]}
        data = data.model_copy(update={"clients": 1, "buildings": only})
    # Clients of one machine share the folder, and fetching sweeps what others have half-written.
    with hold(data.folder / ".clients.lock"):
        source.fetch(data, cell.state)
        tables = source.load(data, cell.state)
    if building not in tables:
        raise DataError(f"client {building}: {data.source} has no series of it")
    return tables[building]
