"""Puts the workflow, the ready-made studies, the guides and the compiled kernel into the wheel, and
README.md, with links that lead somewhere from PyPI, into its metadata.

pyproject.toml has the rest.
"""

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

SHIPPED = (
    *("Snakefile", "config.yaml", "config/*"),
    *("docs/*.md", "docs/*.csv", "docs/*.ipynb", "leaderboard/*"),
    *("leaderboard/predictions/*", "leaderboard/predictions/*/*"),
    *("profiles/*", "profiles/*/*", "tasks/*", "workflow/*", "workflow/*/*"),
)
"""Files that `plfl/base/shipped.py` looks for in `plfl/shipped/`."""
NATIVE = Path("plfl", "training", "native")


def description() -> str:
    """README.md as the page on PyPI. Its links and pictures lead to GitHub, to the tag of this
    version."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = project["urls"]["Repository"]
    (version,) = re.findall(r'^__version__ = "(.*)"$', _text("plfl/__init__.py"), re.MULTILINE)
    files = repository.replace("github.com", "raw.githubusercontent.com") + f"/v{version}/"
    pages = f"{repository}/blob/v{version}/"
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\g<1>{files}", _text("README.md"))
    return re.sub(r"(\]\()(?!https?:|#)", rf"\g<1>{pages}", text)


def _text(name: str) -> str:
    return Path(name).read_text(encoding="utf-8")


def compiler() -> list[str]:
    """The command of the C++ compiler, as `plfl.training.native.compile` finds it; empty: none."""
    commands = map(shlex.split, [os.environ.get("CXX", ""), "c++", "g++", "clang++"])
    return next((one for one in commands if one and shutil.which(one[0])), [])


class Build(build_py):
    """Adds what an editable installation finds in the clone."""

    def run(self) -> None:
        """Build as usual, then add."""
        super().run()
        if not self.editable_mode:
            self._ship()
            self._compile()

    def _ship(self) -> None:
        for file in sorted(file for pattern in SHIPPED for file in Path().glob(pattern)):
            if file.is_file():
                target = Path(self.build_lib, "plfl", "shipped", file)
                self.mkpath(str(target.parent))
                self.copy_file(str(file), str(target))

    def _compile(self) -> None:
        """The kernels for every instruction set; where one fails, first use compiles instead."""
        spec = importlib.util.spec_from_file_location("flags", NATIVE / "flags.py")
        assert spec is not None and spec.loader is not None
        flags = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(flags)
        is_x86 = platform.machine().lower() in ("x86_64", "amd64")
        for source, name in flags.BUILDS:
            if name != "plain" and not is_x86:
                continue
            target = Path(self.build_lib, NATIVE, f"{flags.stem(name, source)}.so")
            options = [*flags.FLAGS, *flags.INSTRUCTIONS[name]]
            command = [*compiler(), *options, str(NATIVE / source), "-o", str(target)]
            if not compiler() or subprocess.run(command, check=False).returncode:
                print(f"the wheel has no {source} for {name}; first use compiles it")


class Platform(Distribution):
    """A wheel with a kernel is for one kind of machine."""

    def has_ext_modules(self) -> bool:
        """Whether it has one."""
        return bool(compiler())


class Wheel(bdist_wheel):
    """The kernel is loaded with ctypes, so a wheel is for every version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Its tag: Python, interface, platform."""
        return ("py3", "none", super().get_tag()[2])


setup(
    cmdclass={"build_py": Build, "bdist_wheel": Wheel},
    distclass=Platform,
    long_description=description(),
    long_description_content_type="text/markdown",
)
