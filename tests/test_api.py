"""The Python interface: what `import plfl` offers, and that the examples in the docs run."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import plfl
from tests.helpers.refusals import naming

ROOT = Path(__file__).resolve().parents[1]


TINY = """
name: tiny
data: {source: sample, states: [NY], clients: 1}
model: {hidden: 3, mlp: [4]}
grid: {client_opt: [adam], server_opt: [fedavg, fedadam], sharing: [P2, P3]}
federation: {rounds: 3, local_steps: 2, evaluate_every: 2}
"""


def test_a_study_loads_trains_and_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(TINY, encoding="utf-8")
    study = plfl.Study.load("tiny.yaml")
    dataset = plfl.load_dataset(study, "NY")
    assert isinstance(dataset, plfl.Dataset) and len(dataset.clients) == 1
    cells = [cell for cell in study.cells if cell.sharing == "P2"]
    results = plfl.train(study, cells, dataset)
    assert list(results) == cells and len(cells) == 2
    for result in results.values():
        assert isinstance(result, plfl.CellResult)
        test = result.records.query("split == 'test' and model == 'local'")
        assert set(test["round"]) == {2, 3} and test["mase"].gt(0).all()
    with pytest.raises(plfl.PlflError, match="does not exist"):
        plfl.Study.load("absent.yaml")


def test_the_examples_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "python-api.md").read_text("utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    for example in code[:2]:
        names: dict[str, Any] = {}
        exec(example, names)
        assert list(names["results"]) == [c for c in names["study"].cells if c.sharing == "P2"]
    assert "NY-P2-fedopt-adam-fedavg-10 {1: " in capsys.readouterr().out


def test_every_public_name_is_there_and_has_a_type() -> None:
    assert plfl.__all__ == sorted(plfl._MODULES)
    assert set(plfl.__all__) <= set(dir(plfl))
    for name in plfl.__all__:
        assert getattr(plfl, name).__name__ == name
    tree = ast.parse(Path(str(plfl.__file__)).read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert {a.name: node.module for node in imports for a in node.names} == plfl._MODULES
    with naming(AttributeError, "'studdy'"):
        plfl.studdy  # noqa: B018


def test_importing_plfl_loads_no_library() -> None:
    code = "import plfl, sys; sys.exit(len({'numpy', 'pandas', 'torch'} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
