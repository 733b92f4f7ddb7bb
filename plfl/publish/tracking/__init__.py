"""MLflow: a study's results as an experiment to sort, filter, plot and compare in a browser.

Training never calls MLflow. `track` reads the finished tables of a results folder and writes
`mlflow.db` and `mlartifacts/` beside them. Both can be deleted at any time; `track` rebuilds them
from the tables. `serve` opens them in a browser.

MLflow takes more than a second to import. Only `store`, which reads and writes the database, and
`server` import it; what is logged (`content`) and how it is shown (`views`) do not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # see above
    from plfl.publish.tracking.server import serve, ui_command, ui_url
    from plfl.publish.tracking.store import track

__all__ = ["serve", "track", "ui_command", "ui_url"]


def __getattr__(name: str) -> Any:
    """Import a public function when it is first used, so that the package stays quick to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "store" if name == "track" else "server"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
