"""The claims that a study names, as rows of a table of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plfl.results import family


@dataclass(frozen=True)
class ClaimRow:
    """A verdict on a claim that the study names, as pages show it."""

    name: str
    text: str
    answer: str
    effect: str
    """The effect with its interval."""
    without: str
    """Its range without one of the states."""
    p: str
    scope: str
    evidence: str


@dataclass(frozen=True)
class NamedClaims:
    """The verdicts, and when their claims were named."""

    rows: list[ClaimRow]
    dated: str


def named_claims(claims: pd.DataFrame, folder: Path) -> NamedClaims | None:
    """The rows of `plfl.results.contrasts.table`, as pages show them; None without any.

    `folder`: the results of the whole study.
    """
    if claims.empty:
        return None
    rows = []
    for row in claims.fillna({"reason": "", "needed": "", "scope": ""}).to_dict("records"):
        row |= {f"effect_{end}": row[end] for end in ("low", "high")}
        without = "" if pd.isna(row["lowest"]) else f"{row['lowest']:+.3f} to {row['highest']:+.3f}"
        rows.append(
            ClaimRow(
                row["claim"],
                row["text"],
                row["answer"],
                estimate(row, "effect"),
                without,
                "" if pd.isna(row["p"]) else f"{row['p']:.2g}",
                row["scope"],
                ". ".join(filter(None, (row["reason"], row["needed"].rstrip(".")))),
            )
        )
    return NamedClaims(rows, family.told(claims["text"].tolist(), family.noted(folder)))


def estimate(row: Mapping[Any, Any], name: str) -> str:
    """A difference with its interval: "+0.054 [+0.020, +0.088]"; empty without one."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return ""
    return f"{value:+.3f}" + ("" if pd.isna(low) else f" [{low:+.3f}, {high:+.3f}]")
