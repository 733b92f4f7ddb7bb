"""What the tests of the commands share."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.constructed import config
from tests.helpers.fake_results import write


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a synthetic study in NY."""

    def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
        return {"P1": 1.5, "P2": 1.0, "P3": 1.2}[cell["sharing"]] * t

    folder = tmp_path_factory.mktemp("results")
    data = {"states": ["NY"], "clients": 12}
    rounds = {"rounds": 2, "evaluate_every": 1}
    write(
        folder, config(data=data, grid={"client_opt": ["adam"]}, federation=rounds), level, noise=0
    )
    return folder
