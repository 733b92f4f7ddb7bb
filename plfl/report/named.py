"""The claims that a study names, and how pages show differences and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plfl.results import family


@dataclass(frozen=True)
class NamedClaims:
    """The verdicts, and when their claims were named."""

    rows: list[dict[Any, Any]]
    """The rows of `plfl.results.contrasts.table`."""
    dated: str
    """When the claims were named, in sentences."""


def named_claims(claims: pd.DataFrame, folder: Path) -> NamedClaims | None:
    """The verdicts in `plfl.results.contrasts.table`; None if there are none.

    `folder`: the results of the whole study.
    """
    if claims.empty:
        return None
    named = claims.rename(columns={"low": "effect_low", "high": "effect_high"})
    rows = named.fillna({"reason": "", "needed": "", "scope": ""}).to_dict("records")
    return NamedClaims(rows, family.in_sentences(claims["text"].tolist(), family.noted(folder)))


def with_interval(row: Mapping[Any, Any], name: str) -> str:
    """A difference with its interval: "+0.054 [+0.020, +0.088]"; empty without one."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return ""
    return f"{value:+.3f}" + ("" if pd.isna(low) else f" [{low:+.3f}, {high:+.3f}]")


def span(low: float, high: float, sign: str = "+") -> str:
    """A range in print: "-0.012 to +0.034"; empty if unknown. `sign`: as in a format string."""
    return "" if pd.isna(low) else f"{low:{sign}.3f} to {high:{sign}.3f}"
