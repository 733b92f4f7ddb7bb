"""Tasks: what is predicted, one file per task. `plfl.interfaces.task` has their class, and
`plfl.interfaces.terms` the terms that methods add to their loss."""

from plfl.base.errors import DataError
from plfl.interfaces.annotations import Dataset
from plfl.interfaces.task import Task as Task


def check_calibration(task: Task, dataset: Dataset) -> None:
    """Refuse a dataset where a client has too few validation windows for conformal widths."""
    if problems := list(task.find_uncalibrated(dataset)):
        raise DataError(*problems)
