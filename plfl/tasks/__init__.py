"""Tasks: what is predicted, one file per task. `plfl.interfaces.task` has their class, and
`plfl.interfaces.terms` the terms that methods add to their loss."""

from plfl.interfaces.annotations import Study
from plfl.interfaces.task import Task as Task


def task_of(study: Study) -> Task:
    """The task of a study."""
    return study.task
