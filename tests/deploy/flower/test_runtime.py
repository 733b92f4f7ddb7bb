"""The real thing, small: SuperLink, SuperNodes, workers and relays as processes."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from plfl.base.errors import PlflError
from plfl.cli import main as cli
from plfl.deploy.check import study_of
from plfl.deploy.flower import runtime as flower
from plfl.deploy.hosts.processes import GRACE, Processes, free_port

PLFL = [sys.executable, "-m", "plfl", "deploy"]
LIMIT = 900
"""Seconds that no machine needs, however busy it is."""


@pytest.fixture
def server(tmp_path):
    """A server that waits for its clients; the address, and the keys of two servers."""
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy.hosts import keys

    keys.make(tmp_path / "keys", ["9360001", "9360002"])
    keys.make(tmp_path / "other", ["9360001", "9360002"])
    config = tmp_path / "study.yaml"
    config.write_text(yaml.safe_dump(study_of(3, 1, tmp_path / "data")), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    with Processes(tmp_path / "logs", 3 * GRACE) as processes:
        command = [*PLFL, "server", "--config", str(config)]
        command += ["--keys", str(tmp_path / "keys/server")]
        command += ["--port", address.split(":")[1]]
        processes.start("server", command, folder=tmp_path)
        end = time.monotonic() + LIMIT
        plan = Path("results/deploy-check-NY-P2-scaffold-adam-fedavg-10-flower/deploy/server")
        while not (tmp_path / plan / "plan.json").exists():
            processes.check("server")
            assert time.monotonic() < end, processes.tail("server")
            time.sleep(0.2)
        yield address, processes


def test_who_has_no_right_gets_nothing(server, tmp_path):
    """One server, and at the same time all those whom it refuses or who refuse it."""
    address, processes = server
    keys = tmp_path / "keys/clients/9360001"
    stranger = tmp_path / "stranger"
    shutil.copytree(keys, stranger)
    shutil.copy(tmp_path / "other/clients/9360001/client.key", stranger / "client.key")
    clients = {"misled": tmp_path / "other/clients/9360001", "stranger": stranger}
    for name, folder in clients.items():
        command = [*PLFL, "client", "--config", str(tmp_path / "study.yaml")]
        command += ["--building", "9360001"]
        command += ["--server", address, "--folder", str(tmp_path / f"folder-{name}")]
        command += ["--keys", str(folder), "--retry-seconds", "1"]
        processes.start(name, command, folder=tmp_path)
    link = flower.Link(address, keys / "ca.crt")
    keyless = flower.supernode(link, free_port(), tmp_path)
    environment = flower.environment(tmp_path / "keyless")
    processes.start("keyless", keyless, environment)
    codes = {n: processes.running[n].wait(LIMIT) for n in ("misled", "stranger", "keyless")}
    assert codes == {"misled": 2, "stranger": 2, "keyless": 1}
    assert "has no certificate for this address" in processes.tail("misled")
    assert "refuses client 9360001: it does not know the client's key" in processes.tail("stranger")
    assert "[code: 2001]" in processes.tail("keyless", 500)
    assert processes.running["server"].poll() is None
    assert not list(tmp_path.glob("folder-*/*/limits.safetensors"))


def test_relays_need_no_torch():
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    code = "import sys, plfl.deploy.flower.client_app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_message_that_was_lost_with_the_superlink_is_sent_again(monkeypatch):
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy.flower import server_app
    from plfl.deploy.flower.client_app import message_in

    class Grid:
        def __init__(self):
            self.asked = []

        def push_messages(self, messages):
            self.asked += messages
            if len(self.asked) == 1:
                raise flower.push_error()("id", 1, "session")
            return [str(len(self.asked))]

        def pull_messages(self, numbers):
            return []

    def message(content, **about):
        return SimpleNamespace(content=content)

    # A real one needs a run that it belongs to.
    monkeypatch.setattr(server_app, "Message", message)
    monkeypatch.setattr(server_app, "POLL", 0.0)
    grid = Grid()
    messages = {7: b"one", 8: b"two"}
    assert server_app.FlowerGrid(grid, None).exchange(messages, 0.2, "train") == {}
    assert [message_in(message) for message in grid.asked] == [b"one", b"one", b"two"]


def test_without_flower_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(flower, "VERSION", "0.0.1")
    with pytest.raises(PlflError, match=r"pip install 'plfl\[deploy\]'"):
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
