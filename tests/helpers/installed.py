"""The wheel of the sdist, installed beside nothing but its dependencies."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from tests.helpers.repository import ROOT, tracked


class Installed:
    """A virtual environment with the wheel, and a folder outside the clone to work in."""

    def __init__(self, folder: Path, compiler: str | None = None):
        source, self.bin, self.work = folder / "source", folder / "venv" / "bin", folder / "work"
        self.work.mkdir()
        for file in tracked():
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, source / file)
        build = [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(folder)]
        subprocess.run(build, cwd=source, check=True, capture_output=True)
        (archive,) = folder.glob("plfl-*.tar.gz")
        venv.create(folder / "venv")
        # The dependencies of the tests' own environment, without its editable plfl.
        (self.packages / "dependencies.pth").write_text("\n".join(filter(is_packages, sys.path)))
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        pip += ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", str(archive)]
        environment = os.environ | ({"CXX": compiler} if compiler else {})
        process = subprocess.run(pip, capture_output=True, text=True, check=False, env=environment)
        assert process.returncode == 0, process.stderr

    @property
    def packages(self) -> Path:
        (folder,) = self.bin.parent.glob("lib/python*/site-packages")
        return folder

    def plfl(self, *arguments: str) -> str:
        """What the installed command prints; it must succeed."""
        process = subprocess.run(
            [self.bin / "plfl", *arguments],
            cwd=self.work,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stdout
        return process.stdout


def write_study_with_plugin(folder: Path) -> None:
    """The study `own.yaml` and its plug-in `mine.py`: a server optimiser."""
    folder.mkdir()
    smoke = (ROOT / "config" / "smoke.yaml").read_text(encoding="utf-8")
    text = smoke.replace("name: smoke", "name: own\nplugins: [mine.py]")
    (folder / "own.yaml").write_text(text.replace("fedadam", "half"), encoding="utf-8")
    (folder / "mine.py").write_text(PLUGIN, encoding="utf-8")


PLUGIN = '''
"""Half: the server takes half of the clients' step."""

from plfl.optimizers.server.fedavg import FedAvg


class Half(FedAvg):
    """FedAvg with half a step."""

    name = "half"
    label = "Half"

    def step(self, state, mean):
        super().step(state, mean / 2)
'''


def is_packages(path: str) -> bool:
    return path.endswith(("site-packages", "dist-packages"))
