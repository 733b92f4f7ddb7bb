"""The rule by which forecasters are chosen: the lowest error on validation."""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import numpy as np


class Option(Protocol):
    """What can be chosen."""

    @property
    def validation(self) -> Any:
        """Its validation error; NaN if it diverged."""


C = TypeVar("C", bound=Option)


def best(among: Iterable[C]) -> C | None:
    """The option of lowest validation error, the first of equal ones; None if all diverged."""
    finite = [option for option in among if np.isfinite(option.validation)]
    return min(finite, key=lambda option: option.validation, default=None)
