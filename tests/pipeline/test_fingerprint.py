"""Which code a digest covers."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from plfl.base.files import sha256
from plfl.base.shipped import PACKAGE_ROOT
from plfl.pipeline import fingerprint
from plfl.pipeline.training_jobs import training_code
from plfl.plugins import import_file
from tests.helpers import tiny

FILES = {
    "__init__.py": "",
    "a.py": "from own.b import x\nimport numpy",
    "b.py": "def f():\n    from own import (\n        deep,\n    )\n    return deep",
    "deep/__init__.py": "",
    "deep/unused.py": "",
    "uses_plfl.py": "from plfl.study import Study\nfrom plfl.optimizers import client",
    "kernel.py": "SOURCE = __file__ + 'kernel.cpp'\nPAGE = 'page.html.jinja'",
    "kernel.cpp": "",
    "templates/page.html.jinja": '{% include "style.html.jinja" %}',
    "templates/style.html.jinja": '{% from "colours.html.jinja" import red %}',
    "templates/colours.html.jinja": "",
    "templates/other.html.jinja": "",
    "alone.py": "",
    "relative.py": "if True:\n    try:\n        from . import deep\n    finally:\n        pass",
    "parts.py": """
import own.alone
from own import b, relative, uses_plfl

TITLE = own.alone

class Part:
    def write(self, relative):
        from own import kernel
        return self.draw(kernel, relative)

    def draw(self, *_):
        return b

    def other(self):
        return uses_plfl

class Titled(Part):
    def write(self, relative):
        return TITLE, super().write(relative)
""",
    "quoting.py": '"""import own.alone"""\nTEXT = """\nfrom own import alone\n"""',
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `own` that can be imported."""
    for name, text in FILES.items():
        file = tmp_path / "own" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    fingerprint.forget()
    yield tmp_path / "own"
    for name in [name for name in sys.modules if name.partition(".")[0] == "own"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("module", "changed", "matters"),
    [
        ("own.a", "b.py", True),
        ("own.a", "deep/__init__.py", True),
        ("own.a", "deep/unused.py", False),
        ("own.a", "alone.py", False),
        ("own.kernel", "kernel.cpp", True),
        ("own.kernel", "templates/page.html.jinja", True),
        ("own.kernel", "templates/colours.html.jinja", True),
        ("own.kernel", "templates/other.html.jinja", False),
        ("own.alone", "templates/page.html.jinja", False),
        ("own.relative", "deep/__init__.py", True),
        ("own.quoting", "alone.py", False),
    ],
)
def test_a_change_shows_where_it_matters(package, module, changed, matters):
    before = fingerprint.code_digest(module)
    assert before == fingerprint.code_digest(module)
    path = package / changed
    path.write_text(path.read_text() + "\n# changed")
    fingerprint.forget()
    assert (fingerprint.code_digest(module) != before) == matters


@pytest.mark.parametrize(
    ("cls", "changed", "matters"),
    [
        ("Part", "kernel.py", True),
        ("Part", "b.py", True),
        ("Part", "deep/__init__.py", True),
        ("Part", "relative.py", False),
        ("Part", "uses_plfl.py", False),
        ("Part", "alone.py", False),
        ("Titled", "kernel.py", True),
        ("Titled", "alone.py", True),
    ],
)
def test_a_change_in_what_a_method_uses_shows(package, cls, changed, matters):
    """What it imports, itself or in the methods that it calls or overrides, and what it names."""
    part = getattr(import_module("own.parts"), cls)()
    before = fingerprint.method_digest(part.write)
    path = package / changed
    path.write_text(path.read_text() + "\n# changed")
    fingerprint.forget()
    assert (fingerprint.method_digest(part.write) != before) == matters


def test_the_file_of_a_user_counts_with_what_it_imports(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import plfl.optimizers.client.sgd")
    module = import_file(file, sha256(file)).__name__
    covered = fingerprint.file_digests(module)
    assert {module, "plfl.optimizers.client.sgd"} <= covered.keys()
    assert fingerprint.files_of(module) == (file,)


def test_base_classes_count_but_neither_algorithms_nor_the_reading_of_a_study(package):
    covered = fingerprint.file_digests("own.uses_plfl")
    assert "plfl.optimizers.client" in covered
    assert not {"plfl", "plfl.study", "plfl.optimizers.client.adam"} & covered.keys()


@pytest.mark.parametrize(
    ("module", "reads"),
    [
        ("plfl.experiments.train", "training/native/kernel.cpp"),
        ("plfl.data.comstock.series", "data/comstock/paper_buildings.csv"),
        ("plfl.data.meters.vocabulary", "data/meters/vocabulary.toml"),
        ("plfl.report.page", "report/templates/page.html.jinja"),
        ("plfl.report.page", "report/templates/answer.html.jinja"),
    ],
)
def test_what_our_modules_read_counts(module: str, reads: str) -> None:
    covered = {
        file for name in fingerprint.file_digests(module) for file in fingerprint.files_of(name)
    }
    assert PACKAGE_ROOT / reads in covered


def test_the_code_of_codecs_counts_where_they_are_named() -> None:
    none, half, top = (
        training_code(study, study.cells[:1])
        for study in (tiny.study(channel={"up": up}) for up in ("none", "bf16", "top0.1"))
    )
    assert len({none, half, top}) == 3
