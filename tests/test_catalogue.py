"""What the catalogue of Snakemake workflows asks for, and the rules as a module of another one.

The checks of the catalogue are those of its generator, `scripts/generate-catalog.py` in
github.com/snakemake/snakemake-workflow-catalog, and of its page on adding workflows.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import plfl
from plfl.base import shipped
from tests.helpers.projects import run_snakemake, write_meters
from tests.helpers.repository import ROOT, blocks, tracked

pytest.importorskip("snakemake", reason="the extra study")

HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name={package!r})

sys.meta_path.insert(0, Hidden())
from snakemake.cli import main
main()
"""
"""Snakemake where a package is not installed."""


TAG = f"v{plfl.__version__}"
"""The tag of this version."""


def snakemake_without(folder: Path, package: str, *arguments: str) -> tuple[int, str]:
    """The exit status of Snakemake where a package is not installed, and what it prints."""
    command = [sys.executable, "-P", "-c", HIDDEN.format(package=package), *arguments]
    process = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout


def test_the_catalogue_finds_the_workflow() -> None:
    words = (ROOT / "README.md").read_text(encoding="utf-8").lower()
    assert "snakemake" in words
    assert "workflow" in words
    assert {"workflow/Snakefile", "config/README.md", ".snakemake-workflow-catalog.yml"} <= {
        *tracked()
    }
    rules = (ROOT / "workflow" / "rules").iterdir()
    assert {path.suffix for path in rules if path.is_file()} == {".smk"}


def test_its_settings_are_those_that_the_generator_reads() -> None:
    text = (ROOT / ".snakemake-workflow-catalog.yml").read_text(encoding="utf-8")
    usage = yaml.safe_load(text)["usage"]
    assert usage.keys() == {"mandatory-flags", "software-stack-deployment", "report"}
    assert usage["mandatory-flags"].keys() == {"desc", "flags"}
    methods = usage["software-stack-deployment"]
    assert methods.keys() == {"conda", "apptainer", "apptainer+conda"}
    # No rule names an environment, so nothing would be deployed.
    assert not any(methods.values())
    rules = [path.read_text("utf-8") for path in (ROOT / "workflow" / "rules").glob("*.smk")]
    assert not any("conda:" in text or "container:" in text for text in rules)


def copy(folder: Path, *names: str) -> None:
    """Copy files of the repository into a folder."""
    for name in tracked(*names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What Snakemake reads of a clone."""
    copy(tmp_path, "Snakefile", "workflow", "config.yaml", "profiles")
    return tmp_path


@pytest.mark.parametrize("package", ["plfl", "filelock"])
def test_lint_says_what_is_not_installed(clone: Path, package: str) -> None:
    status, said = snakemake_without(clone, package, "--lint")
    assert status == 1
    assert "Traceback" not in said
    assert f"need the package '{package}'" in said
    assert "pip install 'plfl[study]'" in said


def test_the_workflow_and_that_of_a_clone_are_the_same(clone: Path) -> None:
    options = ["--dry-run", "--configfile", str(ROOT / "config" / "smoke.yaml")]
    plans = []
    for snakefile in ("Snakefile", "workflow/Snakefile"):
        status, said = run_snakemake(clone, "--snakefile", snakefile, *options)
        assert status == 0, said
        plans.append(dict(re.findall(r"^([a-z_]+) +(\d+)$", said, re.MULTILINE)))
    assert plans[0] == plans[1]
    assert {"all": "1", "train": "1", "page": "1"}.items() <= plans[0].items()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A workflow that continues from a study, as docs/workflow.md has it."""
    (snakefile,) = blocks("docs/workflow.md", "python")
    (tmp_path / "Snakefile").write_text(snakefile, encoding="utf-8")
    write_meters(tmp_path / "meters" / "North")
    study: dict[str, Any] = {
        "name": "mine",
        "data": {"source": "meters", "states": ["North"], "clients": 3},
        "model": {"name": "mlp", "hidden": [3]},
        "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P1", "P3"]},
        "federation": {"rounds": 1, "local_steps": 2},
        "baselines": {"trees": 5},
    }
    (tmp_path / "config.yaml").write_text(json.dumps({"study": study}))
    return tmp_path


def test_another_workflow_uses_the_rules(own: Path) -> None:
    status, said = run_snakemake(own, "--cores", "1")
    assert status == 0, said
    summary = (own / "results" / "mine" / "summary.csv").read_text(encoding="utf-8")
    best = (own / "best.csv").read_text(encoding="utf-8").splitlines()
    assert len(best) == 2
    assert set(best) < set(summary.splitlines())
    assert not (own / "figures").exists(), "nobody asked for them"


def test_the_rules_come_from_github_as_the_guide_says(
    own: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    git = ["git", "-c", "user.name=tests", "-c", "user.email=tests@example.org"]
    published = tmp_path_factory.mktemp("published")
    copy(published, "workflow")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], ["tag", TAG]):
        subprocess.run([*git, *command], cwd=published, check=True)
    (line,) = blocks("docs/workflow.md", "text")
    assert f'tag="{TAG}"' in line
    text = (own / "Snakefile").read_text(encoding="utf-8")
    source = line.strip().removeprefix("snakefile: ")
    (own / "Snakefile").write_text(text.replace("plfl.snakefile()", source), encoding="utf-8")
    # Git reads this address from the folder.
    (repository,) = re.findall(r'github\("([^"]+)"', line)
    redirection = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{published.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": f"https://github.com/{repository}",
        "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")),
    }
    status, said = run_snakemake(own, "--dry-run", **redirection)
    assert status == 0, said
    assert re.search(r"^loads_train +1$", said, re.MULTILINE), said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('config["study"]', "{}", "config:"),
        ('config["study"]', 'config["study"] | {"rouds": 1}', "rouds"),
        ('config["study"]', 'config["study"]\n    prefix: "elsewhere"', "leave it out"),
    ],
)
def test_a_module_that_cannot_be_used_says_why(own: Path, old: str, new: str, message: str) -> None:
    text = (own / "Snakefile").read_text(encoding="utf-8")
    assert old in text
    (own / "Snakefile").write_text(text.replace(old, new), encoding="utf-8")
    status, said = run_snakemake(own, "--dry-run")
    assert status == 1
    assert message in said
    assert "Traceback" not in said


def test_the_rules_that_are_installed_are_those_of_the_package() -> None:
    assert Path(plfl.snakefile()) == shipped.root() / "workflow" / "Snakefile"
    assert Path(plfl.snakefile()).is_file()
