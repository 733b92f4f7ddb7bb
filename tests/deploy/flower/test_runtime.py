"""The real thing, small: SuperLink, SuperNodes, workers and relays as processes."""

import shutil
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from plfl.base.errors import PlflError
from plfl.cli import main as cli
from plfl.config.study import Study
from plfl.data.prepare import load_dataset
from plfl.deploy import worker
from plfl.deploy.check import compare, study_of
from plfl.deploy.flower import runtime as flower
from plfl.deploy.folders import PLAN, SERVER_LOG, CellFolders
from plfl.deploy.hosts.processes import GRACE, Processes, free_port
from plfl.deploy.hosts.sockets import listen
from plfl.deploy.protocol.client import Client
from plfl.deploy.protocol.replay import replay
from plfl.deploy.protocol.wire import Message
from tests.helpers import forging
from tests.helpers.refusals import naming

PLFL = [sys.executable, "-m", "plfl", "deploy"]
LIMIT = 900
"""Seconds that no machine needs, however busy it is."""
NAMES = ["9360001", "9360002", "9360003"]
HOSTILE = NAMES[-1]
ROUNDS = 6


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that waits for its clients; its address, its folders, and the running processes."""
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy.hosts import keys

    here = tmp_path_factory.mktemp("server")
    keys.make(here / "keys", NAMES)
    raw = study_of(len(NAMES), ROUNDS, here / "data")
    study = Study.parse(raw, "test")
    folders = CellFolders(study, study.cells[0], here)
    (here / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    with Processes(here / "logs", 3 * GRACE) as processes:
        command = [*PLFL, "server", "--config", "study.yaml", "--keys", "keys/server"]
        command += ["--port", address.split(":")[1], "--patience", str(LIMIT)]
        processes.start("server", command, folder=here)
        end = time.monotonic() + LIMIT
        while not (folders.server / PLAN).exists():
            processes.check("server")
            assert time.monotonic() < end, processes.tail("server")
            time.sleep(0.2)
        yield address, folders, processes


def client(address, name, keys, *options) -> list[str]:
    """The command of a client with the keys in a folder."""
    command = [*PLFL, "client", "--config", "study.yaml", "--building", name]
    return [*command, "--server", address, "--keys", str(keys), *options]


def test_who_has_no_right_gets_nothing(server, tmp_path):
    """One server, and at the same time all those whom it refuses or who refuse it."""
    from plfl.deploy.hosts import keys

    address, folders, processes = server
    keys.make(tmp_path / "other", NAMES[:1])
    own, stranger = folders.root / "keys/clients" / NAMES[0], tmp_path / "stranger"
    misled = tmp_path / "other/clients" / NAMES[0]
    shutil.copytree(own, stranger)
    shutil.copy(misled / "client.key", stranger / "client.key")
    for name, folder in {"misled": misled, "stranger": stranger}.items():
        options = ["--folder", str(tmp_path / f"folder-{name}"), "--retry-seconds", "1"]
        command = client(address, NAMES[0], folder, *options)
        processes.start(name, command, folder=folders.root)
    link = flower.Link(address, own / "ca.crt")
    keyless = flower.supernode(link, free_port(), tmp_path)
    processes.start("keyless", keyless, flower.environment(tmp_path / "keyless"))
    codes = {n: processes.running[n].wait(LIMIT) for n in ("misled", "stranger", "keyless")}
    assert codes == {"misled": 2, "stranger": 2, "keyless": 1}
    assert "certificate" in processes.tail("misled")
    assert f"refuses client {NAMES[0]}" in processes.tail("stranger")
    assert "[code: 2001]" in processes.tail("keyless", 500)
    assert processes.running["server"].poll() is None
    assert not list(tmp_path.glob("folder-*/*/limits.safetensors"))


class Hostile:
    """The worker of a client with a valid key. It is honest in round 1 only."""

    def __init__(self, honest: Client):
        self.honest, self.joins, self.first = honest, 0, b""

    def answer(self, data: bytes) -> bytes:
        asked, true = Message.unpack(data).about, self.honest.answer(data)
        message = Message.unpack(true)
        forge = None
        match asked["kind"], asked.get("round"):
            case "join", _:
                self.joins += 1
                forge = forging.facts(name=NAMES[0]) if self.joins == 1 else None
            case "train", 1:
                self.first = true
            case "train", 2:
                forge = forging.TRAIN["update nan"]
            case "train", 3:
                forge = forging.TRAIN["array too short"]
            case "train", 4:
                forge = forging.bytes_of(self.first)
            case "train", 5:
                forge = forging.facts(name=NAMES[0])
            case "evaluate", _:
                forge = forging.row(client=NAMES[0])
        return forge(dict(message.about), dict(message.arrays)) if forge else true


REASONS = {
    1: f"client '{NAMES[0]}'",  # to the first invitation it answers with this name
    2: "not finite",
    3: "it has the arrays",
    4: "another message",
    5: f"client '{NAMES[0]}'",
    ROUNDS: "it scores",
}


def test_a_hostile_client_with_a_valid_key_is_left_out_and_named(server):
    """Real processes and TLS; the others get the bits of a simulation in which it was silent."""
    address, folders, processes = server
    for name in NAMES[:-1]:
        keys = folders.root / "keys/clients" / name
        processes.start(name, client(address, name, keys), folder=folders.root)
    own, keys = folders.client(HOSTILE), folders.root / "keys/clients" / HOSTILE
    own.mkdir(mode=0o700, parents=True)
    table = worker.series(folders.study, folders.cell, HOSTILE, own)
    hostile = Hostile(Client(folders.study, folders.cell, HOSTILE, table, own))

    def answer() -> None:
        while True:
            worker._serve(listener, hostile)

    with listen(own) as listener:
        threading.Thread(target=answer, daemon=True).start()
        link = flower.Link(address, keys / "ca.crt")
        node = flower.supernode(link, free_port(), own, keys / "client.key")
        processes.start("hostile", node, flower.environment(own / "flower"))
        assert processes.running["server"].wait(LIMIT) == 0, processes.tail("server", 20)
    history = folders.history
    assert [summary.took_part for summary in history] == [
        *([NAMES] + 4 * [NAMES[:-1]]),
        NAMES,  # only its scores are forged
    ]
    log = (folders.server / SERVER_LOG).read_text(encoding="utf-8")
    said = processes.tail("server", ROUNDS)
    for summary in history:
        assert list(summary.refused) == [HOSTILE]
        (reason,) = summary.refused[HOSTILE]
        assert REASONS[summary.t] in reason
        assert f"client {HOSTILE} is refused: {reason}" in log
        assert f"{HOSTILE} ({reason})" in said
    dataset = load_dataset(folders.study, folders.cell.state).refit()
    result, f = replay(folders.study, folders.cell, dataset, history)
    there = (result.records["client"] != HOSTILE) | (result.records["split"] == "train")
    expected = replace(result, records=result.records[there])
    assert list(compare(folders, expected, f)) == []


@pytest.fixture
def exchange(monkeypatch):
    """`FlowerGrid.exchange` with a grid of one's own; messages that belong to no run."""
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy.flower import server_app

    def message(content, **about):
        return SimpleNamespace(content=content, **about)

    monkeypatch.setattr(server_app, "Message", message)
    monkeypatch.setattr(server_app, "POLL", 0.0)
    return lambda grid, messages: server_app.FlowerGrid(grid, None).exchange(messages, 0.2, "train")


def test_a_message_that_was_lost_with_the_superlink_is_sent_again(exchange):
    from plfl.deploy.flower.client_app import message_in

    asked = []

    def push(messages):
        asked.extend(messages)
        if len(asked) == 1:
            raise RuntimeError("the SuperLink died")
        return [str(len(asked))]

    grid = SimpleNamespace(push_messages=push, pull_messages=lambda numbers: [])
    assert exchange(grid, {7: b"one", 8: b"two"}) == {}
    assert [message_in(message) for message in asked] == [b"one", b"one", b"two"]


@pytest.mark.parametrize("together", [True, False])
def test_a_node_answers_once_and_for_itself(exchange, caplog, together):
    """Node 8 answers in the place of node 7, and again after its own answer."""
    from flwr.app import ConfigRecord, RecordDict

    from plfl.deploy.flower.client_app import FIELD, RECORD

    def reply(node, number, data):
        about = SimpleNamespace(src_node_id=node, reply_to_message_id=number)
        content = RecordDict({RECORD: ConfigRecord({FIELD: data})})
        return SimpleNamespace(metadata=about, content=content, has_error=lambda: False)

    sent = [
        reply(8, "to 7", b"forged"),
        reply(8, "to 8", b"own"),
        reply(8, "to 8", b"again"),
        reply(8, "to 9", b"of nobody"),
        reply(7, "to 7", b"true"),
    ]
    waves = [sent] if together else [[one] for one in sent]
    grid = SimpleNamespace(
        push_messages=lambda messages: [f"to {messages[0].dst_node_id}"],
        pull_messages=lambda numbers: waves.pop(0),
    )
    assert exchange(grid, {7: b"", 8: b""}) == {7: b"true", 8: b"own"}
    assert caplog.text.count("node 8") == 3


def test_without_flower_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(flower, "SERIES", "0.1")
    with naming(PlflError, "'plfl[deploy]'"):
        flower.require()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["server"], "TLS needs keys"),
        (["client", "--building", "1"], "TLS needs keys"),
        (["server", "--keys", "nowhere"], "create it with `plfl deploy keys"),
        (["server", "--keys", "keys", "--insecure"], "not both"),
        (["server", "--insecure", "--host", "0.0.0.0"], "this machine only"),
        (["client", "--insecure", "--building", "1", "--server", "10.0.0.1:80"], "machine only"),
        (["client", "--insecure", "--building", "1", "--server", "host:80"], "machine only"),
        (["client", "--insecure", "--building", "1", "--server", "host"], "HOST:PORT"),
        (["--cell", "NY-P9"], "no cell 'NY-P9'"),
    ],
)
def test_what_is_refused_before_anything_starts(arguments, reason, capsys):
    where, *more = arguments if not arguments[0].startswith("-") else ("", *arguments)
    command = ["deploy", *([where] if where else []), "--config", "config/smoke.yaml", *more]
    assert cli.main(command) == 2
    assert reason in capsys.readouterr().err


def test_no_process_of_flower_may_use_the_network_unasked(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    environment = flower.environment(tmp_path)
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert "HTTPS_PROXY" not in environment
