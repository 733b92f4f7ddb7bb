"""The page's federation of two hosts, as written, in two network namespaces; needs root."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from plfl.data import sources, windows
from plfl.deploy.folders import CellFolders
from plfl.deploy.local import compare, replay
from plfl.deploy.protocol import agreement
from plfl.results.tables import Tables
from plfl.study import Study

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
ADDRESSES = ("10.78.0.1", "10.78.0.2")
INSTALLED = 1
"""How many blocks of commands only install plfl, which has been done."""
LIMIT = 1800


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
    """Two hosts with a link between them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.fail("needs root and ip (Debian: iproute2)")
    found = [Host(f"plfl-{os.getpid()}-{n}", tmp_path / str(n)) for n in (1, 2)]
    first, second = (host.namespace for host in found)

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    try:
        for host in found:
            (host.folder / "plfl").mkdir(parents=True)
            ip("netns", "add", host.namespace)
        ends = ["link0", "netns", first, "type", "veth", "peer", "link0", "netns", second]
        ip("link", "add", *ends)
        for host, address in zip(found, ADDRESSES, strict=True):
            ip("-n", host.namespace, "address", "add", f"{address}/24", "dev", "link0")
            for device in ("link0", "lo"):
                ip("-n", host.namespace, "link", "set", device, "up")
        yield found
    finally:
        for host in found:
            listed = ["ip", "netns", "pids", host.namespace]
            for number in subprocess.check_output(listed, text=True).split():
                with suppress(ProcessLookupError):
                    os.kill(int(number), 9)
            ip("netns", "del", host.namespace)


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
    assert "round 3 of 3: 2 of 2 clients took part" in printed, printed

    class TwoHosts(CellFolders):
        def client(self, name):
            host = second if name == "9360002" else first
            return CellFolders(self.study, self.cell, host.folder / "plfl").client(name)

    study = Study.load(first.folder / "plfl" / "two.yaml")
    folders = TwoHosts(study, study.cells[0], first.folder / "plfl")
    data = study.data.model_copy(update={"folder": tmp_path / "data"})
    sources.of(data).fetch(data, "NY")
    dataset = windows.build(sources.of(data).load(data, "NY"), study.windows)
    assert [summary.took_part for summary in folders.history] == [
        agreement.roster(study, folders.cell)
    ] * 3
    assert list(compare(folders, *replay(study, folders.cell, dataset, folders.history))) == []
    assert Tables(folders.results).about["engine"] == "flower"
    assert (first.folder / "plfl" / "mlruns.db").exists()
