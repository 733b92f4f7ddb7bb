"""Table I of FedADC (arXiv 2012.09102), from `paper.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from plfl.study import Study
from plfl_images.data import skew_of


class Column(BaseModel, frozen=True):
    """A column of the table: the data set and the skew of its labels."""

    title: str
    source: str
    split: str
    level: float
    """`data.skew.s` or `data.skew.alpha`."""
    participation: float
    accuracy: dict[str, tuple[float, float]]
    """Test accuracy in per cent by method, mean and standard deviation."""

    def find_accuracy(self, method: str, server_opt: str) -> tuple[float, float] | None:
        """The accuracy of a method; None if the column has none. All servers are those of
        FedAvg."""
        return self.accuracy.get(method) if server_opt == "fedavg" else None


PUBLISHED_COLUMNS = TypeAdapter(list[Column]).validate_python(
    tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["column"]
)


def column_of(study: Study) -> Column | None:
    """The column with the study's skew and participation.

    A column of the study's own data set is preferred. For handwritten digits it is the column of
    CIFAR-10, or of CIFAR-100 with the same α.
    """
    skew, share = skew_of(study.data), study.federation.participation
    level = skew.s if skew.split == "sort_and_partition" else skew.alpha
    fitting = [
        c
        for c in PUBLISHED_COLUMNS
        if (c.split, c.level, c.participation) == (skew.split, level, share)
    ]
    columns = [c for c in fitting if c.source == study.data.source]
    return next(iter(columns or (fitting if study.data.source == "digits" else [])), None)
