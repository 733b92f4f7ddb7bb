"""The files that a public repository needs fit the project."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import plfl

ROOT = Path(__file__).resolve().parents[1]
COMMON = ["keep-going", "rerun-incomplete", "show-failed-logs", "max-checksum-file-size", "quiet"]
"""What does not depend on the place where the workflow runs."""
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


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
