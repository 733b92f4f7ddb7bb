"""Which code a digest covers."""

from pathlib import Path

import pytest

from plfl import sources


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "__init__.py": "",
        "a.py": "from plfl.b import x\nimport numpy",
        "b.py": "def f():\n    from plfl import deep\n    return deep",
        "deep/__init__.py": "",
        "deep/unused.py": "",
        "study.py": "import plfl.clients",
        "uses_study.py": "from plfl.study import Study\nfrom plfl import clients",
        "clients/__init__.py": "import pkgutil\npkgutil.iter_modules",
        "clients/adam.py": "",
        "alone.py": "",
        "kernel.py": "",
        "kernel.cpp": "",
        "templates/kernel.html.jinja": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    sources._imports.cache_clear()
    return tmp_path


@pytest.mark.parametrize(
    ("module", "changed", "matters"),
    [
        ("plfl.a", "a.py", True),
        ("plfl.a", "b.py", True),
        ("plfl.a", "deep/__init__.py", True),
        ("plfl.a", "deep/unused.py", False),
        ("plfl.a", "alone.py", False),
        ("plfl.uses_study", "study.py", False),
        ("plfl.uses_study", "clients/__init__.py", True),
        ("plfl.uses_study", "clients/adam.py", False),
        ("plfl.clients.adam", "clients/adam.py", True),
        ("plfl.kernel", "kernel.cpp", True),
        ("plfl.kernel", "templates/kernel.html.jinja", True),
        ("plfl.alone", "templates/kernel.html.jinja", False),
    ],
)
def test_a_change_shows_where_it_matters(
    package: Path, module: str, changed: str, matters: bool
) -> None:
    before = sources.code_digest(module)
    assert before == sources.code_digest(module)
    path = package / changed
    path.write_text(path.read_text() + "\n# changed")
    sources._imports.cache_clear()
    assert (sources.code_digest(module) != before) == matters
