"""The changes to Flower's programs."""

import asyncio
from types import SimpleNamespace

import pytest

from plfl.deploy.flower import programs


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
    asyncio.run(programs.guarded(app)(scope, None, send))
    assert sent[0]["status"] == status


def test_a_busy_server_is_asked_less_often(monkeypatch):
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(programs, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    clock = programs._Clock()
    for took in (0.0, 0.125, 0.25, 2.0):
        now[0] += took
        clock.sleep(3)
    clock.sleep(0.5)
    clock.sleep(7)
    assert slept == [0.5, 1.25, 2.5, 3, 0.1, 7]
