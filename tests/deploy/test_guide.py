"""The guide's federation of two hosts takes ten commands that plfl knows."""

import re

from plfl.cli import main as cli
from tests.campaigns.test_deploy_hosts import blocks


def test_the_page_has_ten_commands():
    commands = re.sub(r"'[^']*'", "''", "".join(blocks())).splitlines()
    assert len(commands) == 10
    for command in commands:
        if command.startswith("plfl "):
            cli._parser().parse_args(command.removesuffix(" &").split()[1:])
