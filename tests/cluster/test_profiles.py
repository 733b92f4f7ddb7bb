"""Profiles say where the one workflow runs, in words that Snakemake knows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PROFILES = REPOSITORY / "workflow" / "profiles"
COMMON = ["keep-going", "rerun-incomplete", "show-failed-logs", "max-checksum-file-size", "quiet"]


@pytest.mark.parametrize("name", ["slurm", "kubernetes"])
def test_what_does_not_depend_on_the_place_is_as_at_home(name: str) -> None:
    home, away = (
        yaml.safe_load((PROFILES / profile / "profile.yaml").read_text(encoding="utf-8"))
        for profile in ("default", name)
    )
    assert {key: away[key] for key in COMMON} == {key: home[key] for key in COMMON}
    assert away["executor"] == name


def test_snakemake_understands_the_slurm_profile(tmp_path: Path) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm")
    command = [
        *(sys.executable, "-m", "snakemake", "--dry-run", "--nocolor"),
        *("--directory", str(tmp_path), "--snakefile", str(REPOSITORY / "Snakefile")),
        *("--configfile", str(REPOSITORY / "config" / "smoke.yaml")),
        *("--workflow-profile", str(PROFILES / "slurm")),
    ]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "train federations" in run.stdout
