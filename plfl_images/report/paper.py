"""Table I of FedADC (arXiv 2012.09102): test accuracy in per cent, mean and standard deviation of
four trials of 500 rounds."""

from __future__ import annotations

from typing import NamedTuple

from plfl.config.study import Study
from plfl_images.data import skew_of


class Column(NamedTuple):
    """A column of the table: what was trained, and how labels were skewed."""

    title: str
    source: str
    split: str
    level: float
    """`data.skew.s` or `data.skew.alpha`."""
    participation: float


COLUMNS = (
    Column("CIFAR-10, s = 2, C = 0.2", "cifar10", "sort_and_partition", 2, 0.2),
    Column("CIFAR-10, s = 2, C = 0.1", "cifar10", "sort_and_partition", 2, 0.1),
    Column("CIFAR-100, α = 0.5, C = 0.2", "cifar100", "dirichlet", 0.5, 0.2),
    Column("CIFAR-100, α = 0.1, C = 0.2", "cifar100", "dirichlet", 0.1, 0.2),
    Column("CIFAR-100, α = 0.5, C = 0.1", "cifar100", "dirichlet", 0.5, 0.1),
    Column("CIFAR-100, α = 0.1, C = 0.1", "cifar100", "dirichlet", 0.1, 0.1),
)
ACCURACY: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "fedopt": (
        *((70.55, 2.5), (65.16, 4.1), (54.22, 1.08)),
        *((43.88, 1.4), (51.2, 1.55), (35.21, 1.51)),
    ),
    "moon": (
        *((51.53, 2.05), (44.83, 1.83), (45.38, 1.21)),
        *((29.32, 0.56), (42.83, 0.4), (24.5, 1.31)),
    ),
    "fedgkd": (
        *((75.28, 1.28), (66.0, 1.28), (54.41, 1.15)),
        *((44.32, 2.3), (50.93, 0.57), (37.54, 1.95)),
    ),
    "fedntd": (
        *((74.35, 0.22), (66.51, 5.35), (55.29, 1.51)),
        *((44.71, 1.1), (51.38, 0.74), (36.57, 1.75)),
    ),
    "feddyn": (
        *((80.58, 1.2), (77.34, 1.13), (63.4, 0.67)),
        *((58.49, 0.32), (60.5, 0.68), (53.86, 0.19)),
    ),
    "fedprox": (
        *((64.67, 1.63), (63.13, 4.48), (41.15, 1.06)),
        *((33.85, 0.79), (37.62, 0.82), (31.63, 0.33)),
    ),
    "fedadc": (
        *((81.13, 0.82), (78.62, 0.94), (62.04, 0.48)),
        *((57.91, 0.55), (60.66, 0.24), (56.37, 1.06)),
    ),
    "fedadc_plus": (
        *((81.42, 0.35), (78.77, 0.7), (63.8, 0.29)),
        *((59.75, 0.9), (61.55, 0.85), (56.9, 0.67)),
    ),
    "fedrs": ((69.1, 1.9), (66.55, 1.77), None, None, None, None),
}
"""By method: one entry per column. The server of all is that of FedAvg."""


def column_of(study: Study) -> Column | None:
    """The column with the study's skew and participation.

    Its own data set is preferred; handwritten digits take the one of CIFAR-10, or of CIFAR-100 with
    the same α.
    """
    skew, share = skew_of(study.data), study.federation.participation
    level = skew.s if skew.split == "sort_and_partition" else skew.alpha
    fitting = [
        c for c in COLUMNS if (c.split, c.level, c.participation) == (skew.split, level, share)
    ]
    own = [c for c in fitting if c.source == study.data.source]
    return next(iter(own or (fitting if study.data.source == "digits" else [])), None)


def accuracy(column: Column, method: str, server_opt: str) -> tuple[float, float] | None:
    """Mean and standard deviation of a method in a column, in per cent; None if it has none."""
    if server_opt != "fedavg" or method not in ACCURACY:
        return None
    return ACCURACY[method][COLUMNS.index(column)]
