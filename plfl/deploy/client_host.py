"""The machine of one building: a `DeployedClient` behind a socket, and Flower's processes before
it."""

from __future__ import annotations

import logging
import os
import signal
import ssl
import threading
import time
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import pandas as pd
from pandas.api.types import is_numeric_dtype

from plfl.base.errors import ConfigError, DataError, PlflError, Problem
from plfl.base.files import hold
from plfl.data import sources
from plfl.data.checks import check_finite, check_load, check_stamps
from plfl.data.sources.comstock import ComstockSource
from plfl.deploy import flower, relay
from plfl.deploy.annotations import ClientKeys, Seal
from plfl.deploy.host import (
    PROCESS_PAUSE,
    Processes,
    ending_in_order,
    free_port,
    listen,
    new_secret,
    private_folder,
)
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.client import DeployedClient
from plfl.study import Cell, Study

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10.0
"""Seconds within which a server has to tell its time."""
OWNER_FILE = "series.parquet"
"""Optional file of a client's folder, provided by its owner: the series to use."""


def attend(
    study: Study,
    cell: Cell,
    building: str,
    folder: Path,
    address: str,
    keys: ClientKeys,
    retry_seconds: float,
) -> None:
    """Run a client until it is stopped: answer the messages that its SuperNode receives.

    A SuperNode that ends is restarted, unless the connection cannot succeed: the server has refused
    it, or has another certificate than that of `keys` or another time, for `retry_seconds` seconds.

    Raises:
        PlflError: the server is not trusted or refuses this client, another client uses the folder,
            other users can read it, or the data are not usable.
    """
    flower.require_flower()
    os.umask(0o077)
    private_folder(folder)
    link, seal = flower.Link(address, keys.certificate), keys.seal()
    problems: list[PlflError] = []
    is_over = threading.Event()

    def supervise() -> None:
        try:
            _run_supernode(processes, link, folder, keys, retry_seconds, is_over)
        except PlflError as error:
            problems.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

    with (
        ending_in_order(),
        hold(folder / ".lock", busy="another client uses this folder; stop it first"),
        Processes(folder / "logs") as processes,
    ):
        client = DeployedClient(
            study, cell, building, series(study, cell, building, folder), folder
        )
        with listen(folder) as listener:
            supervisor = threading.Thread(target=supervise, daemon=True)
            supervisor.start()
            try:
                while True:
                    # A relay may end before it gets its answer; the server then asks again.
                    with suppress(EOFError, ConnectionError), listener.accept() as connection:
                        connection.send_bytes(_answer(client, connection.recv_bytes(), seal))
            except SystemExit:
                if not problems:
                    raise
                raise problems[0].locate_in(f"client {building}") from None
            finally:
                # Before the processes end, so that it does not start them again.
                is_over.set()
                supervisor.join()


def _answer(client: DeployedClient, data: bytes, seal: Seal) -> bytes:
    """The sealed answer to a message; empty if the server has not sealed the message."""
    try:
        return seal.encrypt(client.answer(seal.decrypt(data)))
    except PlflError as error:
        log.error("message of the server: %s", error)
        return b""


def _run_supernode(
    processes: Processes,
    link: flower.Link,
    folder: Path,
    keys: ClientKeys,
    retry_seconds: float,
    is_over: threading.Event,
) -> None:
    """Run a SuperNode and its SuperExec, and restart them, until `is_over`.

    Raises:
        PlflError: the connection to the server cannot succeed.
    """
    secret, home = new_secret(folder), folder / "flower"
    environment = relay.add_command(flower.environment(home), home / "bin")
    accepted, is_told = time.monotonic(), False
    while not is_over.is_set():
        beginning = time.monotonic()
        local = flower.Link(f"127.0.0.1:{free_port()}")
        commands = {
            "supernode": flower.supernode(link, local, secret, folder, keys.key),
            "superexec": flower.superexec(local, secret),
        }
        running = [processes.start(name, commands[name], environment) for name in commands]
        while all(process.poll() is None for process in running):
            if is_over.wait(PROCESS_PAUSE):
                return
        output = processes.tail("supernode", 20) if running[0].poll() == 1 else ""
        processes.stop(*commands)
        reason = _explain_clock(link)
        if not reason and flower.REFUSAL_PATTERN.search(output):
            reason = (
                f"the server at {link.address} refuses it: it does not know the client's key or "
                "another process uses this key, or it has another certificate than "
                f"{link.trusted_certificate} or another address than that has, or this machine's "
                "clock is wrong by a day or more; copy both folders that the same `plfl deploy "
                f"keys` created, with the address as --host. See {processes.log_file('supernode')}"
            )
        if not reason:
            accepted, is_told = time.monotonic(), False
        elif beginning - accepted > retry_seconds:
            raise PlflError(reason)
        elif not is_told:
            log.warning("%s; trying again for %.0f s", reason, retry_seconds)
            is_told = True
        is_over.wait(1)


def _explain_clock(link: flower.Link) -> str:
    """What to do about the clock of this machine, if the server refuses messages with its time;
    empty if it does not, or cannot be asked."""
    host, _, port = link.address.rpartition(":")
    trusted = ssl.create_default_context(cafile=link.trusted_certificate)
    server = HTTPSConnection(host.strip("[]"), int(port), timeout=ANSWER_SECONDS, context=trusted)
    try:
        server.request("GET", "/")
        stamp = server.getresponse().getheader("date", "")
        seconds_ahead = round(time.time() - parsedate_to_datetime(stamp).timestamp())
    except (OSError, HTTPException, ValueError):
        return ""
    finally:
        server.close()
    if flower.MOST_BEHIND <= seconds_ahead <= flower.MOST_AHEAD:
        return ""
    difference = (
        f"{timedelta(seconds=abs(seconds_ahead))} {'ahead of' if seconds_ahead > 0 else 'behind'}"
    )
    return (
        f"the clock of this machine is {difference} that of the server at {link.address}, which "
        "refuses such messages; set the clock, such as with NTP"
    )


def series(study: Study, cell: Cell, building: str, folder: Path) -> pd.DataFrame:
    """The series of a building: its owner's table in `folder` or, if there is none, that of the
    study's data source.

    Raises:
        ConfigError: the study has no such building.
        DataError: the source has no series of the building, or the owner's table cannot be used.
    """
    path = folder / OWNER_FILE
    if not path.exists():
        return _from_source(study, cell, building)
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(
            Problem(path, f"is not a Parquet file ({error})", "write it again, or remove it")
        ) from None
    if missing := [name for name in study.data.inputs if name not in table]:
        raise DataError(
            Problem(
                path,
                f"has no column {', '.join(missing)}, which data.features lists",
                "add it, remove it from data.features on all hosts, or remove the file to use "
                f"the series of data.source {study.data.source}",
            )
        )
    table = table[study.data.inputs]
    if not isinstance(table.index, pd.DatetimeIndex):
        raise DataError(Problem(path, "its index has no times", "make the times its index"))
    check_stamps(path, table.index, study.data.interval)
    for name, column in table.items():
        if not is_numeric_dtype(column):
            text = f"column {name!r} has values of type {column.dtype}"
            raise DataError(Problem(path, text, "write numbers"))
        check_finite(path, column, may_have_gaps=True)
    negative = study.data.meters.allow_negative
    check_load(path, table["load"], allow_negative=negative, may_have_gaps=True)
    return table


def _from_source(study: Study, cell: Cell, building: str) -> pd.DataFrame:
    """The series of a building from the study's data source."""
    names = agreement.roster(study, cell)
    if building not in names:
        problem = f"{cell.state} has no client {building!r}; it has {', '.join(names)}"
        raise ConfigError("--building", [problem])
    data = study.data
    source = sources.source_of(data)
    if isinstance(source, ComstockSource) and data.comstock.draw is None:  # one at a time
        buildings = {cell.state: [int(building)]}
        data = data.model_copy(update={"clients": 1, "buildings": buildings})
    # Clients on one machine share the data folder, and fetching removes partially written files.
    with hold(data.folder / ".clients.lock"):
        source.fetch(data, cell.state)
        series_by_building = source.load(data, cell.state)
        if building in series_by_building:
            return series_by_building[building]
    raise DataError(
        Problem(
            f"--building {building}",
            f"data.source {data.source} has no series of it",
            "choose another building, or put series.parquet into the client's folder",
        )
    )
