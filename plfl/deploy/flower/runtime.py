"""Flower's commands and the environment of its processes."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plfl.base.errors import PlflError

SERIES = "1.41"
"""The version of Flower that can be used, with any patch level, as in the extra `deploy`."""
PROGRAMS = [sys.executable, "-P", "-m", "plfl.deploy.flower.programs"]
"""Command that runs a program of Flower with changes. With -P, modules are not imported from the
current folder, which is the user's."""
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
TIMEOUT = 300.0
"""Seconds within which a command of Flower has to end."""
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


def require() -> str:
    """The installed version of Flower, if it can be used.

    Raises:
        PlflError: it is not.
    """
    try:
        version = importlib.metadata.version("flwr")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if not version.startswith(f"{SERIES}."):
        instead = f" (found: {version})" if version else ""
        raise PlflError(
            f"Flower (flwr {SERIES}.*) is not installed{instead}; install it with `pip install "
            "'plfl[deploy]'`, or `pip install --editable '.[deploy]'` in a checkout"
        )
    return version


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
    """Command of a SuperLink that listens on a host and port.

    Without `database` it keeps everything in memory. `certificates`: certificate of the CA,
    certificate and private key of the server; None: no encryption, no authentication.
    """
    command = [*PROGRAMS, "superlink"]
    command += ["--host", host, "--port", str(port)]
    # Otherwise it starts a SuperExec in a separate session, which `Processes` cannot end.
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
    """Command of the SuperNode for the worker in `folder`. The SuperNode's own processes use a
    `port` of this machine. `key` is the private key of the client; without it there is no
    authentication."""
    command = [*PROGRAMS, "supernode"]
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


def register(link: Link, home: Path, keys: Mapping[str, Path]) -> dict[int, str]:
    """Register clients, given the files with their public keys, with a SuperLink; return the name
    of each by the id of its node."""
    _configure(link, home)
    nodes = {}
    for name, path in keys.items():
        about = ["supernode", "register", str(path.resolve()), "plfl", "--name", name]
        answer = _flwr([*about, "--format", "json"], home)
        if not answer.get("success"):
            raise PlflError(f"the SuperLink at {link.address} refuses {path}: {answer}")
        nodes[int(answer["node-id"])] = name
    return nodes


def start_run(link: Link, home: Path) -> str:
    """Start a ServerApp on a SuperLink and return the id of the run."""
    app = home / "app"
    app.mkdir(parents=True, exist_ok=True)
    (app / "pyproject.toml").write_text(APP, encoding="utf-8")
    _configure(link, home)
    answer = _flwr(["run", str(app.resolve()), "plfl", "--format", "json"], home)
    if not answer.get("success"):
        raise PlflError(f"the SuperLink at {link.address} refuses the run: {answer}")
    return str(answer["run-id"])


def status(run: str, home: Path) -> str:
    """Flower's status of a run, such as `running` or `finished:failed`."""
    runs: Any = _flwr(["list", "plfl", "--format", "json"], home).get("runs", [])
    return next((str(one["status"]) for one in runs if str(one["run-id"]) == run), "unknown")


def _configure(link: Link, home: Path) -> None:
    """Tell the command `flwr` where the SuperLink is."""
    trust = (
        "insecure = true"
        if link.root_certificates is None
        else f"root-certificates = {json.dumps(str(link.root_certificates.resolve()))}"
    )
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "plfl"\n[superlink.plfl]\naddress = "{link.address}"\n{trust}\n',
        encoding="utf-8",
    )


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
