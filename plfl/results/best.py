"""The rule by which forecasters are chosen: the lowest error on validation."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd


class Option(Protocol):
    """What can be chosen."""

    @property
    def validation(self) -> Any:
        """Its validation error; NaN if it diverged."""


C = TypeVar("C", bound=Option)
K = TypeVar("K", bound=Hashable)


def lowest(errors: Mapping[K, float]) -> K | None:
    """The key of the lowest validation error, the first of equal ones; None if all diverged."""
    finite = {key: error for key, error in errors.items() if np.isfinite(error)}
    return min(finite, key=finite.__getitem__, default=None)


def best(among: Iterable[C]) -> C | None:
    """The option of lowest validation error; see `lowest`."""
    options = [*among]
    chosen = lowest({i: option.validation for i, option in enumerate(options)})
    return None if chosen is None else options[chosen]


def best_rows(table: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Of the rows with equal `keys`, that of lowest `validation_mase`, the first of equal ones, and
    the first if all diverged (NaN)."""
    errors = table["validation_mase"].fillna(np.inf)
    labels = errors.groupby([table[key] for key in keys], sort=False).idxmin()
    return table.loc[labels]
