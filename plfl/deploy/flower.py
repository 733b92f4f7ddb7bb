"""Flower's commands and the environment of its processes.

Only documented commands, options and classes of Flower are used, here and in the two apps; only
`plfl.deploy.relay` knows a module of Flower.
"""

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

from plfl.base import extras
from plfl.base.errors import PlflError

FOLDER_VARIABLE = "PLFL_SERVER_FOLDER"
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
serverapp = "plfl.deploy.server_app:app"
clientapp = "plfl.deploy.client_app:app"

[tool.flwr.app.config]
"""
SWITCHES = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
    "NO_COLOR": "1",
}
"""Environment variables of Flower's processes. A SuperExec asks for work at an interval of half a
second: each question costs processor time, also while a deployment waits."""
VERSION_PROGRAM = """\
import json, sys
from importlib.metadata import distribution

(entry,) = distribution("flwr").entry_points.select(name="flwr")
run = entry.load()
for words in json.load(sys.stdin):
    sys.argv = ["flwr", *words]
    try:
        run()
    except SystemExit:
        print(end="\\x1e", flush=True)
"""
"""Program that runs commands of `flwr`: to import it takes longer than they do."""
START_TIMEOUT = 300.0
"""Seconds within which a command of Flower has to end."""
REFUSAL_PATTERN = re.compile(r"\[code: (2001|2004)\]|CERTIFICATE_VERIFY_FAILED")
"""Output of a SuperNode that the server refuses, or that refuses the server."""
MOST_AHEAD, MOST_BEHIND = 5, -305
"""Seconds by which the clock of a SuperNode may be ahead of that of the SuperLink, or behind."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True)
class Link:
    """The address of a SuperLink, and how to connect to it."""

    address: str
    """Host and port."""
    trusted_certificate: Path | None = None
    """The certificate of the server; None: no encryption, within this machine."""


def require_flower() -> str:
    """The installed version of Flower.

    Raises:
        PlflError: it, or another package of deployments, is not installed.
    """
    extras.require("deploy", "a deployment")
    return importlib.metadata.version("flwr")


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Environment of a Flower process: no proxies, telemetry, update checks or installations."""
    inherited = {k: v for k, v in os.environ.items() if k.lower() not in PROXIES}
    # Flower starts its child processes by name, without a path.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return inherited | SWITCHES | {"PATH": path, "FLWR_HOME": str(home.resolve())} | variables


def superlink(link: Link, secret: Path, key: Path) -> list[str]:
    """Command of a SuperLink that listens at the address of `link`.

    `secret`: file that gives a SuperExec the right to start ServerApps. `key`: the private key of
    the certificate of `link`.
    """
    assert link.trusted_certificate is not None
    command = [
        _program("flower-superlink"),
        *_address_options(link.address),
        *_isolation_options(secret),
    ]
    certificate = str(link.trusted_certificate.resolve())
    command += ["--ssl-ca-certfile", certificate, "--ssl-certfile", certificate]
    return [*command, "--ssl-keyfile", str(key.resolve()), "--enable-supernode-auth"]


def superexec(link: Link, secret: Path) -> list[str]:
    """Command of the SuperExec, which starts the apps, for a SuperLink or SuperNode of this
    machine."""
    command = [_program("flower-superexec"), "--runtime-api-address", link.address]
    return [
        *command,
        "--superexec-auth-secret-file",
        str(secret.resolve()),
        *_certificate_options(link),
    ]


def supernode(
    link: Link, local: Link, secret: Path, folder: Path, key: Path | None = None
) -> list[str]:
    """Command of the SuperNode for the worker in `folder`.

    Its own apps reach it at the address `local`; `secret` gives a SuperExec the right to start
    them. `key` is the private key of the client; without it, the server refuses the SuperNode.
    """
    command = [
        _program("flower-supernode"),
        "--superlink",
        link.address,
        *_certificate_options(link),
    ]
    command += [*_address_options(local.address), *_isolation_options(secret)]
    command += ["--node-config", f"folder={json.dumps(str(folder.resolve()))}"]
    if key is not None:
        command += ["--auth-supernode-private-key", str(key.resolve())]
    return command


def _address_options(address: str) -> list[str]:
    host, _, port = address.rpartition(":")
    return ["--host", host.strip("[]"), "--port", port]


def _isolation_options(secret: Path) -> list[str]:
    # Otherwise it starts a SuperExec of its own, without a secret and perhaps in another session,
    # which `Processes` could not end.
    return ["--isolation", "process", "--superexec-auth-secret-file", str(secret.resolve())]


def _certificate_options(link: Link) -> list[str]:
    if link.trusted_certificate is None:
        return ["--insecure"]
    return ["--root-certificates", str(link.trusted_certificate.resolve())]


def register(link: Link, home: Path, keys: Mapping[str, Path]) -> dict[str, int]:
    """Register clients, given the files with their public keys, with a SuperLink; return the id of
    each client's node."""
    _configure(link, home)
    options = {name: [str(path.resolve()), "plfl", "--name", name] for name, path in keys.items()}
    commands = [["supernode", "register", *words] for words in options.values()]
    nodes = {}
    for (name, path), answer in zip(keys.items(), _flwr(commands, home), strict=True):
        if not answer.get("success"):
            raise PlflError(f"the SuperLink at {link.address} refuses {path}: {answer}")
        nodes[name] = int(answer["node-id"])
    return nodes


def start_run(link: Link, home: Path) -> str:
    """Start a ServerApp on a SuperLink and return the id of the run."""
    app = home / "app"
    app.mkdir(parents=True, exist_ok=True)
    (app / "pyproject.toml").write_text(APP, encoding="utf-8")
    _configure(link, home)
    (answer,) = _flwr([["run", str(app.resolve()), "plfl"]], home)
    if not answer.get("success"):
        raise PlflError(f"the SuperLink at {link.address} refuses the run: {answer}")
    return str(answer["run-id"])


def status(run: str, home: Path) -> str:
    """Flower's status of a run, such as `running` or `finished:failed`."""
    (answer,) = _flwr([["list", "plfl"]], home)
    runs: Any = answer.get("runs", [])
    return next((str(entry["status"]) for entry in runs if str(entry["run-id"]) == run), "unknown")


def _configure(link: Link, home: Path) -> None:
    """Tell the command `flwr` where the SuperLink is."""
    assert link.trusted_certificate is not None
    certificate = json.dumps(str(link.trusted_certificate.resolve()))
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "plfl"\n[superlink.plfl]\naddress = "{link.address}"\n'
        f"root-certificates = {certificate}\n",
        encoding="utf-8",
    )


def _flwr(commands: list[list[str]], home: Path) -> list[dict[str, Any]]:
    """The answers to commands of `flwr`."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", VERSION_PROGRAM],
        input=json.dumps([[*words, "--format", "json"] for words in commands]),
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=START_TIMEOUT,
        check=False,
    )
    texts = [*ran.stdout.split("\x1e"), *[""] * len(commands)]  # after an error, some are missing
    answers = []
    for words, text in zip(commands, texts, strict=False):
        try:
            answer = json.loads(text)
        except ValueError:
            command = " ".join(["flwr", *words])
            raise PlflError(f"`{command}` failed: {text}{ran.stderr}") from None
        answers.append(answer if isinstance(answer, dict) else {})
    return answers


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))
