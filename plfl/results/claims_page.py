"""The table of all claims about forecasts in docs/claims.md, which `plfl schema` writes."""

import re
from pathlib import Path

from plfl.base.files import atomic
from plfl.results import axis_claims, baseline_claims, method_claims, paper_claims

PAGE = Path("docs", "claims.md")
HEAD = "| | claim | source |\n|---|---|---|\n"


def table() -> str:
    """Name, sentence and source of every claim, in the order in which they are judged."""
    sources = {name: claim.source for name, claim in method_claims.ALL.items()}
    sources |= axis_claims.SOURCES
    sources |= dict.fromkeys(baseline_claims.CLAIMS, "a question of users")
    sources |= dict.fromkeys(paper_claims.CLAIMS, "arXiv 2404.01517")
    claims = baseline_claims.CLAIMS | paper_claims.CLAIMS | method_claims.CLAIMS
    claims |= axis_claims.CLAIMS
    return HEAD + "".join(
        f"| {name} | {text} | {sources[name]} |\n" for name, text in claims.items()
    )


def with_table(page: str) -> str:
    """The page with the present table in place of the one that it has."""
    return re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda _: table(), page, count=1)


def write(root: Path) -> Path:
    """Write the table into the page of a repository; the path of the page."""
    page = with_table((root / PAGE).read_text(encoding="utf-8"))
    with atomic(root / PAGE) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return root / PAGE
