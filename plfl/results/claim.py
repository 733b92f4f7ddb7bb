"""The claims that studies of forecasts are judged on, which `claims.toml` lists; `plfl schema`
writes their table in docs/claims.md."""

import re
import tomllib
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from plfl.base.files import write_text


class Claim(BaseModel, frozen=True):
    """A claim, which one or more comparisons together decide."""

    text: str
    source: str
    beats: dict[str, list[str]] = {}
    """The better and the worse side: methods, or `plfl.results.method_claims.SIDES`."""


LISTED = TypeAdapter(dict[str, dict[str, Claim]]).validate_python(
    tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
)
"""The claims by name, of each kind: `users`, `paper`, `methods` and `variants`."""
PAGE = Path("docs", "claims.md")
HEAD = "| | claim | source |\n|---|---|---|\n"
"""The page that lists all claims, and the beginning of its table."""


def texts(*kinds: str) -> dict[str, str]:
    """The claims of some kinds in words, by name, in the order in which they are judged."""
    return {name: claim.text for kind in kinds for name, claim in LISTED[kind].items()}


def table() -> str:
    """Name, sentence and source of every claim, in the order in which they are judged."""
    return HEAD + "".join(
        f"| {name} | {claim.text} | {claim.source} |\n"
        for claims in LISTED.values()
        for name, claim in claims.items()
    )


def with_table(page: str) -> str:
    """The page with the current table in place of its old one."""
    return re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda _: table(), page, count=1)


def write(root: Path) -> Path:
    """Write the table into the page of a repository; return the path of the page."""
    page = with_table((root / PAGE).read_text(encoding="utf-8"))
    write_text(root / PAGE, page)
    return root / PAGE
