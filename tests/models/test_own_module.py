"""Modules of the user's own: what is accepted, and what is refused before anything trains."""

import re
from pathlib import Path
from typing import Any

import pytest

from plfl.base.errors import ConfigError
from plfl.models.own_module import SIZE_ARGUMENTS
from plfl.study import Study
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

COVARIATES = [{"name": "calendar"}]

GOOD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, inputs, look_back, covariates, outputs, width=4):
        super().__init__()
        self.read = nn.Linear(inputs * look_back, width)
        self.out = nn.Linear(width, 1)

    def forward(self, sequence, covariates):
        return self.out(torch.tanh(self.read(sequence.flatten(1))))[:, 0]
"""


def study(
    folder: Path, content: str = GOOD, windows: dict[str, Any] | None = None, **model: object
) -> Study:
    file = folder / "mine.py"
    file.write_text(content, encoding="utf-8")
    blocks = {"data": {"source": "sample", "features": ["load"]}, "windows": windows or {}}
    return Study.parse(blocks | {"model": {"module": f"{file}:Net"} | model}, "here")


def test_arguments_and_groups(tmp_path: Path) -> None:
    plain = study(tmp_path)
    assert plain.plan.parameters(["body"]) == ["read.weight", "read.bias"]
    assert plain.plan.parameters(["head"]) == ["out.weight", "out.bias"]
    other = study(tmp_path, arguments={"width": 7}, head=["read.*"])
    assert other.plan.layout.shapes["read.weight"] == (7, 12)
    assert other.plan.parameters(["body"]) == ["out.weight", "out.bias"]
    assert Study.parse(other.model_dump(mode="json"), "again") == other


def test_sizes_have_the_names_on_the_page() -> None:
    page = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    for size, others in SIZE_ARGUMENTS.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{size}` |")]
        assert re.findall(r"`(\w+)`", row.rpartition(" | ")[2]) == others.split()


USUAL_NAMES = """
from torch import nn

class Net(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers, horizon=7):
        super().__init__()
        self.read = nn.GRU(input_size, hidden_size, num_layers, batch_first=True)
        self.out = nn.Linear(hidden_size, horizon)

    def forward(self, x, hidden=None):
        return self.out(self.read(x, hidden)[0][:, -1])
"""


@pytest.mark.parametrize(("given", "hidden"), [({}, 32), ({"hidden_size": 5}, 5)])
def test_sizes_and_usual_values_go_by_the_names_of_arguments(
    tmp_path: Path, given: dict[str, int], hidden: int
) -> None:
    shapes = study(tmp_path, USUAL_NAMES, arguments=given).plan.layout.shapes
    assert shapes["read.weight_ih_l0"] == (3 * hidden, 1) and "read.weight_ih_l1" not in shapes
    assert shapes["out.weight"] == (1, hidden), "one forecast, not seven"


def test_covariates_that_forward_does_not_take_are_refused(tmp_path: Path) -> None:
    with naming(ConfigError, "reads a sequence only", "windows.covariates"):
        study(tmp_path, USUAL_NAMES, windows={"covariates": COVARIATES})


def test_another_content_is_another_training(tmp_path: Path) -> None:
    before = study(tmp_path)
    cell = before.cells[0]
    settings = before.plan.settings(cell)
    assert study(tmp_path).plan.settings(cell) == settings
    after = study(tmp_path, GOOD.replace("tanh", "sin"))
    assert after.plan.settings(cell) != settings
    assert before.plan.settings(cell) == after.plan.settings(cell), (
        "the file counts, not when it was read"
    )


@pytest.mark.parametrize("single", ["[:, 0]", "", "[:, :, None]"])
def test_a_single_forecast_may_have_dimensions_of_1(tmp_path: Path, single: str) -> None:
    assert study(tmp_path, GOOD.replace("[:, 0]", single)).cells


FORWARD = "return self.out(torch.tanh(self.read(sequence.flatten(1))))[:, 0]"
BROKEN = {
    "has no class 'Net'; allowed: Nett; did you mean 'Nett'?": GOOD.replace("Net(", "Nett("),
    "it defines no torch.nn.Module": "Other = 3",
    "cannot be imported: SyntaxError": "class Net",
    "mine.py, line 1 cannot be imported: SystemExit": "raise SystemExit",
    "is int, not a torch.nn.Module": "def Net(inputs, look_back, covariates, outputs): return 3",
    "mine.py:Net needs back, forth; add {back: …, forth: …}": GOOD.replace(
        "look_back, c", "back, forth, c"
    ),
    "cannot be built with inputs=1, look_back=12, covariates=0, outputs=1: NameError": GOOD.replace(
        "(inputs * look_back", "(input_size"
    ),
    "returns (3, 4) for sequence (3, 12, 1) and covariates (3, 0)": GOOD.replace(
        "return self.out(torch.tanh", "return self.out.weight + (torch.tanh"
    ).replace("[:, 0]", ""),
    "and covariates (3, 0): ValueError, line 12: never": GOOD.replace(
        FORWARD, "raise ValueError('never')"
    ),
    "forecasts NaN or infinite numbers": GOOD.replace(FORWARD, FORWARD + " / 0"),
    "has layers without sizes (read.weight, read.bias)": GOOD.replace(
        "nn.Linear(inputs * look_back, width)", "nn.LazyLinear(width)"
    ),
    "forecasts otherwise in two trainings from the same seed": "import random\n"
    + GOOD.replace(FORWARD, FORWARD + " * (random.random() if self.training else 1)"),
    "is random after eval()": GOOD.replace("torch.tanh(", "nn.functional.dropout("),
    "changes its inputs in place": GOOD.replace("sequence.flatten", "sequence.mul_(2).flatten"),
    "has tensors of the shapes (4, 4), (4,) that require gradients but are not": GOOD.replace(
        "self.out =", "self.more = [nn.Linear(width, width)]\n        self.out ="
    )
    .replace("self.out(torch.tanh(", "self.out(self.more[0](")
    .replace(")))[", ")))["),
    "depends on the other windows of its minibatch": GOOD.replace(
        FORWARD, "x = self.read(sequence.flatten(1)); return self.out(x - x.mean(0))[:, 0]"
    ),
    "makes () of a minibatch of 1; forward must return a tensor of shape (1,)": GOOD.replace(
        "[:, 0]", ".squeeze()"
    ),
    "cannot forecast one window or 32: RuntimeError, line 12": GOOD.replace(
        "flatten(1)", "reshape(3, -1)"
    ),
    "spare.weight, spare.bias never get a gradient": GOOD.replace(
        "self.out =", "self.spare = nn.Linear(2, 2)\n        self.out ="
    ),
    "read.weight, read.bias never get a gradient": GOOD.replace(
        "sequence.flatten(1)))", "sequence.flatten(1))).detach()"
    ),
    "read.weight, read.bias require no gradient, but would be sent in every round; make them "
    "buffers": GOOD.replace("self.out =", "self.read.requires_grad_(False)\n        self.out ="),
    "forecasts have no gradient": GOOD.replace(FORWARD, FORWARD + ".detach()"),
    "has no parameters": "from torch import nn\nclass Net(nn.Module):\n"
    "    def __init__(self, inputs, look_back, covariates, outputs): super().__init__()",
    "has parameters of type torch.float64": GOOD.replace("width, 1)", "width, 1).double()"),
    "initial parameters differ": "import random\n"
    + GOOD.replace("width, 1)", "width, 1)\n        self.out.weight.data *= random.random()"),
}


@pytest.mark.parametrize(
    "condition",
    [*("mean() > 0.3", "sum() > 100", "std() < 0.2", "mean(0).max() < 0.6", "size(0) > 8")],
)
def test_a_module_that_branches_on_its_minibatch_is_refused(condition: str, tmp_path: Path) -> None:
    forward = f"""x = sequence.flatten(1)
        x = 2 * x if x.{condition} else x
        return self.out(torch.tanh(self.read(x)))[:, 0]"""
    with pytest.raises(ConfigError, match="depends on the other windows of its minibatch"):
        study(tmp_path, GOOD.replace(FORWARD, forward))


def test_a_module_that_branches_on_hidden_units_of_its_minibatch_is_refused(tmp_path: Path) -> None:
    forward = """x = self.read(sequence.flatten(1))
        return self.out(x if x.sum() > 0 else 2 * x)[:, 0]"""
    with pytest.raises(ConfigError, match="depends on the other windows of its minibatch"):
        study(tmp_path, GOOD.replace(FORWARD, forward))


@pytest.mark.parametrize("problem", BROKEN)
def test_broken_modules_are_refused(tmp_path: Path, problem: str) -> None:
    with naming(ConfigError, problem) as refused:
        study(tmp_path, BROKEN[problem])
    assert len(refused.value.problems) == 1


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ({"head": ["oot.*"]}, "model.head: 'oot.*' matches no parameter"),
        ({"head": ["*"]}, "sharing.P2: 'body' has no parameter: all are in the other group"),
        ({"arguments": {"widht": 3}}, "'widht' is no argument of"),
        ({"arguments": {"widht": 3}}, "allowed: width; did you mean 'width'?"),
        ({"arguments": {"widht": 3, "size": 4}}, "'size' is no argument of"),
        ({"module": "no/such.py:Net"}, "model.module: no/such.py: the file does not exist"),
        ({"arguments": {"inputs": 3}}, "model.arguments: inputs follows from the study"),
        ({"module": "mine.py"}, "'mine.py' is not allowed: write the file and the class"),
        ({"name": "mlp"}, "model.name: a module of your own has no name"),
        ({"file": "x"}, "model.file: unknown key of the model own_module"),
    ],
)
def test_broken_keys_are_refused(tmp_path: Path, model: dict[str, object], problem: str) -> None:
    with naming(ConfigError, problem):
        study(tmp_path, **model)
