"""The files that a public repository needs fit the project."""

import json
import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import plfl
from tests.helpers.repository import ROOT, import_program, tracked

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
    jobs = read(str(path))["jobs"].values()
    steps = [step for job in jobs for step in job.get("steps", [])]
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


def jobs_of(workflow: str) -> dict[str, Any]:
    jobs: dict[str, Any] = read(f".github/workflows/{workflow}.yml")["jobs"]
    return jobs


def needed(jobs: dict[str, Any], name: str) -> set[str]:
    """All jobs that must have succeeded before a job begins."""
    listed = jobs[name].get("needs", [])
    return set(listed).union(*(needed(jobs, other) for other in listed))


def test_nothing_is_published_before_all_tests_of_a_tag_have_passed() -> None:
    jobs = jobs_of("release")
    assert jobs["tests"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert jobs["tests"]["uses"] == "./.github/workflows/ci.yml"
    publishing = {
        name for name, job in jobs.items() if "write" in str(job.get("permissions", {}).values())
    }
    assert publishing == {"publish", "publish-image", "announce", "site"}
    assert all("tests" in needed(jobs, name) for name in publishing)
    assert {"wheels", "source", "image"} <= needed(jobs, "publish")
    assert "publish" in needed(jobs, "announce")
    assert read(".github/workflows/release.yml")["permissions"] == {"contents": "read"}


def test_what_a_release_downloads_has_been_uploaded() -> None:
    steps = [step for job in jobs_of("release").values() for step in job.get("steps", [])]
    names: dict[str, set[str]] = {"upload": set(), "download": set()}
    for step in steps:
        action = re.match(r"actions/(upload|download)-artifact@", step.get("uses", ""))
        if action:
            names[action[1]].add(step["with"].get("name") or step["with"]["pattern"])
    uploaded = {re.sub(r"\$\{\{.*?\}\}", "linux", name) for name in names["upload"]}
    for wanted in names["download"]:
        assert any(fnmatch(name, wanted) for name in uploaded), wanted


def test_every_python_that_is_promised_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    prefix = "Programming Language :: Python :: 3."
    promised = {c.removeprefix(prefix) for c in project["classifiers"] if c.startswith(prefix)}
    matrix = jobs_of("ci")["test"]["strategy"]["matrix"]
    assert set(matrix["python"]) == {f"3.{minor}" for minor in promised}
    systems = {*matrix["os"], *(other["os"] for other in matrix["include"])}
    assert {"ubuntu-latest", "macos-latest"} <= systems
    assert jobs_of("ci")["windows"]["runs-on"] == "windows-latest"


@pytest.fixture
def notes() -> ModuleType:
    """The program that prints the notes of a release."""
    return import_program("release/notes.py")


RELEASE = {
    "plfl/__init__.py": '__version__ = "1.2.0"\n',
    "CITATION.cff": "version: 1.2.0\ndate-released: 2027-01-31\n",
    "codemeta.json": '{"version": "1.2.0", "datePublished": "2027-01-31"}',
    "docs/workflow.md": 'tag="v1.2.0"\n--tag v1.2.0\n',
    "leaderboard/croissant.json": '"plfl, version 1.2.0",\n',
    "release/recipe.yaml": "context:\n  version: 1.2.0\n",
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- Later.\n\n## 1.2.0 (2027-01-31)\n\n"
    "- New.\n\n## 1.1.0 (2026-12-01)\n\n- Old.\n",
}


def write_files(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def test_the_notes_of_a_release_are_its_section_of_the_changelog(
    notes: ModuleType, tmp_path: Path
) -> None:
    write_files(tmp_path, RELEASE)
    assert notes.notes("v1.2.0", tmp_path) == notes.notes("", tmp_path) == "- New.\n"
    for tag in ("1.2.0", "v1.3.0"):
        with pytest.raises(ValueError, match=re.escape(tag.removeprefix("v"))):
            notes.notes(tag, tmp_path)


@pytest.mark.parametrize("name", [*RELEASE])
def test_a_tag_that_a_file_contradicts_is_not_released(
    notes: ModuleType, tmp_path: Path, name: str
) -> None:
    write_files(tmp_path, RELEASE | {name: RELEASE[name].replace("1.2.0", "1.1.9")})
    with pytest.raises(ValueError, match=re.escape(name)):
        notes.notes("v1.2.0", tmp_path)


def test_the_files_of_this_repository_agree_on_its_version(notes: ModuleType) -> None:
    assert notes.notes() in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_one_command_writes_the_version_of_a_release_into_every_file(
    notes: ModuleType, copy: Path
) -> None:
    unreleased = "- Something that nobody has yet."
    changes = (copy / "CHANGELOG.md").read_text(encoding="utf-8")
    _, heading, _ = changes.partition("## Unreleased\n")
    changes = changes.replace(heading, f"{heading}\n{unreleased}\n")
    (copy / "CHANGELOG.md").write_text(changes, encoding="utf-8")
    before = contents(copy)
    for tag, date in (
        ("0.9.7", "2031-02-03"),
        ("v0.9.7", "today"),
        (f"v{plfl.__version__}", "2031-02-03"),
    ):
        with pytest.raises(ValueError, match=r"tag is v|date is written|has .* already"):
            notes.write_version(tag, date, copy)
    assert contents(copy) == before
    notes.write_version("v0.9.7", "2031-02-03", copy)
    assert notes.notes("", copy).startswith(unreleased)
    assert not re.search(
        r"## Unreleased\n\n- ", (copy / "CHANGELOG.md").read_text(encoding="utf-8")
    )
    # The former version stands only where it is history, a lock or no version of plfl.
    former = re.compile(rf"(?<![\d.]){re.escape(plfl.__version__)}(?![\d.])".encode())
    naming = {name for name, text in contents(copy).items() if former.search(text)}
    naming = {name for name in naming if not name.endswith((".lock", ".txt", ".parquet", ".csv"))}
    assert naming == {"CHANGELOG.md"} | {n for n in naming if n.startswith("tests/")}


def test_tools_of_a_release_are_locked_with_digests() -> None:
    text = (ROOT / "release" / "requirements.txt").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
    assert len(re.findall(r"^[\w.-]+==.*\\\n {4}--hash=sha256:", text, re.MULTILINE)) == len(locked)
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    assert set(groups["release"]) <= locked


PAPER = ROOT / "paper" / "paper.md"


def test_the_draft_of_the_paper_states_the_numbers_of_the_readme() -> None:
    readme, paper = (
        " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for name in ("README.md", "paper/paper.md")
    )
    found = re.search(r"with 1 week by (\d\S+ to \S+\d).*?later (\d\S+ to \S+\d)\b", readme)
    assert found
    week, later = found.groups()
    assert f"by {week} (MASE) with one week of readings and by {later} later" in paper
    table = re.findall(r"^\| (\d+) \|(.*)\|$", (ROOT / "README.md").read_text("utf-8"), re.M)
    gains: dict[str, list[float]] = {}
    for weeks, cells in table:
        errors = [float(text.strip(" *")) for text in cells.split("|")]
        for own, federation in zip(errors[::3], errors[2::3], strict=True):
            gains.setdefault("week" if weeks == "1" else "later", []).append(own - federation)
    ranges = {key: f"{min(several):.2f} to {max(several):.2f}" for key, several in gains.items()}
    assert ranges == {"week": week, "later": later}


def test_the_draft_of_the_paper_has_what_its_journal_asks_for() -> None:
    # joss.readthedocs.io/en/latest/paper.html: sections, 750 to 1750 words, references that exist.
    _, about, text = PAPER.read_text(encoding="utf-8").split("---\n", 2)
    assert re.findall(r"^# (.*)", text, re.MULTILINE) == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "AI usage disclosure",
        "Acknowledgements",
        "References",
    ]
    assert 750 <= len(text.split()) <= 1750
    head = yaml.safe_load(about)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= head.keys()
    bibliography = (PAPER.parent / head["bibliography"]).read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE)
    cited = re.findall(r"@(\w+)", text)
    assert set(cited) == set(entries)
    assert len(entries) == len(set(entries))


def test_nobody_is_invented() -> None:
    names = {author["name"] for author in read("CITATION.cff")["authors"]}
    names |= {
        author["name"] for author in json.loads((ROOT / "codemeta.json").read_text())["author"]
    }
    head = yaml.safe_load(PAPER.read_text(encoding="utf-8").split("---\n", 2)[1])
    assert {author["name"] for author in head["authors"]} == names


def test_a_container_for_developers_has_what_the_project_promises() -> None:
    about = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    (python,) = re.findall(r":(3\.\d+)", about["image"])
    assert python in jobs_of("ci")["test"]["strategy"]["matrix"]["python"]
    target = about["postCreateCommand"].removeprefix("make ")
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
