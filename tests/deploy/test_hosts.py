"""The page's federation of two hosts, as written, in two network namespaces."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from plfl import cli
from plfl.data import source, windows
from plfl.deploy import agreement
from plfl.deploy.check import compare
from plfl.deploy.launch import Place
from plfl.deploy.processes import Processes
from plfl.deploy.replay import replay
from plfl.results.tables import Tables
from plfl.study import Study
from tests.deploy.link import ADDRESSES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
INSTALLED = 1
"""How many blocks of commands only install plfl, which has been done."""
LIMIT = 1800

apart = pytest.mark.skipif(
    "PLFL_HOSTS" not in os.environ or os.geteuid() != 0 or shutil.which("ip") is None,
    reason="needs root, /dev/net/tun and ip (Debian: iproute2): make deploy-hosts",
)


def blocks() -> list[str]:
    """The page's commands, block by block."""
    section = PAGE.read_text(encoding="utf-8").split("## Two hosts in ten commands\n")[1]
    return re.findall(r"```\n(.*?)```", section.split("\n## ")[0], flags=re.DOTALL)


@dataclass(frozen=True)
class Host:
    """A network namespace, and a folder for its disk."""

    namespace: str
    folder: Path

    def run(self, commands: str, path: str) -> str:
        """What `commands` print; what they leave in the background goes on."""
        (self.folder / "printed").touch()
        with (self.folder / "printed").open("r+") as printed:
            subprocess.run(
                ["ip", "netns", "exec", self.namespace, "bash", "-ec", commands],
                cwd=self.folder / "plfl",
                env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
                stdout=printed,
                stderr=subprocess.STDOUT,
                timeout=LIMIT,
                check=False,
            )
        return (self.folder / "printed").read_text()


@pytest.fixture
def hosts(tmp_path):
    """Two hosts with a bad link between them."""
    pytest.importorskip("flwr")
    found = [Host(f"plfl-{os.getpid()}-{n}", tmp_path / str(n)) for n in (1, 2)]
    for host in found:
        (host.folder / "plfl").mkdir(parents=True)
        subprocess.run(["ip", "netns", "add", host.namespace], check=True)
    with Processes(tmp_path) as processes:
        command = [sys.executable, "-m", "tests.deploy.link", *(h.namespace for h in found)]
        processes.start("link", command)
        try:
            yield found
        finally:
            for host in found:
                listed = ["ip", "netns", "pids", host.namespace]
                for number in subprocess.check_output(listed, text=True).split():
                    with suppress(ProcessLookupError):
                        os.kill(int(number), 9)
                subprocess.run(["ip", "netns", "del", host.namespace], check=True)


def test_the_page_has_ten_commands():
    commands = re.sub(r"'[^']*'", "''", "".join(blocks())).splitlines()
    assert len(commands) == 10
    for command in commands:
        if command.startswith("plfl "):
            cli._parser().parse_args(command.removesuffix(" &").split()[1:])


@apart
def test_two_hosts_as_the_page_says(hosts, tmp_path):
    first, second = hosts
    scp = tmp_path / "bin" / "scp"
    scp.parent.mkdir()
    scp.write_text(f'#!/bin/sh\nexec cp -r "$2" "$3" "{second.folder}/${{4#{ADDRESSES[1]}:}}"\n')
    scp.chmod(0o755)
    path = os.pathsep.join([str(scp.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    first_part, at_second, second_part = blocks()[INSTALLED:]
    first.run(first_part, path)
    second.run(at_second, path)
    printed = first.run(second_part, path)
    assert "round 3 of 3: 2 of 2 took part" in printed, printed

    class There(Place):
        def client(self, name):
            host = second if name == "9360002" else first
            return Place(self.study, self.cell, host.folder / "plfl").client(name)

    study = Study.load(first.folder / "plfl" / "two.yaml")
    place = There(study, study.cells[0], first.folder / "plfl")
    data = study.data.model_copy(update={"folder": tmp_path / "data"})
    source.fetch(data, "NY")
    dataset = windows.build(source.load(data, "NY"), study.windows)
    assert [taken.took_part for taken in place.history] == [agreement.roster(study, place.cell)] * 3
    assert list(compare(place, *replay(study, place.cell, dataset, place.history))) == []
    assert Tables(place.results).about["engine"] == "flower"
    assert (place.results / "mlflow.db").exists()
