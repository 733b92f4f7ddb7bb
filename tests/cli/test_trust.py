"""Results are data: the Python files that they name run only if the user trusts them."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plfl
from plfl import plugins
from plfl.base.errors import ResultsError
from plfl.cli import main as cli
from plfl.results.records import read_models, write_models
from plfl.study import Study
from tests.helpers import fake_results
from tests.helpers.meter_models import make_study, write_models_of
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

NET = '''
from pathlib import Path
from torch import nn

from plfl.optimizers.server.fedavg import FedAvg

Path("ran").touch()


class Net(nn.Module):
    def __init__(self, inputs, look_back, covariates, outputs):
        super().__init__()
        self.layer = nn.Linear(inputs, 1)

    def forward(self, sequence, covariates):
        return self.layer(sequence[:, -1])[:, 0]


class Nothing(FedAvg):
    """A server optimiser, so that this is a plug-in."""

    name = "nothing"
'''
NAMED = {
    "plugin": {"plugins": ["x.py"]},
    "module": {"model": {"module": "x.py:Net"}},
    "odd path": {"plugins": ["./y/../x.py/z/.."]},
    "axis": {"grid": {"model": {"a": {"module": "x.py:Net"}}}},
    "replaced by an axis": {"model": {"module": "x.py:Net"}, "grid": {"model": {"a": {}}}},
}
COMMANDS = [
    "claims results/foreign",
    "report results/foreign",
    "publish results/foreign --to crate",
    "compare results/foreign results/foreign",
    "track results/foreign",
    "cells results/foreign/study.json",
    "forecast foreign.safetensors meters/a.csv",
    "export foreign.safetensors --client a --to a.onnx",
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results and a model, beside a Python file."""
    folder = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("x.py").write_text(NET, encoding="utf-8")
        shutil.copy(ROOT / "CITATION.cff", ".")
        fake_results.write(Path("results/foreign"), fake_results.TINY)
        write_models_of(make_study(), Path("own.safetensors"))
    return folder


@pytest.fixture
def _foreign(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of these files, in a process that has run none of them."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "TRUSTED", set())
    plugins.import_file.cache_clear()


def name_code(block: dict[str, Any]) -> None:
    """Let results and model name code."""
    file = Path("results/foreign/study.json")
    about = json.loads(file.read_text(encoding="utf-8"))
    about["study"] = merged(about["study"], block)
    file.write_text(json.dumps(about | {"plugins": ["x.py"]}), encoding="utf-8")
    models, header = read_models(Path("own.safetensors"))
    study = merged(header["study"], block)
    write_models(Path("foreign.safetensors"), models, header | {"study": study})


def merged(study: dict[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    grid = study["grid"] | block.get("grid", {})
    return study | block | {"grid": grid}


@pytest.mark.usefixtures("_foreign")
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_code_that_results_name(command, invoke):
    for block in NAMED.values():
        name_code(block)
        said = invoke(*command.split(), status=2).err
        assert re.search(r"--trust x\.py|holds results, not a study", said)
        assert not Path("ran").exists()


@pytest.mark.usefixtures("_foreign")
@pytest.mark.parametrize(
    "read",
    [lambda: plfl.load("foreign.safetensors"), lambda: plfl.Tables(Path("results/foreign")).study],
)
def test_python_runs_it_only_if_it_is_trusted(read: Callable[[], object]) -> None:
    name_code(NAMED["plugin"])
    with naming(ResultsError, "plfl.trust"):
        read()
    assert not Path("ran").exists()
    plfl.trust("x.py")
    read()
    assert Path("ran").exists()
    Path("x.py").write_text(NET + "\n# changed\n", encoding="utf-8")
    with naming(ResultsError, "plfl.trust"):
        read()


@pytest.mark.usefixtures("_foreign")
def test_a_command_runs_it_if_it_is_trusted(invoke) -> None:
    name_code(NAMED["plugin"])
    assert cli.main(["claims", "results/foreign", "--trust", "x.py"]) == 0
    assert Path("ran").exists()
    assert "no.py" in invoke("claims", "results/foreign", "--trust", "no.py", status=2).err


@pytest.mark.usefixtures("_foreign")
def test_models_of_a_study_with_code_of_its_own() -> None:
    """Who has read the study may read its models; others must trust the file as it was."""
    raw = make_study().model_dump(mode="json") | {"plugins": ["x.py"]}
    write_models_of(Study.parse(raw, "own"), Path("mine.safetensors"))
    assert plfl.load("mine.safetensors").study.plugins == [Path("x.py")]
    Path("x.py").write_text(NET + "\n# changed\n", encoding="utf-8")
    Path("ran").unlink()
    plfl.trust("x.py")
    with pytest.raises(ResultsError, match="has changed since the training"):
        plfl.load("mine.safetensors")
    assert not Path("ran").exists()
    Path("x.py").unlink()
    with pytest.raises(ResultsError, match="cannot be read; restore it"):
        plfl.load("mine.safetensors")
