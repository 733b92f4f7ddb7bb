"""The examples in the guides work as written."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from tests.helpers.problems import trajectory

ROOT = Path(__file__).resolve().parents[1]


def example(guide: str, folder: Path) -> dict[str, Any]:
    """What the only Python example of a guide defines."""
    (text,) = re.findall(r"```python\n(.*?)```", (ROOT / guide).read_text("utf-8"), re.DOTALL)
    file = folder / "example.py"
    file.write_text(text, encoding="utf-8")
    return runpy.run_path(str(file))


def test_the_example_optimiser_takes_its_step(tmp_path: Path) -> None:
    signum = example("CONTRIBUTING.md", tmp_path)["Signum"](lr=0.5)
    y = torch.tensor([[1.0, 1.0, 1.0]])
    state = signum.init(y)
    signum.step(y, torch.tensor([[2.0, -3.0, 0.0]]), state, 1)
    assert y.tolist() == [[0.5, 1.5, 1.0]]


def test_the_example_method_bounds_what_a_client_moves(tmp_path: Path) -> None:
    clipped = example("docs/add-an-algorithm.md", tmp_path)["Clipped"](bound=0.2)
    *_, last = trajectory(Sgd(lr=0.1), FedAvg(), clipped, rounds=1)
    # Q2: the clients move by −0.38 and −0.64; both are cut to −0.2.
    assert last.x.item() == pytest.approx(1.8)
    traffic = last.report.traffic
    assert traffic["bytes_up"].tolist() == [8 + 4, 8 + 4]
    assert traffic["extras_up"].tolist() == [4, 4]
