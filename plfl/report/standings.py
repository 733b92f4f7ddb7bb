"""The table of forecasters: the best of each way of sharing beside the baselines."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from plfl.base.text import short_number
from plfl.config.baselines import BASELINE
from plfl.report.rendering import score
from plfl.results.dominance import is_decided_by_few
from plfl.results.overview import INTERVALS
from plfl.results.words import USE_WORDS
from plfl.study.axes import Axis

SCORE_HEADINGS = {"scaled": "CRPS", "coverage": "Coverage, {} %", "width": "Width, {} %"}
"""The headings of the scores of intervals, by the first word of their columns."""


@dataclass(frozen=True)
class ForecasterRow:
    """A forecaster in a state of a variant."""

    places: list[str]
    """The values on the axes, then the state if the study has several."""
    forecaster: str
    cell: str
    """Its name, as `plfl compare` takes it."""
    is_baseline: bool
    test: str
    interval: str
    other_columns: list[str]
    """The entries below `Standings.other_columns`."""
    is_use: bool = False
    """Whether it is what is in use."""
    name: str = ""
    """The short name of a baseline, as `plfl forecast --with` takes it."""
    is_counted: bool = True
    """Whether it has a rank: not if it has seen the test set."""


@dataclass(frozen=True)
class Standings:
    """The table of forecasters, in groups."""

    other_columns: list[str]
    """The headings of numbers besides the test error and its interval."""
    groups: list[list[ForecasterRow]]
    """The rows of each state and variant, by validation error."""


def standings(
    best: pd.DataFrame,
    axes: Sequence[Axis] = (),
    pretrained: Collection[str] = (),
) -> Standings:
    """The table, from the rows of `plfl.results.overview.best_cells`. The baselines that are
    `pretrained` on the test set, too, stand at the end, without rank."""
    intervals = [str(column) for column in best if INTERVALS.fullmatch(str(column))]
    headings = {"validation_mase": "Validation MASE"}
    headings |= {"wape": "WAPE, %"} if "wape" in best else {}
    headings |= {"bytes": "MB sent"} if best["bytes"].any() else {}
    headings |= {column: _word_heading(column) for column in intervals}
    places = [axis.column for axis in axes]
    places += ["state"] if len(best["state"].unique()) > 1 else []
    groups = []
    keys = ["variant", "state"] if "variant" in best else ["state"]
    for _, part in best.groupby(keys, sort=False):
        rows = part.sort_values("validation_mase", kind="stable").to_dict("records")
        shown_rows = [_row(row, places, list(headings), pretrained) for row in rows]
        groups.append(sorted(shown_rows, key=lambda row: not row.is_counted))
    return Standings(list(headings.values()), groups)


def _word_heading(column: str) -> str:
    first, _, remainder = column.partition("_")
    if remainder.endswith("_least"):
        return f"Least covered, {remainder.removesuffix('_least')} %"
    return SCORE_HEADINGS[first].format(remainder)


def _row(
    row: Mapping[Any, Any],
    places: list[str],
    columns: list[str],
    pretrained: Collection[str],
) -> ForecasterRow:
    is_baseline = row["sharing"] == BASELINE
    has_no_score = pd.isna(row["mase"]) and not is_baseline
    is_counted = not (is_baseline and row["method"] in pretrained)
    remark = "" if is_counted else ", trained on these data before: does not count"
    return ForecasterRow(
        [str(row[place]) for place in places],
        row["forecaster"] + remark,
        "" if pd.isna(row["cell"]) else row["cell"],
        is_baseline,
        "diverged" if has_no_score else _score(row),
        "" if pd.isna(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}",
        [_number(column, row[column]) for column in columns],
        row["sharing"] in USE_WORDS,
        row["method"] if is_baseline else "",
        is_counted,
    )


def _score(row: Mapping[Any, Any]) -> str:
    """The test error: the mean over clients or, if few of them decide it, the median first."""
    if is_decided_by_few(row["mase"], row["mase_median"], row["clients"]):
        return f"{row['mase_median']:.3f} (median; mean {row['mase']:,.1f})"
    return score(row["mase"], row["std"])


def _number(column: str, value: float) -> str:
    if not math.isfinite(value):
        return "n/a"
    if column == "bytes":
        return short_number(value / 1e6)
    if column == "wape" or column.startswith("coverage"):
        return f"{100 * value:.1f}"
    return f"{value:.3f}"
