"""The files of the repository."""

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    """The pieces of code in a language on a page such as `docs/models.md`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def import_program(path: str) -> ModuleType:
    """A Python file of the repository that belongs to no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tracked(*paths: str) -> list[str]:
    """Files that exist below `paths` or, without any, in the repository, new ones included.

    Skips the test in an unpacked archive, which has no list of its files.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths]
    paths_in_git = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    if not paths_in_git:
        pytest.skip("this is not a git checkout")
    return [file for file in paths_in_git if (ROOT / file).exists()]
