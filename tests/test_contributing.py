"""The example in CONTRIBUTING.md works as written."""

import re
import runpy
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]


def test_the_example_optimiser_takes_its_step(tmp_path: Path) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    file = tmp_path / "signum.py"
    file.write_text(example, encoding="utf-8")
    signum = runpy.run_path(str(file))["Signum"](lr=0.5)
    y = torch.tensor([[1.0, 1.0, 1.0]])
    state = signum.init(y)
    signum.step(y, torch.tensor([[2.0, -3.0, 0.0]]), state, 1)
    assert y.tolist() == [[0.5, 1.5, 1.0]]
