"""Authors and licence from a CITATION.cff."""

from pathlib import Path

import pytest

from plfl.base.errors import PlflError
from plfl.publish.citation import read
from tests.helpers.refusals import naming

ROOT = Path(__file__).resolve().parents[2]


def test_the_repositorys_own() -> None:
    found = read(ROOT / "CITATION.cff")
    assert [(author.name, author.is_person) for author in found.authors] == [
        ("The plfl developers", False)
    ]
    assert found.licence_url == "https://spdx.org/licenses/MIT"


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("title: a\nlicense: MIT", "authors"),
        ("title: a\nauthors: []\nlicense: MIT", "authors"),
        ("authors: [{name: a}]", "title"),
        ("title: a\nauthors: [{affiliation: a}]\nlicense: MIT", "authors.0.name"),
        ("title: a\nauthors: [a]\nlicense: []", "cannot be read"),
        ("title: a\nauthors: [{name: a, website: [1]}]\nlicense: MIT", "authors.0.url"),
        ("- a", "the file"),
        ("a: [", "cannot be read"),
    ],
)
def test_what_is_lacking_is_named(text: str, lacking: str, tmp_path: Path) -> None:
    path = tmp_path / "CITATION.cff"
    path.write_text(text, encoding="utf-8")
    with naming(PlflError, lacking):
        read(path)
