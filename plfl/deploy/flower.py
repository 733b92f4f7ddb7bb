"""All that depends on Flower's private parts, its commands and its process environment.

Written for flwr 1.41.0, to which the extra `plfl[deploy]` pins it. Private are the module whose
sleeps are shortened below, and what is said here about the order in which processes end.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plfl.errors import PlflError

VERSION = "1.41.0"
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
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    "NO_COLOR": "1",
}
SLEEPS = {3: 0.1, 0.5: 0.05}
"""What a SuperNode's fixed pauses, in seconds, are replaced by."""
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
    command = [_program("flower-superlink"), "--host", host, "--port", str(port)]
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
    command = [sys.executable, "-m", "plfl.deploy.flower", "--superlink", link.address]
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


def _flwr(arguments: list[str], home: Path) -> dict[str, Any]:
    command = [_program("flwr"), *arguments]
    ran = subprocess.run(
        command, capture_output=True, text=True, env=environment(home), timeout=120, check=False
    )
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        raise PlflError(f"`{' '.join(command)}` failed: {ran.stdout}{ran.stderr}") from None
    return answer if isinstance(answer, dict) else {}


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


class _Clock:
    """The module `time`, but with short sleeps."""

    def __getattr__(self, name: str) -> object:
        import time

        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        import time

        time.sleep(SLEEPS.get(seconds, seconds))


def _run_supernode() -> None:
    """A SuperNode that looks for messages ten times a second instead of every three seconds."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    setattr(start_client_internal, "time", _Clock())  # noqa: B010 - it is not exported
    sys.argv[0] = "flower-supernode"
    flower_supernode()


if __name__ == "__main__":
    _run_supernode()
