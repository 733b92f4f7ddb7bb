"""Authors and licence from a CITATION.cff."""

from pathlib import Path

import pytest

from plfl.errors import PlflError
from plfl.publish.citation import Author, read

ROOT = Path(__file__).resolve().parents[2]


def test_the_repositorys_own() -> None:
    found = read(ROOT / "CITATION.cff")
    assert found.authors == (Author("The plfl developers", False, None, None),)
    assert found.licence_url == "https://spdx.org/licenses/MIT"


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("title: a\nlicense: MIT", "has no authors"),
        ("title: a\nauthors: []\nlicense: MIT", "has no authors"),
        ("authors: [{name: a}]", "has no title, license"),
        ("title: a\nauthors: [{affiliation: a}]\nlicense: MIT", "has no names of all authors"),
        ("- a", "is not a CITATION.cff"),
        ("a: [", "cannot be read"),
    ],
)
def test_what_is_lacking_is_named(text: str, lacking: str, tmp_path: Path) -> None:
    path = tmp_path / "CITATION.cff"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlflError, match=lacking):
        read(path)
