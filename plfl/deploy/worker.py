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
from plfl.study import Cell, Study


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
    """The building's table, from its folder; at first from the study's source of data.

    Raises:
        ConfigError: the study has no such building.
        DataError: its series cannot be had.
    """
    path = folder / "series.parquet"
    if path.exists():
        return pd.read_parquet(path)
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
    with private(path) as temporary:
        tables[building].to_parquet(temporary)
    return pd.read_parquet(path)
