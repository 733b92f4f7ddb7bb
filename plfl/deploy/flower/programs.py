"""Flower's programs with changes to private parts: `python -m plfl.deploy.flower.programs NAME`.

Written for the version of Flower that `runtime` names. The private parts are the modules that are
patched below (the pauses of a SuperNode and its reconnection, the start of its ClientApps, the
access to a SuperLink from other machines), the registration of keys, and the order in which
processes end.
"""

import ipaddress
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from plfl.deploy.flower.runtime import PROGRAMS

POLL_PAUSE, REPLY_PAUSE = 3, 0.5
"""Fixed pauses of Flower's SuperNode, in seconds: between two polls for messages, and between two
checks for a reply."""
SHORT_REPLY_PAUSE = 0.1
"""Seconds that replace `REPLY_PAUSE`."""
LEAST, FACTOR = 0.5, 10.0
"""The pause between two polls that replaces `POLL_PAUSE`: at least this many seconds, and this many
times the duration of a poll, so that a busy server is polled less often."""
FLEET = "/v1/fleet/"
"""The part of a SuperLink's interface that other machines may access. It requires authentication;
the other parts, such as starting a run or registering a key, do not."""
OFFLINE = 1.5
"""Seconds for which a returning node stays disconnected, so that the server notices its absence."""

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


class _Clock:
    """Replaces the module `time` in Flower's SuperNode, with shorter sleeps."""

    def __init__(self) -> None:
        self.woke = time.monotonic()

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        if seconds == POLL_PAUSE:
            took = time.monotonic() - self.woke
            seconds = min(POLL_PAUSE, max(LEAST, FACTOR * took))
        elif seconds == REPLY_PAUSE:
            seconds = SHORT_REPLY_PAUSE
        time.sleep(seconds)
        self.woke = time.monotonic()


class _Starter:
    """Replaces the module `subprocess` in Flower, which uses only `Popen` of it."""

    def __init__(self, start: Callable[[list[str]], object]):
        self.start = start

    def Popen(self, command: list[str], **options: object) -> object:  # noqa: N802 - name in `subprocess`
        return self.start(command)


def _run_supernode() -> None:
    """Run a SuperNode that polls twice a second, as long as the server answers quickly."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    def start_superexec(command: list[str]) -> object:
        return subprocess.Popen([*PROGRAMS, "superexec", *command[1:]])

    setattr(start_client_internal, "time", _Clock())  # noqa: B010 - not exported
    setattr(start_client_internal, "subprocess", _Starter(start_superexec))  # noqa: B010
    setattr(FleetHttpClient, "ActivateNode", _returning(FleetHttpClient.ActivateNode))  # noqa: B010
    flower_supernode()


def _returning(activate: Callable[..., Any]) -> Callable[..., Any]:
    """`activate`, for a SuperNode that returns after a kill.

    Flower takes a killed SuperNode for connected for another minute and refuses a second activation
    meanwhile. So the returning SuperNode first deactivates its node.
    """
    import httpx
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest

    path = Path(os.environ["FLWR_HOME"]) / "node"

    def returning(client: Any, request: Any) -> Any:
        try:
            response = activate(client, request)
        except httpx.HTTPStatusError:
            if not path.exists():
                raise
            client.DeactivateNode(DeactivateNodeRequest(node_id=int(path.read_text("ascii"))))
            time.sleep(OFFLINE)
            response = activate(client, request)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(response.node_id), "ascii")
        return response

    return returning


def _run_superexec() -> None:
    """Run a SuperExec of a SuperNode that starts ClientApps by `fork`, with all imports done.

    There is still one process per message, but it starts in milliseconds instead of a second.
    """
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec.executor import subprocess_executor
    from flwr.supernode.cli import flwr_clientapp

    import plfl.deploy.flower.client_app  # noqa: F401 - the ClientApp loads it

    def start_clientapp(command: list[str]) -> None:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork():
            return
        status = 1
        try:
            sys.argv = command
            flwr_clientapp()
        except SystemExit as end:
            status = 0 if end.code in (None, 0) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            # Skips the exit handlers, which belong to the parent.
            os._exit(status)

    setattr(subprocess_executor, "subprocess", _Starter(start_clientapp))  # noqa: B010
    flower_superexec()


def _run_superlink() -> None:
    """Run a SuperLink whose interface is limited for other machines, see `guarded`."""
    from flwr.superlink import main
    from flwr.superlink.cli import flower_superlink

    create = main.create_app
    setattr(main, "create_app", lambda *given: guarded(create(*given)))  # noqa: B010
    flower_superlink()


def guarded(app: Asgi) -> Asgi:
    """`app`, with access for other machines limited to `FLEET`; other paths get status 403."""

    async def guard(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not scope["path"].startswith(FLEET):
            (client, _), (server, _) = scope["client"] or ("", 0), scope["server"] or ("", 0)
            if not (client == server or _is_loopback(client)):
                await send({"type": "http.response.start", "status": 403, "headers": []})
                await send({"type": "http.response.body", "body": b"local access only"})
                return
        await app(scope, receive, send)

    return guard


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _register(address: str, root: str) -> None:
    """Register the public keys on standard input (JSON, by name); print the ids of their nodes."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    versions = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    client = ControlHttpClient.from_server_address(address, not root, root or None, [versions])
    nodes = {}
    for name, text in json.load(sys.stdin).items():
        key = load_ssh_public_key(text.encode("ascii"))
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise SystemExit(f"the key of {name} is not a key of an elliptic curve")
        request = RegisterNodeRequest(public_key=public_key_to_bytes(key), name=name)
        nodes[name] = client.RegisterNode(request).node_id
    client.close()
    print(json.dumps(nodes))


if __name__ == "__main__":
    what = sys.argv.pop(1)
    sys.argv[0] = f"flower-{what}"
    programs = {
        "register": lambda: _register(*sys.argv[1:]),
        "superexec": _run_superexec,
        "superlink": _run_superlink,
        "supernode": _run_supernode,
    }
    programs[what]()
