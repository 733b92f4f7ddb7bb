"""The files of the repository."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    """The pieces of code in a language on a page such as `docs/models.md`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def tracked(*paths: str) -> list[str]:
    """Files that exist below `paths` or, without any, in the repository, new ones included.

    Skips the test in an unpacked archive, which has no list of its files.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths]
    paths_in_git = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    if not paths_in_git:
        pytest.skip("this is not a git checkout")
    return [file for file in paths_in_git if (ROOT / file).exists()]
