"""The real thing, small: SuperLink, SuperNodes, workers and relays as processes."""

import itertools
import os
import re
import shutil
import signal
import ssl
import time
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from plfl.base.errors import PlflError
from plfl.cli import main as cli
from plfl.data.sources import load_dataset
from plfl.deploy import client_host, flower, local
from plfl.deploy.host import GRACE, Processes, free_port, new_secret
from plfl.deploy.local import configuration_of_check
from plfl.deploy.server_host import running_superlink
from plfl.study import Study
from tests.helpers.forks import Fork
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

CLOCK = f"{ROOT / 'tests' / 'helpers' / 'flower_clock'}{os.pathsep}{ROOT}"
"""The PYTHONPATH of processes whose time is that of the tests."""
LIMIT = 900
"""Seconds that no machine needs, however busy it is."""
NAME = "9360001"
PLAIN = SimpleNamespace(encrypt=lambda data: data, decrypt=lambda data: data)
"""A seal that leaves messages as they are."""


def test_who_has_no_right_gets_nothing(tmp_path, monkeypatch, request, invoke, caplog):
    """One server, and all those whom it refuses or who refuse it."""
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy import certificates

    request.addfinalizer(partial(os.umask, os.umask(0o077)))  # a client has a mask of its own
    certificates.make(tmp_path / "keys", [NAME, "9360002"])
    certificates.make(tmp_path / "other", [NAME])
    own, misled = (tmp_path / folder / "clients" / NAME for folder in ("keys", "other"))
    stranger = tmp_path / "stranger"
    shutil.copytree(own, stranger)
    shutil.copy(misled / "client.key", stranger / "client.key")
    study = configuration_of_check(2, 1, tmp_path / "data")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    load_dataset(Study.parse(study, "the test"), "NY")  # once for all
    port = free_port()
    server_keys = certificates.ServerKeys(tmp_path / "keys" / "server")

    def refuse(name: str, keys: Path, seconds: int = 0) -> str:
        """What the client says, which ends."""
        words = ["--config", tmp_path / "study.yaml", "--building", NAME, "--keys", keys]
        words += ["--server", f"127.0.0.1:{port}", "--retry-seconds", seconds]
        words += ["--folder", tmp_path / f"folder-{name}"]
        said: str = invoke("deploy", "client", *words, status=2).err
        return said

    with (
        running_superlink(tmp_path / "server", "127.0.0.1", port, server_keys, 1) as server,
        Processes(tmp_path / "logs", 3 * GRACE) as processes,
    ):
        link = flower.Link(f"127.0.0.1:{port}", own / "server.crt")
        apps = flower.Link(f"127.0.0.1:{free_port()}")
        keyless = flower.supernode(link, apps, new_secret(tmp_path), tmp_path)
        processes.start("keyless", keyless, flower.environment(tmp_path / "keyless"))
        # These wait for work, which the refused never get.
        monkeypatch.setattr(flower, "superexec", lambda *about: ["sleep", str(LIMIT)])
        for name, keys in {"misled": misled, "stranger": stranger}.items():
            said = refuse(name, keys)
            assert f"client {NAME}: the server" in said and "refuses it" in said
        assert not caplog.messages
        with monkeypatch.context() as late:
            late.setenv("SHIFT", "-7200")
            late.setenv("PYTHONPATH", CLOCK)
            clock = SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() - 7200)
            late.setattr(client_host, "time", clock)
            said = refuse("late", own, seconds=1)
        behind = r"the clock of this machine is (2:00:0\d|1:59:5\d) behind .*"
        assert re.fullmatch(f"{behind}; trying again for 1 s", "".join(caplog.messages))
        assert re.fullmatch(f"plfl: client {NAME}: {behind} set the clock, .*\n", said)
        assert processes.running["keyless"].wait(LIMIT) == 1
        assert "[code: 2001]" in processes.tail("keyless", 500)
        server.processes.check_running("superlink")
        # What wants no credentials is not passed on, neither here nor in disguise.
        trusted = ssl.create_default_context(cafile=own / "server.crt")
        for path in ("control/list-runs", "fleet/../control/list-runs", "fleet/%2e%2e/runtime/x"):
            connection = HTTPSConnection("127.0.0.1", port, context=trusted)
            connection.request("POST", f"/v1/{path}")
            assert connection.getresponse().status == 403
            connection.close()
        connection = HTTPSConnection("127.0.0.1", port, context=trusted)
        with pytest.raises((ConnectionError, ssl.SSLError)):
            parts, size = itertools.repeat(bytes(1 << 20), 200), {"Content-Length": str(200 << 20)}
            connection.request("POST", "/v1/fleet/activate-node", parts, size)
        connection.close()
        second_server = running_superlink(tmp_path / "again", "127.0.0.1", port, server_keys, 1)
        with naming(PlflError, f":{port}: cannot listen there", "--port"), second_server:
            pass
    assert not list(tmp_path.glob("folder-*/*/limits.safetensors"))


def test_a_federation_has_the_bits_of_the_simulator(monkeypatch):
    """A SuperLink, and the workers of two clients, with messages over the network. `make
    deploy-check` starts each as `plfl`, and compares three clients, also with masked sums of
    networks and of trees; these are compared without Flower, too, see `protocol/test_secure.py`."""
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    ends = {}

    class Watched(Processes):
        """Processes of plfl, in forks, whose ends are noted, with what they have said."""

        def start(self, name, command, environment=None, *, folder=None, is_visible=False):
            words = command[command.index("plfl") + 1 :]
            log = None if is_visible else self.log_file(name)
            self.running[name] = Fork(partial(cli.main, words), folder, log)
            return self.running[name]

        def stop(self, *names):
            running = dict(self.running)
            super().stop(*names)
            ends.update({name: (running[name].returncode, self.tail(name)) for name in names})

    monkeypatch.setattr(local, "Processes", Watched)
    monkeypatch.setenv("PYTHONPATH", CLOCK)
    said = []
    local.check(2, 1, said.append)
    assert said[-1] == "identical bits"
    ended = 128 + signal.SIGTERM, ""
    assert ends == {"server": (0, ""), NAME: ended, "9360002": ended}


@pytest.fixture
def exchange(monkeypatch):
    """`FlowerGrid.exchange` with a grid of one's own; messages that belong to no run."""
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy import server_app

    def message(content, **about):
        return SimpleNamespace(content=content, **about)

    monkeypatch.setattr(server_app, "Message", message)
    monkeypatch.setattr(server_app, "POLL", 0.0)

    def exchange(grid, messages, seals=None):
        nodes = {name: int(name) for name in messages}
        seals = seals or dict.fromkeys(messages, PLAIN)
        return server_app.FlowerGrid(grid, nodes, seals).exchange(messages, 0.2, "train")

    return exchange


@pytest.mark.parametrize("together", [True, False])
def test_a_node_answers_once_and_for_itself(exchange, caplog, together):
    """Node 8 answers in the place of node 7, and again after its own answer."""
    from flwr.app import ConfigRecord, RecordDict

    from plfl.deploy.client_app import FIELD, RECORD

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
    assert exchange(grid, {"7": b"", "8": b""}) == {"7": b"true", "8": b"own"}
    assert caplog.text.count("node 8") == 3


def test_an_answer_that_its_client_has_not_sealed_is_refused(exchange, tmp_path):
    from flwr.app import ConfigRecord, RecordDict

    from plfl.deploy import certificates
    from plfl.deploy.client_app import FIELD, RECORD, message_in

    certificates.make(tmp_path, ["7", "8"])
    seals = certificates.ServerKeys(tmp_path / "server").seals()
    ends = {
        node: certificates.ClientKeys(tmp_path / "clients" / str(node)).seal() for node in (7, 8)
    }
    pushed = {}

    def push(messages):
        node = messages[0].dst_node_id
        pushed[node] = message_in(messages[0])
        return [f"to {node}"]

    def pull(numbers):
        assert ends[7].decrypt(pushed[7]) == b"question 7"
        answers = {7: ends[7].encrypt(b"answer"), 8: ends[7].encrypt(b"forged")}
        for node, data in answers.items():
            about = SimpleNamespace(src_node_id=node, reply_to_message_id=f"to {node}")
            content = RecordDict({RECORD: ConfigRecord({FIELD: data})})
            yield SimpleNamespace(metadata=about, content=content, has_error=lambda: False)

    grid = SimpleNamespace(push_messages=push, pull_messages=pull)
    found = exchange(grid, {"7": b"question 7", "8": b"question 8"}, seals)
    assert found == {"7": b"answer", "8": b""}
    assert b"question" not in pushed[7] + pushed[8]


def test_without_flower_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr("plfl.base.extras.find_spec", lambda name: None if name == "flwr" else name)
    with naming(PlflError, "'plfl[deploy]'", "flwr"):
        flower.require_flower()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["server"], "create it with `plfl deploy keys"),
        (["client", "--building", "1"], "required: --keys"),
        (["server", "--keys", "nowhere"], "create it with `plfl deploy keys"),
        *(
            (["client", "--keys", "k", "--building", "1", "--server", address], "HOST:PORT")
            for address in ("host", "host:", "[::1", "a b:80", "10.0.0.1:99999")
        ),
        (["--cell", "NY-P9"], "no cell 'NY-P9'"),
    ],
)
def test_what_is_refused_before_anything_starts(arguments, reason, capsys):
    where, *more = arguments if not arguments[0].startswith("-") else ("", *arguments)
    command = ["deploy", *([where] if where else []), "--config", "config/smoke.yaml", *more]
    try:
        assert cli.main(command) == 2
    except SystemExit as ended:  # options that argparse refuses
        assert ended.code == 2
    assert reason in capsys.readouterr().err


def test_no_process_of_flower_may_use_the_network_unasked(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    environment = flower.environment(tmp_path)
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert "HTTPS_PROXY" not in environment


def test_the_guides_federation_of_two_hosts_takes_ten_commands():
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    section = page.split("## Two hosts in ten commands\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, flags=re.DOTALL)
    commands = re.sub(r"'[^']*'", "''", "".join(blocks)).splitlines()
    assert len(commands) == 10
    for command in commands:
        if command.startswith("plfl "):
            words = command.removesuffix(" &").split()[1:]
            cli.build_parser(words).parse_args(words)
