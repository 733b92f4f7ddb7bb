"""The wheel of the sdist, installed beside nothing but its dependencies, is the whole product."""

import os
import platform
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from plfl.training.native import flags
from tests.helpers.repository import tracked

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = (
    "Snakefile",
    "config",
    "config.yaml",
    "docs",
    "leaderboard",
    "profiles",
    "tasks",
    "workflow",
)


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
        done = subprocess.run(pip, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr

    @property
    def packages(self) -> Path:
        (found,) = self.bin.parent.glob("lib/python*/site-packages")
        return found

    def plfl(self, *arguments: str) -> str:
        """What the installed command prints; it must succeed."""
        done = subprocess.run(
            [self.bin / "plfl", *arguments],
            cwd=self.work,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    compiler = folder / "compiler"  # takes no time; the campaign `wheel` uses a true one
    compiler.write_text('#!/bin/sh\nfor last; do :; done; echo "$@" > "$last"\n')
    compiler.chmod(0o755)
    return Installed(folder, str(compiler))


def test_it_has_every_file_that_the_product_needs(installed: Installed) -> None:
    package = installed.packages / "plfl"
    shipped = [file for file in tracked(*SHIPPED) if not file.startswith(("docs/images/",))]
    shipped = [file for file in shipped if not re.match(r"docs/.*\.py", file)]
    wanted = {package / "shipped" / file for file in shipped}
    own = tracked("plfl", "plfl_images", "plfl_reproductions")
    wanted |= {package.parent / file for file in own}
    assert {path for path in wanted if not path.is_file()} == set()
    (points,) = installed.packages.glob("plfl-*.dist-info/entry_points.txt")
    assert "images-data = plfl_images.data\n" in points.read_text()


def test_it_has_the_kernel_for_every_instruction_set(installed: Installed) -> None:
    folder = installed.packages / "plfl" / "training" / "native"
    names = flags.INSTRUCTIONS if platform.machine() == "x86_64" else ["plain"]
    # A compiler of the machine is not used where the wheel has brought a build of this source.
    builds = {folder / f"{flags.stem(name)}.so": flags.INSTRUCTIONS[name] for name in names}
    assert set(folder.glob("*.so")) == builds.keys()
    for build, options in builds.items():
        assert {*flags.FLAGS, *options} < set(build.read_text().split())
    (about,) = installed.packages.glob("plfl-*.dist-info/WHEEL")
    assert re.search(r"^Tag: py3-none-(?!any)", about.read_text(), re.MULTILINE)


def test_a_study_with_a_plugin_can_run_in_an_empty_folder(installed: Installed) -> None:
    (installed.work / "click.py").write_text("raise SystemExit('a file of the user was imported')")
    listed = installed.plfl("init")
    for file in (ROOT / "config").glob("*.yaml"):
        assert f"\n{file.stem} " in f"\n{listed}"
    write_study_with_plugin(installed.work / "mine")
    planned = installed.plfl(
        "study", "mine/own.yaml", "--", "figures/own/fig3_mase_local.svg", "--dry-run"
    )
    assert re.search(r"^train +1$", planned, re.MULTILINE)
    left = {path.name for path in installed.work.iterdir()}
    assert left == {"click.py", "mine", ".snakemake"}
