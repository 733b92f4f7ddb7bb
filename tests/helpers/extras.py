"""A Python without the packages of some extras, as on a machine that never installed them."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.helpers.repository import ROOT

HIDE = """
import sys
from importlib.machinery import PathFinder


class Others(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        hidden = fullname.partition(".")[0] in {hidden!r}
        return None if hidden else super().find_spec(fullname, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Others
"""


def run_without(
    packages: Iterable[str], code: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run code in a folder, in a process that finds none of the packages."""
    return subprocess.run(
        [sys.executable, "-c", HIDE.replace("{hidden!r}", repr({*packages})) + code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
