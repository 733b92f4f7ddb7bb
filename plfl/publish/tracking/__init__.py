"""MLflow: a study's results as an experiment to sort, filter, plot and compare in a browser.

Training never calls MLflow. `store.track` reads the finished tables of a results folder and writes
`mlflow.db` and `mlartifacts/` beside them. Both can be deleted at any time; `track` rebuilds them
from the tables. `server.serve` opens them in a browser.

MLflow takes more than a second to import. Only `store`, which reads and writes the database, and
`server` import it; `content` (what is logged) and `views` (how it is shown) do not. MLflow is an
extra (`pip install 'plfl[mlflow]'`): without it, studies have no database.
"""

from importlib.util import find_spec

from plfl.base.errors import PlflError


def installed() -> bool:
    """Whether MLflow is installed."""
    return find_spec("mlflow") is not None


def check_installed() -> None:
    """Check that MLflow is installed.

    Raises:
        PlflError: it is not; the message says how to install it.
    """
    if not installed():
        raise PlflError("MLflow is not installed; run pip install 'plfl[mlflow]'")
