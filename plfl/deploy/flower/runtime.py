"""Flower's commands and process environment, and the changes to its private parts.

Written for flwr 1.41.0, the version to which the extra `plfl[deploy]` pins it. The private parts
are the modules that are patched below (the pauses of a SuperNode and its reconnection, the start of
its ClientApps, the access to a SuperLink from other machines), the registration of keys, and the
order in which processes end.
"""

import importlib.metadata
import ipaddress
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plfl.errors import PlflError

VERSION = "1.41.0"
OURS = [sys.executable, "-P", "-m", "plfl.deploy.flower.runtime"]
"""Command that runs Flower's programs with the changes of this module. With -P, modules are not
imported from the current folder, which is the user's."""
FOLDER = "PLFL_SERVER_FOLDER"
"""Environment variable with the server's folder, for the ServerApp. A value in the configuration of
the run would be sent to the clients, too."""
APP = """\
[project]
name = "plfl-app"
version = "1.0.0"
description = "Server and relay of plfl, which is installed on every host"
license = { text = "MIT" }
dependencies = []

[tool.flwr.app]
publisher = "plfl"

[tool.flwr.app.components]
serverapp = "plfl.deploy.flower.server_app:app"
clientapp = "plfl.deploy.flower.client_app:app"

[tool.flwr.app.config]
"""
SWITCHES = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "NO_COLOR": "1",
}
POLL_PAUSE, REPLY_PAUSE = 3, 0.5
"""Fixed pauses of Flower's SuperNode, in seconds: between two polls for messages, and between two
checks for a reply."""
SHORT_REPLY_PAUSE = 0.1
"""Seconds that replace `REPLY_PAUSE`."""
LEAST, FACTOR = 0.5, 10.0
"""The pause between two polls that replaces `POLL_PAUSE`: at least this many seconds, and this many
times the duration of a poll, so that a busy server is polled less often."""
TIMEOUT = 300.0
"""Seconds within which a command of Flower has to end."""
FLEET = "/v1/fleet/"
"""The part of a SuperLink's interface that other machines may access. It requires authentication;
the other parts, such as starting a run or registering a key, do not."""
OFFLINE = 1.5
"""Seconds for which a returning node stays disconnected, so that the server notices its absence."""
REFUSED = re.compile(r"\[code: (2001|2004)\]")
"""Output of a SuperNode that the server refuses."""
UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed")
"""Output of a SuperNode that does not trust the server."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True)
class Link:
    """The address of a SuperLink, and how to connect to it."""

    address: str
    """Host and port."""
    root_certificates: Path | None = None
    """Certificate of the CA that the clients trust; None: no encryption, no authentication."""

    @property
    def insecure(self) -> bool:
        return self.root_certificates is None


def require() -> None:
    """Make sure that the required version of Flower is installed.

    Raises:
        PlflError: it is not.
    """
    try:
        found = importlib.metadata.version("flwr")
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found != VERSION:
        instead = "" if found is None else f" (found: {found})"
        raise PlflError(
            f"Flower (flwr {VERSION}) is not installed{instead}; install it with `pip install "
            "'plfl[deploy]'`, or `pip install --editable '.[deploy]'` in a checkout"
        )


def environment(home: Path, **more: str) -> dict[str, str]:
    """Environment of a Flower process: no proxies, telemetry, update checks or installations."""
    kept = {k: v for k, v in os.environ.items() if k.lower() not in PROXIES}
    # Flower starts its child processes by name, without a path.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return kept | SWITCHES | {"PATH": path, "FLWR_HOME": str(home.resolve())} | more


def superlink(
    host: str,
    port: int,
    database: Path | None = None,
    certificates: tuple[Path, Path, Path] | None = None,
) -> list[str]:
    """Command of a SuperLink.

    Args:
        host: address to listen on.
        port: port to listen on.
        database: file of its database; None: in memory.
        certificates: certificate of the CA, certificate and private key of the server; None: no
            encryption, no authentication.
    """
    command = [*OURS, "superlink"]
    command += ["--host", host, "--port", str(port)]
    # Otherwise it starts a SuperExec in a session of its own, which `Processes` cannot end.
    command += ["--isolation", "process"]
    if database is not None:
        command += ["--database", str(database.resolve())]
    if certificates is None:
        return [*command, "--insecure"]
    names = ("--ssl-ca-certfile", "--ssl-certfile", "--ssl-keyfile")
    for name, path in zip(names, certificates, strict=True):
        command += [name, str(path.resolve())]
    return [*command, "--enable-supernode-auth"]


def superexec(link: Link) -> list[str]:
    """Command of the SuperExec, which starts ServerApps, for a SuperLink on this machine."""
    command = [_program("flower-superexec"), "--runtime-api-address", link.address]
    return [*command, *_trust(link)]


def supernode(link: Link, port: int, folder: Path, key: Path | None = None) -> list[str]:
    """Command of a SuperNode.

    Args:
        link: the SuperLink.
        port: port of this machine for the SuperNode's own processes.
        folder: folder of the worker.
        key: private key of the client; None: no authentication.
    """
    command = [*OURS, "supernode"]
    command += ["--superlink", link.address]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--node-config", f"folder={json.dumps(str(folder.resolve()))}"]
    command += _trust(link)
    return (
        command if key is None else [*command, "--auth-supernode-private-key", str(key.resolve())]
    )


def _trust(link: Link) -> list[str]:
    if link.root_certificates is None:
        return ["--insecure"]
    return ["--root-certificates", str(link.root_certificates.resolve())]


def register(link: Link, home: Path, keys: Mapping[str, str]) -> dict[int, str]:
    """Register clients with a SuperLink.

    Args:
        link: the SuperLink.
        home: folder for Flower's own files.
        keys: public key of each client, by name.

    Returns:
        Name of each client by the id of its node.

    Raises:
        PlflError: the SuperLink refuses the keys.
    """
    command = [*OURS, "register", link.address]
    command += [str(link.root_certificates or "")]
    ran = subprocess.run(
        command,
        input=json.dumps(dict(keys)),
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=TIMEOUT,
        check=False,
    )
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or [""])[-1]
        raise PlflError(f"the SuperLink at {link.address} refuses the clients' keys: {last}")
    found: dict[str, int] = json.loads(ran.stdout)
    return {node: name for name, node in found.items()}


def start_run(link: Link, home: Path) -> str:
    """Start a ServerApp on a SuperLink and return the id of the run.

    Raises:
        PlflError: the SuperLink refuses the run.
    """
    app = home / "app"
    app.mkdir(parents=True, exist_ok=True)
    (app / "pyproject.toml").write_text(APP, encoding="utf-8")
    trust = (
        "insecure = true"
        if link.root_certificates is None
        else f"root-certificates = {json.dumps(str(link.root_certificates.resolve()))}"
    )
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "plfl"\n[superlink.plfl]\naddress = "{link.address}"\n{trust}\n',
        encoding="utf-8",
    )
    answer = _flwr(["run", str(app.resolve()), "plfl", "--format", "json"], home)
    if not answer.get("success"):
        raise PlflError(f"the SuperLink at {link.address} refuses the run: {answer}")
    return str(answer["run-id"])


def status(run: str, home: Path) -> str:
    """Flower's status of a run, such as `running` or `finished:failed`."""
    runs: Any = _flwr(["list", "plfl", "--format", "json"], home).get("runs", [])
    return next((str(one["status"]) for one in runs if str(one["run-id"]) == run), "unknown")


def push_error() -> type[Exception]:
    """The exception that Flower's grid raises when the SuperLink dies while it takes a message."""
    # Not at the top: the commands must be able to say that Flower is not installed.
    from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

    found: type[Exception] = ObjectPushError
    return found


def _flwr(arguments: list[str], home: Path) -> dict[str, Any]:
    command = [_program("flwr"), *arguments]
    ran = subprocess.run(
        command, capture_output=True, text=True, env=environment(home), timeout=TIMEOUT, check=False
    )
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        raise PlflError(f"`{' '.join(command)}` failed: {ran.stdout}{ran.stderr}") from None
    return answer if isinstance(answer, dict) else {}


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


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


Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


def _run_supernode() -> None:
    """Run a SuperNode that polls twice a second, as long as the server answers quickly."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    def start_superexec(command: list[str]) -> object:
        return subprocess.Popen([*OURS, "superexec", *command[1:]])

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
