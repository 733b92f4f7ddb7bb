"""Another account of a client's machine can disturb this client, but not read or act; needs root.

A process of the account `nobody` takes the token of every ClientApp of one client from the list of
processes, pulls its message before the ClientApp does, and pushes an answer of its own.
"""

import multiprocessing
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
import yaml

from plfl.data.sources import load_dataset
from plfl.deploy.folders import CellFolders
from plfl.deploy.local import compare, replay, study_of
from plfl.deploy.protocol.endpoints import Message
from plfl.results.tables import Tables
from plfl.study import Study

NOBODY, FORGED = 65534, 0.123456
SIGNS = (b"__metadata__", b"agreement", b"request")
"""Parts of every message of plfl."""


def attack(caught: Any) -> None:
    """Put into `caught` what the account could read, and whether it could ask for a task."""
    from flwr.app import ConfigRecord, RecordDict
    from flwr.app import Message as Carrier
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.interceptors import (
        RuntimeTokenHttpInterceptor,
        RuntimeVersionHttpInterceptor,
    )
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message

    from plfl.deploy.client_app import FIELD, RECORD, message_in

    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)

    def client(address: str, *tokens: str) -> RuntimeHttpClient:
        about = RuntimeVersionHttpInterceptor(component_name="flwr-clientapp")
        given = [about, *map(RuntimeTokenHttpInterceptor, tokens)]
        return RuntimeHttpClient.from_server_address(address, True, None, given)

    victim, seen = "", set()
    while True:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().decode().split("\0")
                if "--token" not in words or not any("flwr-clientapp" in word for word in words):
                    continue
                address = words[words.index("--runtime-api-address") + 1]
                token = words[words.index("--token") + 1]
                victim = victim or address
                if token in seen or address != victim:
                    continue
                seen.add(token)
                try:
                    client(address).AcquireTask(AcquireTaskRequest(supported_task_types=["x"]))
                    caught.put(("acquired", b""))
                except Exception as error:
                    caught.put(("refused", str(error).encode()))
                try:
                    message, context, *_ = pull_task_input(client(address, token))
                    forged = Message({"name": "9360001", "loss": FORGED, "steps": 5}).pack()
                    reply = RecordDict({RECORD: ConfigRecord({FIELD: forged})})
                    push_message(client(address, token), Carrier(reply, reply_to=message), context)
                    caught.put(("read", message_in(message)))
                except Exception as error:
                    caught.put(("missed", str(error).encode()))


def test_another_account_neither_reads_nor_acts(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.fail("needs root")
    raw = study_of(3, 2, tmp_path / "data")
    study = Study.parse(raw, "account")
    folders = CellFolders(study, study.cells[0], tmp_path)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    dataset = load_dataset(study, folders.cell.state)
    fork = multiprocessing.get_context("fork")
    caught: Any = fork.Queue()
    attacker = fork.Process(target=attack, args=(caught,), daemon=True)
    attacker.start()
    try:
        command = [sys.executable, "-m", "plfl", "deploy", "--config", "study.yaml"]
        command += ["--minimum", "2", "--timeout", "60", "--patience", "300"]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=800)
    finally:
        attacker.kill()
    found: list[tuple[str, bytes]] = []
    with suppress(Empty):
        while True:
            found.append(caught.get(timeout=1))
    read = [data for kind, data in found if kind == "read"]
    assert read, f"the attack did not take place: {found}"
    assert all(len(data) > 100 for data in read)
    assert not any(sign in data for sign in SIGNS for data in read)
    assert "acquired" not in {kind for kind, _ in found}
    records = Tables(folders.results).records(["client", "loss"])
    assert not records["loss"].sub(FORGED).abs().lt(1e-6).any()
    assert records["client"].nunique() == 2, "the third could not take part"
    assert not list(compare(folders, *replay(study, folders.cell, dataset, folders.history)))
