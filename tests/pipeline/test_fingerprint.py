"""Which code a digest covers."""

from pathlib import Path

import pytest

from plfl.pipeline import fingerprint as sources
from plfl.pipeline.jobs import training_code
from tests.helpers import tiny


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "__init__.py": "",
        "a.py": "from plfl.b import x\nimport numpy",
        "b.py": "def f():\n    from plfl import deep\n    return deep",
        "deep/__init__.py": "",
        "deep/unused.py": "",
        "study/__init__.py": "import plfl.optimizers.client",
        "uses_study.py": "from plfl.study import Study\nfrom plfl.optimizers import client",
        "optimizers/__init__.py": "",
        "optimizers/client/__init__.py": "",
        "optimizers/client/adam.py": "",
        "alone.py": "",
        "deep/near.py": "from . import unused\nfrom ..b import x",
        "kernel.py": "SOURCE = __file__ + 'kernel.cpp'\nPAGE = 'page.html.jinja'",
        "kernel.cpp": "",
        "templates/page.html.jinja": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    forget()
    return tmp_path


def forget() -> None:
    for function in (sources.imports, sources._files, sources._read_by):
        function.cache_clear()


@pytest.mark.parametrize(
    ("module", "changed", "matters"),
    [
        ("plfl.a", "b.py", True),
        ("plfl.a", "deep/__init__.py", True),
        ("plfl.a", "deep/unused.py", False),
        ("plfl.a", "alone.py", False),
        ("plfl.deep.near", "deep/unused.py", True),
        ("plfl.uses_study", "study/__init__.py", False),
        ("plfl.uses_study", "optimizers/client/__init__.py", True),
        ("plfl.uses_study", "optimizers/client/adam.py", False),
        ("plfl.kernel", "kernel.cpp", True),
        ("plfl.kernel", "templates/page.html.jinja", True),
        ("plfl.alone", "templates/page.html.jinja", False),
    ],
)
def test_a_change_shows_where_it_matters(
    package: Path, module: str, changed: str, matters: bool
) -> None:
    before = sources.code_digest(module)
    assert before == sources.code_digest(module)
    path = package / changed
    path.write_text(path.read_text() + "\n# changed")
    forget()
    assert (sources.code_digest(module) != before) == matters


@pytest.mark.parametrize(
    ("module", "reads"),
    [
        ("plfl.experiments.train", "training/native/kernel.cpp"),
        ("plfl.data.comstock.series", "data/comstock/paper_buildings.csv"),
        ("plfl.report.page", "report/templates/page.html.jinja"),
    ],
)
def test_what_our_modules_read_counts(module: str, reads: str) -> None:
    assert sources.ROOT / reads in sources._closure(module)


def test_the_version_alone_trains_nothing_anew() -> None:
    assert sources.ROOT / "__init__.py" not in sources._closure("plfl.experiments.train")


def test_the_code_of_codecs_counts_where_they_are_named() -> None:
    none, half, top = (
        training_code(study, study.cells[:1])
        for study in (tiny.study(channel={"up": up}) for up in ("none", "bf16", "top0.1"))
    )
    assert len({none, half, top}) == 3
