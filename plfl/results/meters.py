"""What each client gains from the federation, beside the same client without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from plfl.baselines import BASELINE
from plfl.results.baseline_claims import LIGHTGBM
from plfl.results.findings import MODEL
from plfl.results.scores import AXES, Scores, scores
from plfl.results.tables import Tables
from plfl.results.verdict import NotInStudyError, shared_schemes

FEDERATION, ALONE, BOOSTING = "federation", "alone", "LightGBM"
FEWEST = 4
"""Fewest weeks of the test set from which an interval is computed."""
MONTH = 30
"""Days of a month."""


@dataclass(frozen=True)
class Choice:
    """The forecasters of a state that are compared, each the best of its kind on validation."""

    state: str
    names: dict[str, tuple[str, ...]]
    """The combination (`plfl.results.scores.AXES`) of each kind that the study has: the federation,
    training alone, and a LightGBM on a client's own data."""
    rival: str
    """The kind of lowest validation MASE that needs no federation."""


@dataclass(frozen=True)
class Meter:
    """A client, its test MASE by kind of forecaster, and its gain from the federation."""

    state: str
    client: str
    mase: dict[str, float]
    """Means over seeds."""
    gain: float
    """MASE of the rival less that of the federation: positive where the federation is better."""
    low: float
    high: float
    """Ends of the gain's 95 % interval over the weeks of the test set; NaN with fewer than
    `FEWEST`."""
    share: float
    """The gain as a share of the rival's error."""
    energy: float
    """Absolute errors that the federation saves in 30 days, in kWh."""

    @property
    def answer(self) -> int:
        """1 if the interval shows a gain, -1 if it shows a loss, 0 if it shows neither."""
        return int(self.low > 0) - int(self.high < 0)


def choices(tables: Tables) -> Iterator[Choice]:
    """The forecasters to compare; states without a federation or without a rival are left out.

    Raises:
        ResultsError: a table is missing, damaged or has another format.
    """
    study = tables.study
    try:
        shared = shared_schemes(study)
    except NotInStudyError:
        return
    alone = [s for s in study.grid.sharing if study.combinations.shares_nothing(s)]
    for found in scores(tables, MODEL, baselines=True).values():
        kinds = {
            FEDERATION: found.where(sharing=shared),
            ALONE: found.where(sharing=alone),
            BOOSTING: found.where(sharing=BASELINE, method=LIGHTGBM),
        }
        best = {kind: found.best(among) for kind, among in kinds.items()}
        numbers = {kind: k for kind, k in best.items() if k is not None}
        if FEDERATION in numbers and len(numbers) > 1:
            yield _choice(found, numbers)


def _choice(found: Scores, numbers: dict[str, int]) -> Choice:
    rivals = [kind for kind in numbers if kind != FEDERATION]
    names = {kind: found.combinations[k] for kind, k in numbers.items()}
    return Choice(found.state, names, min(rivals, key=lambda kind: found.validation[numbers[kind]]))


def meters(tables: Tables, choice: Choice) -> list[Meter]:
    """The clients of a state whose MASE is defined, in the order of the study.

    Raises:
        ResultsError: errors.parquet is missing, damaged or has another format.
    """
    errors = {kind: _errors(tables, choice.state, name) for kind, name in choice.names.items()}
    here = tables.clients[tables.clients["state"] == choice.state]
    per_day = dict(zip(here["client"], 24 * 60 / here["interval"], strict=True))
    found = []
    for client in errors[FEDERATION]["client"].unique():
        parts = {
            kind: table[table["client"] == client].set_index("day")
            for kind, table in errors.items()
        }
        scale = float(parts[FEDERATION]["scale"].iloc[0])
        if not scale > 0:
            continue
        mase = {k: float(t["error"].sum() / t["forecasts"].sum()) / scale for k, t in parts.items()}
        gain = mase[choice.rival] - mase[FEDERATION]
        spread = _spread(parts[choice.rival], parts[FEDERATION]) / scale
        found.append(
            Meter(
                choice.state,
                str(client),
                mase,
                gain,
                gain - spread,
                gain + spread,
                gain / mase[choice.rival] if mase[choice.rival] else np.nan,
                gain * scale * MONTH * per_day[client],
            )
        )
    return found


def _errors(tables: Tables, state: str, name: tuple[str, ...]) -> pd.DataFrame:
    """Errors of a combination by `client` and `day`: sums over the seeds."""
    equal = dict(zip(AXES, name, strict=True))
    model = BASELINE if equal["sharing"] == BASELINE else MODEL
    columns = ["client", "day", "error", "forecasts", "scale"]
    table = tables.errors(columns, state=state, model=model, **equal)
    by_day = table.groupby(["client", "day"], sort=False, as_index=False)
    return by_day.agg(
        error=("error", "sum"), forecasts=("forecasts", "sum"), scale=("scale", "first")
    )


def _spread(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Half the 95 % interval of the difference of two mean errors, from its weekly means.

    Days that follow each other have alike errors, so weeks, not days, are the units.
    """
    means = [_weekly(table) for table in (first, second)]
    differences = means[0] - means[1]
    n = len(differences)
    if n < FEWEST:
        return np.nan
    return float(stdtrit(n - 1, 0.975) * differences.std(ddof=1) / np.sqrt(n))


def _weekly(table: pd.DataFrame) -> NDArray[np.float64]:
    """Mean errors in successive seven days; a last part of less than four days is left out."""
    days = pd.DatetimeIndex(table.index)
    week = (days - days.min()).days // 7
    sums = table[["error", "forecasts"]].groupby(week).sum()
    full = np.bincount(week, minlength=int(week.max()) + 1)[sums.index] >= FEWEST
    kept = sums[full]
    return (kept["error"] / kept["forecasts"]).to_numpy(float)
