"""docs/claims.md lists the claims as they are judged."""

from pathlib import Path

from plfl.results import axis_claims, claim, claims

PAGE = Path(__file__).resolve().parents[2] / claim.PAGE


def test_the_table_on_the_page_is_not_stale() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert claim.HEAD in page
    assert page == claim.with_table(page), "run `plfl schema` and commit what it writes"


def test_every_claim_has_a_row() -> None:
    rows = [row.split(" | ") for row in claim.table().splitlines()[2:]]
    found = {name.removeprefix("| "): text for name, text, _ in rows}
    assert found == claims.CLAIMS | axis_claims.CLAIMS
