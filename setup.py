"""Puts the workflow, the ready studies and the guides into the wheel; see pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = (
    *("Snakefile", "config.yaml", "environment.yml", "config/*", "docs/*.md"),
    *("profiles/*", "profiles/*/*", "workflow/*/*"),
)
"""Files that `plfl/pipeline/shipped.py` looks for in `plfl/shipped/`."""


class Build(build_py):
    """Copies what is shipped beside the modules, where an editable installation has the clone."""

    def run(self) -> None:
        """Build as usual, then copy."""
        super().run()
        if self.editable_mode:
            return
        for file in sorted(file for pattern in SHIPPED for file in Path().glob(pattern)):
            if file.is_file():
                target = Path(self.build_lib, "plfl", "shipped", file)
                self.mkpath(str(target.parent))
                self.copy_file(str(file), str(target))


setup(cmdclass={"build_py": Build})
