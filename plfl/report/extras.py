"""The tables that the page shows only when they exist: `plfl audit` and `plfl scarcity` make them.

This module imports little, because the workflow lists these files each time it starts.
"""

from pathlib import Path

EXTRAS = {
    "audit.csv": "effect of each deviation of the authors' code from the paper",
    "scarcity.csv": "scores by weeks of training history",
}
"""What each of them contains."""


def extras(results: Path) -> list[Path]:
    """Those of `EXTRAS` that exist in a results folder."""
    return [path for name in EXTRAS if (path := results / name).is_file()]
