"""How pages show differences with their intervals."""

from collections.abc import Mapping
from typing import Any

import pandas as pd


def with_interval(row: Mapping[Any, Any], name: str) -> str:
    """A difference with its interval: "+0.054 [+0.020, +0.088]"; empty without one."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return ""
    return f"{value:+.3f}" + ("" if pd.isna(low) else f" [{low:+.3f}, {high:+.3f}]")


def span(low: float, high: float, sign: str = "+") -> str:
    """A range in print: "-0.012 to +0.034"; empty if unknown. `sign`: as in a format string."""
    return "" if pd.isna(low) else f"{low:{sign}.3f} to {high:{sign}.3f}"
