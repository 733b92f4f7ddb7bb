"""The links of the documentation's site."""

import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.helpers.repository import ROOT, import_program, tracked


@pytest.fixture
def links() -> ModuleType:
    """What mkdocs calls."""
    return import_program("docs/site_links.py")


@pytest.mark.parametrize(("version", "place"), [("", "main"), ("1.2.0", "v1.2.0")])
def test_links_out_of_the_folder_lead_to_the_repository(
    links: ModuleType, monkeypatch: pytest.MonkeyPatch, version: str, place: str
) -> None:
    monkeypatch.setenv("VERSION", version)
    config, files = SimpleNamespace(repo_url="https://example.org/repository/"), set(tracked())
    found = 0
    for page in (ROOT / "docs").glob("*.md"):
        text = links.on_page_markdown(page.read_text(encoding="utf-8"), config=config)
        assert "](../" not in text
        for path in re.findall(rf"\]\(https://example.org/repository/blob/{place}/([^)#]+)", text):
            assert path in files or any(Path(path) in Path(file).parents for file in files), path
            found += 1
    assert found > 50


def test_links_of_notebooks_lead_to_pages(links: ModuleType) -> None:
    html = '<a href="scores.md#mase">scores</a> <a href="https://a.org/b.md">b</a>'
    for name, expected in (("a.ipynb", html.replace("scores.md", "scores.html")), ("a.md", html)):
        page = SimpleNamespace(file=SimpleNamespace(src_path=name))
        assert links.on_page_content(html, page=page) == expected
