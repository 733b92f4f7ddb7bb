"""A study of three own meters, in the current folder."""

import json
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.helpers.projects import write_meters


class Write(Protocol):
    """Writes the study `own.yaml`, with further blocks, and returns its path. `days`: of readings,
    from 1 January 2024."""

    def __call__(self, days: int = 21, **blocks: Any) -> Path: ...


OWN = {"source": "meters", "states": ["all"], "clients": 3, "features": ["load"]}


@pytest.fixture
def write(here: Path) -> Write:

    def written(days: int = 21, **blocks: Any) -> Path:
        write_meters(here / "meters", days=days)
        raw: dict[str, Any] = {
            "name": "own",
            "data": OWN,
            "model": {"name": "mlp"},
            "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P1", "P3"]},
            "federation": {"rounds": 2, "local_steps": 3},
            "baselines": {"trees": 10},
        }
        Path("own.yaml").write_text(json.dumps(raw | blocks), encoding="utf-8")
        return Path("own.yaml")

    return written
