"""What a job tells `plfl study`: its state, in a hidden JSON file beside its log.

A job is a process of its own, and this file is all that `plfl study` reads of it. The log is for
people; its last lines are shown if a job fails that has not written why.
"""

import json
import logging
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from plfl.base.errors import PlflError
from plfl.base.files import write_text
from plfl.base.job_state import EXTRA, JobState

_MOST_LINES = 5
"""Last lines of a log that are shown of a job without an error of its own."""


class StateHandler(logging.Handler):
    """Writes the state that goes with a message of a job into the file beside its log."""

    def __init__(self, log: Path):
        """Write beside `log`, and forget what an earlier job wrote there."""
        super().__init__()
        self.log = log
        forget_state(log)

    def emit(self, record: logging.LogRecord) -> None:
        if state := getattr(record, EXTRA, None):
            write_state(self.log, state)


def write_state(log: Path, state: JobState) -> None:
    """Write the state of the job with this log; not where nothing can be written, such as on a full
    disk, because the job does not need it."""
    with suppress(PlflError):
        write_text(_file(log), json.dumps(asdict(state)))


def read_state(log: Path) -> JobState:
    """The state of the job with this log; an empty one if it has written none."""
    try:
        return JobState(**json.loads(_file(log).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return JobState()


def forget_state(log: Path) -> None:
    """Remove the state of an earlier job with this log."""
    with suppress(OSError):
        _file(log).unlink(missing_ok=True)


def describe_error(log: Path) -> str:
    """Why the job with this log failed, or the last lines of the log if it has not said it; empty
    if there is no log."""
    error = read_state(log).error
    if not error:
        try:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        error = "\n".join(lines[-_MOST_LINES:])
    return f"{error}\n({log})\n"


def _file(log: Path) -> Path:
    return log.with_name(f".{log.name}.json")
