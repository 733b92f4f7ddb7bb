"""Makes the links of notebooks lead to pages of the site, as mkdocs does for those of Markdown."""

import re
from typing import Any


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with the content of each page."""
    if not page.file.src_path.endswith(".ipynb"):
        return html
    return re.sub(r'href="([\w-]+)\.md(#[^"]*)?"', r'href="\1.html\2"', html)
