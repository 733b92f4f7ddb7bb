"""The rule by which forecasters are chosen: the lowest error on validation."""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import numpy as np


class Candidate(Protocol):
    """What can be chosen."""

    @property
    def validation(self) -> Any:
        """Its validation error; NaN if it diverged."""


C = TypeVar("C", bound=Candidate)


def best(among: Iterable[C]) -> C | None:
    """The candidate of lowest validation error, the first of equal ones; None if all diverged."""
    finite = [candidate for candidate in among if np.isfinite(candidate.validation)]
    return min(finite, key=lambda candidate: candidate.validation, default=None)
