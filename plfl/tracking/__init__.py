"""MLflow: a study's results as an experiment one can sort, filter, plot and compare in a browser.

Training never talks to MLflow. `track` reads the finished tables of a results folder and writes
`mlflow.db` and `mlartifacts/` beside them; both can be deleted at any time and are rebuilt from the
tables. `serve` opens them in a browser.

Importing this package imports MLflow, which takes more than a second: import it where it is used.
"""

from plfl.tracking.server import serve, ui_command, ui_url
from plfl.tracking.store import track

__all__ = ["serve", "track", "ui_command", "ui_url"]
