"""Whether a federation is worth its effort: claims about cells and baselines, state by state.

Users ask these questions; the paper does not make these claims. The baselines are those of
`plfl.baselines`. Both sides of a comparison are selected on validation.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE, rivals
from plfl.config.study import Study
from plfl.results import scarcity
from plfl.results.paper_claims import scheme
from plfl.results.provenance import own_table
from plfl.results.scores import Scores
from plfl.results.statistics import DRAWS, Comparison
from plfl.results.tables import Tables
from plfl.results.verdict import (
    Evidence,
    NotInStudyError,
    Question,
    Verdict,
    contest,
    judge,
    shared_schemes,
)

CLAIMS = {
    "n1": "some federated cell beats the best baseline that sends no data",
    "n2": "PL-FL (P2) beats LightGBM per meter",
    "n3": "a client that joins late beats LightGBM trained on the same weeks",
}
"""The claims by name."""
LIGHTGBM = ["lightgbm", "lightgbm_lags", "lightgbm_context"]
"""The baselines that train one LightGBM per meter."""
WEEKS = 16
"""Longest history, in weeks, at which a client counts as having joined late."""


def _against(rivals: list[str], schemes: list[str], of_states: Mapping[str, Scores]) -> Evidence:
    """The best cell of some sharing schemes against the best of some baselines."""
    if not any(found.where(sharing=BASELINE).any() for found in of_states.values()):
        raise NotInStudyError(
            "the results have no baselines; in a deployed study the data stay with the clients"
        )
    return contest(of_states, {"sharing": schemes}, {"sharing": BASELINE, "method": rivals})


def _federated(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(n1): the best cell that shares parameters against the best baseline that sends no data."""
    silent = rivals(study.baselines.further)
    return _against(silent, shared_schemes(study), of_states)


def _pl_fl(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(n2): the best cell of PL-FL against the better LightGBM per meter."""
    return _against(LIGHTGBM, [scheme(study, "PL-FL")], of_states)


ABOUT_SCORES: dict[str, Question] = {"n1": _federated, "n2": _pl_fl}
"""The evidence for each claim about scores, for one state at a time."""


def about_tables(tables: Tables) -> list[Verdict]:
    """The claim about short histories (n3), for every state."""
    return [_late(tables, state) for state in tables.study.data.states]


def _late(tables: Tables, state: str) -> Verdict:
    blank = Verdict("n3", "local", state)
    try:
        evidence = _histories(_short_histories(tables), state)
    except NotInStudyError as lacking:
        return replace(blank, answer="not in this study", reason=str(lacking))
    return judge(blank, evidence, DRAWS)


def _short_histories(tables: Tables) -> pd.DataFrame:
    """The table of `plfl scarcity`, if it belongs to the study in its present form."""
    if not (Path(tables.folder) / "scarcity.csv").is_file():
        raise NotInStudyError("there is no scarcity.csv; run plfl scarcity")
    table = own_table(tables, "scarcity.csv", scarcity.mark)
    if table is None:
        raise NotInStudyError("scarcity.csv belongs to another study; run plfl scarcity again")
    return table


def _histories(table: pd.DataFrame, state: str) -> Evidence:
    """Calibrated clients against LightGBM on the same history, for each history up to `WEEKS`."""
    here = table[(table["state"] == state) & (table["weeks"] <= WEEKS)]
    late = here[(here["forecaster"] == scarcity.CALIBRATED) & (here["model"] == "local")]
    alone = here[(here["forecaster"] == scarcity.LIGHTGBM) & (here["model"] == "baseline")]
    weeks = sorted(set(late["weeks"]) & set(alone["weeks"]))
    if not weeks:
        raise NotInStudyError(
            "scarcity.csv has no clients that join late, or no LightGBM; set scarcity.late, then "
            "run plfl scarcity"
        )
    clients = late["client"].unique()
    comparisons, blocking = [], []
    for of_weeks in weeks:
        ours = late[late["weeks"] == of_weeks].pivot(index="client", columns="seed", values="mase")
        theirs = alone[alone["weeks"] == of_weeks].set_index("client")["mase"]
        difference = -ours.reindex(clients).sub(theirs.reindex(clients), axis=0).to_numpy(float)
        names = [
            f"{state}, {of_weeks:g} weeks: {name}"
            for name in (scarcity.CALIBRATED, scarcity.LIGHTGBM)
        ]
        # Where LightGBM has a score, a missing score means that the model diverged.
        scored = theirs.reindex(clients).notna().to_numpy()
        if np.isfinite(difference[scored]).all():
            comparisons.append(Comparison((names[0], names[1]), {state: difference}))
        else:
            blocking.append(names[0])
    return Evidence(comparisons, tuple(blocking))
