"""The guide's federation of two hosts takes ten commands that plfl knows."""

import re

from plfl.cli import main as cli
from tests.helpers.repository import ROOT


def test_the_page_has_ten_commands():
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    section = page.split("## Two hosts in ten commands\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, flags=re.DOTALL)
    commands = re.sub(r"'[^']*'", "''", "".join(blocks)).splitlines()
    assert len(commands) == 10
    for command in commands:
        if command.startswith("plfl "):
            cli._parser().parse_args(command.removesuffix(" &").split()[1:])
