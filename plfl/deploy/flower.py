"""All that depends on Flower's private parts, its commands and its process environment.

Written for flwr 1.41.0, to which the extra `plfl[deploy]` pins it. Private are the modules that
are changed below (a SuperNode's pauses and how it returns, how its ClientApps are started, what a
SuperLink answers to whom), the registration of keys, and what is said here about the order in which
processes end.
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
OURS = [sys.executable, "-m", "plfl.deploy.flower"]
"""Flower's commands as they are changed here."""
FOLDER = "PLFL_SERVER_FOLDER"
"""Environment variable that tells the ServerApp its folder; the run's configuration would go to the
clients too."""
APP = """\
[project]
name = "plfl-app"
version = "1.0.0"
description = "plfl's server and relay, which are installed on every host"
license = { text = "MIT" }
dependencies = []

[tool.flwr.app]
publisher = "plfl"

[tool.flwr.app.components]
serverapp = "plfl.deploy.server_app:app"
clientapp = "plfl.deploy.relay:app"

[tool.flwr.app.config]
"""
SWITCHES = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "NO_COLOR": "1",
}
LOOK, REPLY = 3, 0.5
"""A SuperNode's fixed pauses, in seconds: between two looks for messages, and for a reply."""
LEAST, FACTOR = 0.5, 10.0
"""Between two looks it shall wait these seconds at least, and so many times what a look takes: a
server that is busy is asked less often."""
TIMEOUT = 300.0
"""Seconds within which a command of Flower's has to answer."""
FLEET = "/v1/fleet/"
"""What of a SuperLink other machines may use: it is where node authentication is. Everything else,
such as starting a run or registering a key, asks for no proof."""
OFFLINE = 1.5
"""Seconds that a node which returns stays away, for the server to notice that it was."""
REFUSED = re.compile(r"\[code: (2001|2004)\]")
UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed")
"""What a SuperNode says when it is refused, and when it refuses."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True)
class Link:
    """Where the SuperLink is, and how it is spoken to."""

    address: str
    """Host and port."""
    root_certificates: Path | None = None
    """Whom the clients trust; None: insecure."""

    @property
    def insecure(self) -> bool:
        return self.root_certificates is None


def require() -> None:
    """Make sure that Flower is there, in the version this was written for.

    Raises:
        PlflError: it is not.
    """
    try:
        found = importlib.metadata.version("flwr")
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found != VERSION:
        what = "is not installed" if found is None else f"is there in version {found}"
        raise PlflError(
            f"Flower (flwr {VERSION}) {what}; install it with `pip install 'plfl[deploy]'`, in a "
            "checkout `pip install --editable '.[deploy]'`"
        )


def environment(home: Path, **more: str) -> dict[str, str]:
    """Environment of a Flower process: nothing is fetched, reported or looked up on the network."""
    kept = {k: v for k, v in os.environ.items() if k.lower() not in PROXIES}
    # Flower starts its children by their bare names.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return kept | SWITCHES | {"PATH": path, "FLWR_HOME": str(home.resolve())} | more


def superlink(
    host: str,
    port: int,
    database: Path | None = None,
    certificates: tuple[Path, Path, Path] | None = None,
) -> list[str]:
    """Command of a SuperLink; `certificates` are those of the CA and the server, and its key."""
    command = [*OURS, "superlink"]
    command += ["--host", host, "--port", str(port)]
    # Otherwise it starts its SuperExec in a session that nobody here can end.
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
    """Command of what starts the ServerApp of a SuperLink of this machine."""
    command = [_program("flower-superexec"), "--runtime-api-address", link.address]
    return [*command, *_trust(link)]


def supernode(link: Link, port: int, folder: Path, key: Path | None = None) -> list[str]:
    """Command of the SuperNode of a worker's `folder`; `port` is for its own processes alone."""
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
    """Tell a SuperLink the public keys of clients by name; which node each of them will be.

    Raises:
        PlflError: it does not take them.
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
        raise PlflError(f"the SuperLink at {link.address} does not take the clients' keys: {last}")
    found: dict[str, int] = json.loads(ran.stdout)
    return {node: name for name, node in found.items()}


def start_run(link: Link, home: Path) -> str:
    """Start the server's rounds on a SuperLink; the number of the run.

    Raises:
        PlflError: the SuperLink does not take it.
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
        raise PlflError(f"the SuperLink at {link.address} does not take the run: {answer}")
    return str(answer["run-id"])


def status(run: str, home: Path) -> str:
    """What Flower says of a run, such as `running` or `finished:failed`."""
    runs: Any = _flwr(["list", "plfl", "--format", "json"], home).get("runs", [])
    return next((str(one["status"]) for one in runs if str(one["run-id"]) == run), "unknown")


def push_error() -> type[Exception]:
    """What Flower's grid raises when the SuperLink was lost while it took a message."""
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
    """The module `time`, but with shorter sleeps."""

    def __init__(self) -> None:
        self.woke = time.monotonic()

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        if seconds == LOOK:
            took = time.monotonic() - self.woke
            seconds = min(LOOK, max(LEAST, FACTOR * took))
        elif seconds == REPLY:
            seconds = 0.1
        time.sleep(seconds)
        self.woke = time.monotonic()


class _Starter:
    """The module `subprocess`, of which only how a process is started is used, and changed."""

    def __init__(self, start: Callable[[list[str]], object]):
        self.start = start

    def Popen(self, command: list[str], **options: object) -> object:  # noqa: N802 - its name
        return self.start(command)


Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


def _run_supernode() -> None:
    """A SuperNode that looks for messages twice a second, as long as the server is quick."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    def start_superexec(command: list[str]) -> object:
        return subprocess.Popen([*OURS, "superexec", *command[1:]])

    setattr(start_client_internal, "time", _Clock())  # noqa: B010 - it is not exported
    setattr(start_client_internal, "subprocess", _Starter(start_superexec))  # noqa: B010
    setattr(FleetHttpClient, "ActivateNode", _returning(FleetHttpClient.ActivateNode))  # noqa: B010
    flower_supernode()


def _returning(activate: Callable[..., Any]) -> Callable[..., Any]:
    """A SuperNode that was killed counts as there for a minute: it has to leave to come again."""
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
    """A SuperExec of a SuperNode that has imported what a ClientApp needs, and copies itself.

    A process for every message stays, but it is there in milliseconds instead of a second.
    """
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec.executor import subprocess_executor
    from flwr.supernode.cli import flwr_clientapp

    import plfl.deploy.relay  # noqa: F401 - what the ClientApp will load

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
            # Nothing of the parent's end is the child's.
            os._exit(status)

    setattr(subprocess_executor, "subprocess", _Starter(start_clientapp))  # noqa: B010
    flower_superexec()


def _run_superlink() -> None:
    """A SuperLink of which other machines can use nothing but what asks for a client's key."""
    from flwr.superlink import main
    from flwr.superlink.cli import flower_superlink

    create = main.create_app
    setattr(main, "create_app", lambda *given: guarded(create(*given)))  # noqa: B010
    flower_superlink()


def guarded(app: Asgi) -> Asgi:
    """`app`, with nothing but `FLEET` for other machines than its own."""

    async def guard(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not scope["path"].startswith(FLEET):
            (client, _), (server, _) = scope["client"] or ("", 0), scope["server"] or ("", 0)
            if not (client == server or _is_loopback(client)):
                await send({"type": "http.response.start", "status": 403, "headers": []})
                await send({"type": "http.response.body", "body": b"for this machine alone"})
                return
        await app(scope, receive, send)

    return guard


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _register(address: str, root: str) -> None:
    """Register the public keys that standard input has, by name; print their nodes' numbers."""
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
            raise SystemExit(f"the key of {name} is not of an elliptic curve")
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
