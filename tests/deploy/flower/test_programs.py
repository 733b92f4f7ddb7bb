"""The changes to Flower's programs."""

import asyncio
import importlib
import inspect
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from plfl.deploy.flower import runtime, substitutes

NODE = "flwr.supernode.start_client_internal"


@pytest.mark.parametrize(
    ("module", "text", "use"),
    [
        (NODE, "time.sleep(3)", "PAUSES: between two polls for messages"),
        (NODE, "time.sleep(0.5)", "PAUSES: between two checks for a reply"),
        (NODE, "subprocess.Popen(command)", "change: the start of a SuperNode's SuperExec"),
        ("flwr.supernode.fleet_http_client", "def ActivateNode(", "returning"),
        ("flwr.supernode.fleet_http_client", "def DeactivateNode(", "returning"),
        ("flwr.supercore.superexec.executor.subprocess_executor", "subprocess.Popen(", "fork"),
        ("flwr.superlink.main", "def create_app(", "change: the guard of a SuperLink"),
    ],
)
def test_flower_has_the_private_parts_that_are_changed(module, text, use):
    version = pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    found = inspect.getsource(importlib.import_module(module))
    assert text in found, (
        f"Flower {version.__version__}: {module} has no {text!r}; change what "
        f"plfl/deploy/flower/programs.py and substitutes.py do there ({use})"
    )


def test_the_extra_names_the_versions_that_can_be_used():
    project = Path(__file__).resolve().parents[3] / "pyproject.toml"
    extras = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    assert extras["deploy"] == [f"flwr=={runtime.SERIES}.*"]


@pytest.mark.parametrize(
    ("path", "client", "server", "status"),
    [
        ("/v1/fleet/pull-messages", "10.0.0.2", "10.0.0.1", 200),
        ("/v1/control/start-run", "10.0.0.2", "10.0.0.1", 403),
        ("/v1/runtime/push-messages", "10.0.0.2", "10.0.0.1", 403),
        ("/docs", "10.0.0.2", "10.0.0.1", 403),
        ("/v1/control/start-run", "10.0.0.1", "10.0.0.1", 200),
        ("/v1/control/start-run", "127.0.0.1", "127.0.0.1", 200),
    ],
)
def test_other_machines_reach_only_what_asks_for_a_key(path, client, server, status):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    sent = []

    async def send(event):
        sent.append(event)

    scope = {"type": "http", "path": path, "client": (client, 1), "server": (server, 8000)}
    asyncio.run(substitutes.guarded(app)(scope, None, send))
    assert sent[0]["status"] == status


def test_a_busy_server_is_asked_less_often(monkeypatch):
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(substitutes, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    pause = substitutes.sleeper()
    for took in (0.0, 0.03125, 0.125, 0.25, 2.0):
        now[0] += took
        pause(3)
    pause(0.5)
    pause(7)
    assert slept == [0.5, 0.5, 1.25, 2.5, 3, 0.1, 7]
