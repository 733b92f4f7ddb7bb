"""The Python interface: what `import plfl` offers, and that the examples in the docs run."""

import ast
import shutil
from pathlib import Path
from typing import Any

import plfl
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT, blocks


def test_the_examples_run_as_written(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    for example in blocks("docs/python-api.md", "python")[:3]:
        names: dict[str, Any] = {}
        exec(example, names)
        if "results" not in names:
            assert names["scores"]["mase"].gt(0).all() and len(names["scores"]) == 8
            continue
        assert list(names["results"]) == [c for c in names["study"].cells if c.sharing == "P2"]
    assert "NY-P2-fedopt-adam-fedavg-10 {1: " in capsys.readouterr().out


def test_every_public_name_is_there_and_has_a_type() -> None:
    assert plfl.__all__ == sorted(plfl.MODULES)
    assert set(plfl.__all__) <= set(dir(plfl))
    for name in plfl.__all__:
        assert getattr(plfl, name).__name__ == name
    tree = ast.parse(Path(str(plfl.__file__)).read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert {a.name: node.module for node in imports for a in node.names} == plfl.MODULES
    with naming(AttributeError, "'studdy'"):
        plfl.studdy  # noqa: B018
