"""Where a job stands: data that go with a line of its log, for whoever shows the job."""

from dataclasses import dataclass
from typing import Any

EXTRA = "job_state"
"""The attribute of a log record that has the state."""


@dataclass(frozen=True)
class JobState:
    """Where a job stands after its last message."""

    part: str = ""
    """What it does one after the other, such as `round`; empty if it has no such parts."""
    parts_done: int = 0
    """How many of them are done."""
    total: int = 0
    """How many there are."""
    holder: str = ""
    """The process for which it waits, in words."""
    error: str = ""
    """Why it failed."""
    is_interrupted: bool = False
    """Whether it was stopped."""
    answer: str = ""
    """What the page answers that it has written."""

    @property
    def share(self) -> float:
        """The share of the job that is done, from 0 to 1."""
        return self.parts_done / self.total if self.total else 0.0

    def as_extra(self) -> dict[str, Any]:
        """The argument `extra` of a message about this state."""
        return {EXTRA: self}

    def __str__(self) -> str:
        """How far it is, such as `round 3 of 40`; empty if that is not known."""
        if self.holder:
            return f"waits for {self.holder}"
        return f"{self.part} {self.parts_done} of {self.total}" if self.total else ""
