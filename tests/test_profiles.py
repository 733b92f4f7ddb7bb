"""Profiles say where the one workflow runs, in words that Snakemake knows."""

from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
PROFILES = REPOSITORY / "profiles"
COMMON = ["keep-going", "rerun-incomplete", "show-failed-logs", "max-checksum-file-size", "quiet"]


@pytest.mark.parametrize("name", ["slurm", "kubernetes"])
def test_what_does_not_depend_on_the_place_is_as_at_home(name: str) -> None:
    home, away = (
        yaml.safe_load((PROFILES / profile / "profile.yaml").read_text(encoding="utf-8"))
        for profile in ("default", name)
    )
    assert {key: away[key] for key in COMMON} == {key: home[key] for key in COMMON}
    assert away["executor"] == name
