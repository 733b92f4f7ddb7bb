"""The files that a public repository needs fit the project."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import plfl
from tests.helpers.repository import tracked

ROOT = Path(__file__).resolve().parents[1]
COMMON = ["keep-going", "rerun-incomplete", "show-failed-logs", "max-checksum-file-size", "quiet"]
"""What does not depend on the place where the workflow runs."""
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files of the repository in a repository of their own."""
    for name in tracked():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name, follow_symlinks=False)
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in tracked() if (folder / name).is_file()}


def fill(folder: Path, repository: str) -> str:
    """What `make address` prints, run in a folder."""
    command = ["make", "--silent", "address", f"REPOSITORY={repository}"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_one_command_fills_the_address_everywhere(copy: Path) -> None:
    before, old = contents(copy), (copy / "release" / "address.txt").read_text().strip()
    account, name = old.split("/")
    new = "/".join(["Some-One", "loads"])  # in one piece, this file would change as well
    filled = fill(copy, new).split()
    after = contents(copy)
    assert set(filled) == {name for name in before if before[name] != after[name]}
    assert "release/address.txt" in filled
    left = rb"%b/%b(?![\w-])|%b.github.io" % (account.encode(), name.encode(), account.encode())
    assert [name for name in after if re.search(left, after[name], re.IGNORECASE)] == []
    project = tomllib.loads(after["pyproject.toml"].decode())["project"]["urls"]
    described, cited = json.loads(after["codemeta.json"]), yaml.safe_load(after["CITATION.cff"])
    repository = f"https://github.com/{new}"
    assert project["Repository"] == described["codeRepository"] == repository
    assert cited["repository-code"] == repository
    site = "https://{}.github.io/{}/".format(*new.lower().split("/"))
    assert project["Documentation"] == described["softwareHelp"] == cited["url"] == site
    assert f"site_url: {site}\n".encode() in after["mkdocs.yml"]
    # A second run finds what the first has written.
    fill(copy, old)
    assert contents(copy) == before


def test_an_address_that_is_none_changes_nothing(copy: Path) -> None:
    before = contents(copy)
    for name in ("", "plfl", "https://github.com/a/b", "a/b/c", "-a/b", "a/.."):
        with pytest.raises(subprocess.CalledProcessError):
            fill(copy, name)
    assert contents(copy) == before


def test_the_version_is_cited() -> None:
    cited, described = read("CITATION.cff"), read("codemeta.json")
    assert cited["version"] == described["version"] == plfl.__version__
    assert str(cited["date-released"]) == described["datePublished"]
    assert plfl.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_targets_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    steps = [step for job in read(str(path))["jobs"].values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    used = [step["uses"] for step in steps if "uses" in step]
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)
    called = {name for step in steps for name in re.findall(r"make ([a-z-]+)", step.get("run", ""))}
    assert called <= targets


def test_checks_before_a_commit_use_the_locked_versions() -> None:
    locked = re.findall(r"^[\w.-]+==\S+", (ROOT / "requirements.lock").read_text("utf-8"), re.M)
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    for hook in repository["hooks"]:
        assert set(hook["additional_dependencies"]) <= set(locked)


@pytest.mark.parametrize("name", ["slurm", "kubernetes"])
def test_what_does_not_depend_on_the_place_is_as_at_home(name: str) -> None:
    home, away = (read(f"profiles/{profile}/profile.yaml") for profile in ("default", name))
    assert {key: away[key] for key in COMMON} == {key: home[key] for key in COMMON}
    assert away["executor"] == name
