"""The study of a deployment reads its files like the study of the user."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plfl.base.errors import PlflError
from plfl.config.meters import Meters
from plfl.data.sources import source_of
from plfl.deploy import flower, server_host
from plfl.deploy.folders import RUN_SETTINGS, CellFolders
from plfl.deploy.protocol.rounds import RoundPolicy
from plfl.study import Study
from tests.helpers.repository import ROOT

SAMPLE = ROOT / "plfl/data/meters/formats/nem12.sample.csv"
STUDY = f"""
name: mine
data:
  source: meters
  states: [all]
  clients: 1
  features: [load]
  meters: {{exports: ["{SAMPLE}"], format: nem12, timezone: Australia/Sydney, interval: 30}}
windows: {{look_back: 1, look_ahead: 1, scaling: per_client}}
grid: {{client_opt: [adam], server_opt: [fedavg], seeds: [1], sharing: [P1]}}
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(STUDY)
    return Study.load("mine.yaml")


def keys_of(study: Study) -> Meters:
    """The keys of the meters; they name the clients of the study."""
    assert len(source_of(study.data).clients(study.data, "all")) == 1
    return study.data.meters


def test_another_number_of_rounds_changes_nothing_else(
    mine: Study, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed: list[Study] = []

    def federate(config: Path, folders: CellFolders, *further: Any) -> None:
        deployed.append(folders.study)

    monkeypatch.setattr("plfl.deploy.local.federate", federate)
    invoke("deploy", "--config", "mine.yaml", "--rounds", 3)
    (study,) = deployed
    assert study.federation.rounds == 3
    assert keys_of(study).model_fields_set == keys_of(mine).model_fields_set


def test_the_server_app_reads_the_files_like_the_server(
    mine: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> None:
        raise PlflError("the plan is written")

    @contextmanager
    def running_superlink(*arguments: Any) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(nodes={}, start_rounds=stop)

    monkeypatch.setattr(server_host, "running_superlink", running_superlink)
    monkeypatch.setattr(flower, "require_flower", lambda: None)
    folders = CellFolders(mine, mine.cells[0], tmp_path)
    keys: Any = SimpleNamespace(folder=tmp_path)
    with pytest.raises(PlflError, match="the plan is written"):
        server_host.serve(folders, RoundPolicy(1, 1.0, 1.0), "127.0.0.1", 1, keys, print)
    settings = json.loads((folders.server / RUN_SETTINGS).read_text())
    study = Study.parse(settings["study"], RUN_SETTINGS, Path(settings["folder"]))
    assert keys_of(study).model_fields_set == keys_of(mine).model_fields_set
    assert study.plan.settings(study.cells[0]) == mine.plan.settings(mine.cells[0])
