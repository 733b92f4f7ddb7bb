"""A study of three own meters, in the current folder."""

import json
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.test_workflow import write_meters


class Write(Protocol):
    """Writes the study `own.yaml`, with further blocks, and returns its path."""

    def __call__(self, **blocks: Any) -> Path: ...


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)
    write_meters(tmp_path / "meters", days=21)

    def written(**blocks: Any) -> Path:
        raw: dict[str, Any] = {
            "name": "own",
            "data": {"source": "meters", "states": ["all"], "clients": 3, "features": ["load"]},
            "model": {"name": "mlp"},
            "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P1", "P3"]},
            "federation": {"rounds": 2, "local_steps": 3},
            "baselines": {"trees": 10},
        }
        Path("own.yaml").write_text(json.dumps(raw | blocks), encoding="utf-8")
        return Path("own.yaml")

    return written
