"""The server restarts processes that died."""

import logging
import sys
from types import SimpleNamespace

import pytest

from plfl.base.errors import PlflError
from plfl.base.files import hold
from plfl.deploy import server_host
from plfl.deploy.folders import APP_LOCK, APP_STARTED
from plfl.deploy.host import Processes
from plfl.deploy.server_host import ServerProcesses
from tests.helpers.refusals import naming


@pytest.fixture
def server(tmp_path):
    (tmp_path / "flower").mkdir()
    with Processes(tmp_path / "logs") as group:
        yield ServerProcesses(group, tmp_path, SimpleNamespace(certificates=[tmp_path]))


def test_a_server_loop_is_gone_when_its_lock_is(tmp_path):
    assert not server_host._is_gone(tmp_path), "it has not started"
    with hold(tmp_path / APP_LOCK):
        (tmp_path / APP_STARTED).touch()
        assert not server_host._is_gone(tmp_path)
    assert server_host._is_gone(tmp_path)


def test_a_process_that_died_is_reported_and_counted(server, caplog):
    caplog.set_level(logging.WARNING)
    process = server.group.start("superexec", [sys.executable, "-c", "raise SystemExit(3)"])
    process.wait()
    assert server.died("superexec")
    assert "superexec ended with status 3" in caplog.text
    assert "superexec" not in server.group.running
    assert server.restarts == 1


def test_a_server_gives_up_in_the_end(server):
    server.group.log("superlink").write_text("no room\n")
    for _ in range(server_host.MAX_RESTARTS):
        server.count_restart("superlink ended")
    with naming(PlflError, "6 restarts"):
        server.count_restart("superlink ended")
