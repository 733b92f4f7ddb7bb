"""What each client gains from the federation, compared with the same client alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE
from plfl.results.baseline_claims import LIGHTGBM
from plfl.results.findings import MODEL
from plfl.results.scores import Forecaster, best, scores
from plfl.results.statistics import Comparison
from plfl.results.tables import Tables
from plfl.results.verdict import NotInStudyError, shared_schemes

FEDERATION, ALONE, BOOSTING = "federation", "alone", "LightGBM"
FEWEST = 4
"""The least number of weeks of the test set for an interval."""
MONTH = 30
"""Days of a month."""


@dataclass(frozen=True)
class Choice:
    """The forecasters of a state that are compared, each the best of its kind on validation."""

    state: str
    best: dict[str, Forecaster]
    """The best forecaster of each kind that the study has: the federation, training alone, and a
    LightGBM on a client's own data."""

    @property
    def rival(self) -> str:
        """The kind without a federation that has the lowest validation MASE."""
        rivals = [kind for kind in self.best if kind != FEDERATION]
        return min(rivals, key=lambda kind: self.best[kind].validation)


@dataclass(frozen=True)
class Meter:
    """A client, its test MASE by kind of forecaster, and its gain from the federation."""

    state: str
    client: str
    mase: dict[str, float]
    """Means over seeds, by kind."""
    gain: float
    """MASE of the rival minus that of the federation: positive where the federation is better."""
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
    """The forecasters to compare; states without a federation or without a rival are left out."""
    study = tables.study
    try:
        shared = shared_schemes(study)
    except NotInStudyError:
        return
    alone = [s for s in study.grid.sharing if study.combinations.shares_nothing(s)]
    for found in scores(tables, MODEL, baselines=True).values():
        kinds = {
            FEDERATION: found.those(sharing=shared),
            ALONE: found.those(sharing=alone),
            BOOSTING: found.those(sharing=BASELINE, method=LIGHTGBM),
        }
        chosen = {kind: one for kind, among in kinds.items() if (one := best(among))}
        if FEDERATION in chosen and len(chosen) > 1:
            yield Choice(found.state, chosen)


def meters(tables: Tables, choice: Choice) -> list[Meter]:
    """The clients of a state whose MASE is defined, in the order of the study."""
    energy = monthly_error(tables, choice.state)
    weekly = {kind: one.weekly.mean(axis=1) for kind, one in choice.best.items()}
    found = []
    for i, client in enumerate(choice.best[FEDERATION].clients):
        mase = {kind: float(of_clients[i].sum()) for kind, of_clients in weekly.items()}
        gain = mase[choice.rival] - mase[FEDERATION]
        if not np.isfinite(gain):
            continue
        weeks = weekly[choice.rival][i] - weekly[FEDERATION][i]
        own = Comparison((), {client: weeks[None, None]}, trained=False, sampled=False)
        low, high = own.interval if len(weeks) >= FEWEST else (np.nan, np.nan)
        share = gain / mase[choice.rival] if mase[choice.rival] else np.nan
        saved = gain * float(energy[client])
        found.append(Meter(choice.state, client, mase, gain, low, high, share, saved))
    return found


def monthly_error(tables: Tables, state: str) -> pd.Series[float]:
    """The absolute errors of persistence in 30 days in kWh, by client. A MASE of 1 corresponds to
    them."""
    about = tables.clients[tables.clients["state"] == state].set_index("client")
    return about["persistence_mae_test"] * 24 * 60 / about["interval"] * MONTH
