"""Makes links lead somewhere on the site: those of notebooks to its pages, as mkdocs does for those
of Markdown, and those out of this folder to the repository, at the tag of a version."""

import os
import re
from typing import Any


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """Called by mkdocs with the source of each page."""
    version = os.environ.get("VERSION")
    place = f"{config.repo_url.rstrip('/')}/blob/{f'v{version}' if version else 'main'}"
    return re.sub(r"\]\(\.\./", f"]({place}/", markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with the content of each page."""
    if not page.file.src_path.endswith(".ipynb"):
        return html
    return re.sub(r'href="([\w-]+)\.md(#[^"]*)?"', r'href="\1.html\2"', html)
