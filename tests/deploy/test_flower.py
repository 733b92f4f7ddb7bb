"""The real thing, small: SuperLink, SuperNodes, workers and relays as processes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from plfl import cli
from plfl.deploy import flower
from plfl.errors import PlflError


def left_over(mark: str) -> list[str]:
    """Command lines of processes that have `mark` in them."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in command:
            commands.append(command)
    return commands


def test_two_clients_one_round():
    pytest.importorskip("flwr")
    command = [sys.executable, "-m", "plfl", "deploy", "check", "--clients", "2", "--rounds", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    first, took_part, _, last = ran.stdout.splitlines()
    assert took_part.startswith("round 1 of 1: 2 of 2 took part")
    assert last == "equal bits"
    folder = re.search(r"logs in (\S+?)/results/", first)
    assert folder is not None
    assert not Path(folder[1]).exists()
    assert not left_over(folder[1])


def test_relays_need_no_torch():
    pytest.importorskip("flwr")
    code = "import sys, plfl.deploy.relay; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_flower_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(flower, "VERSION", "0.0.1")
    with pytest.raises(PlflError, match=r"pip install 'plfl\[deploy\]'"):
        flower.require()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["server"], "TLS"),
        (["server", "--insecure", "--host", "0.0.0.0"], "this machine alone"),
        (["client", "--insecure", "--building", "1", "--server", "10.0.0.1:80"], "machine alone"),
        (["client", "--insecure", "--building", "1", "--server", "host:80"], "machine alone"),
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
