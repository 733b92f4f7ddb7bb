"""The claims that a study named before it ran, as rows of a table of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class ClaimRow:
    """A verdict on a claim that the study named, as pages show it."""

    text: str
    answer: str
    effect: str
    """The effect with its interval."""
    without: str
    """Its range without one of the states."""
    p: str
    scope: str
    evidence: str


def claim_rows(claims: pd.DataFrame) -> list[ClaimRow]:
    """The rows of `plfl.results.contrasts.table`, as pages show them."""
    rows = []
    for row in claims.fillna({"reason": "", "needed": "", "scope": ""}).to_dict("records"):
        row |= {f"effect_{end}": row[end] for end in ("low", "high")}
        without = "" if pd.isna(row["lowest"]) else f"{row['lowest']:+.3f} to {row['highest']:+.3f}"
        rows.append(
            ClaimRow(
                row["text"],
                row["answer"],
                estimate(row, "effect"),
                without,
                "" if pd.isna(row["p"]) else f"{row['p']:.2g}",
                row["scope"],
                ". ".join(filter(None, (row["reason"], row["needed"].rstrip(".")))),
            )
        )
    return rows


def estimate(row: Mapping[Any, Any], name: str) -> str:
    """A difference with its interval: "+0.054 [+0.020, +0.088]"; empty without one."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return ""
    return f"{value:+.3f}" + ("" if pd.isna(low) else f" [{low:+.3f}, {high:+.3f}]")
