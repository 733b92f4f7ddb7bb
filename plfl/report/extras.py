"""The table that the page shows only when it exists: `plfl scarcity` makes it.

This module imports little, because the workflow lists these files each time it starts.
"""

from pathlib import Path

EXTRAS = {
    "scarcity.csv": "scores by weeks of training history",
}
"""What each of them contains."""


def extras(results: Path) -> list[Path]:
    """Those of `EXTRAS` that exist in a results folder."""
    return [path for name in EXTRAS if (path := results / name).is_file()]
