"""Whether a federation is worth its effort: claims about cells and baselines, state by state.

Users ask these questions; the paper does not make these claims. The baselines are those of
`plfl.baselines`. Both sides of a comparison are selected on validation.
"""

from collections.abc import Mapping

from plfl.baselines import BASELINE, rivals
from plfl.config.study import Study
from plfl.results.claim import texts
from plfl.results.paper_claims import scheme
from plfl.results.scores import Scores
from plfl.results.verdict import Evidence, NotInStudyError, Question, contest, shared_schemes

CLAIMS = texts("users")
"""The claims in words, by name."""
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


def _late(study: Study, of_states: Mapping[str, Scores]) -> Evidence:
    """(n3): the best cell of clients that join late against the better LightGBM per meter."""
    late = [name for name in study.grid.sharing if study.joins(name) == "late"]
    if not late:
        raise NotInStudyError("the grid has no sharing scheme with join: late")
    if study.windows.history is None or study.windows.history > WEEKS:
        raise NotInStudyError(f"windows.history is not set, or is above {WEEKS} weeks")
    return _against(LIGHTGBM, late, of_states)


ABOUT_SCORES: dict[str, Question] = {"n1": _federated, "n2": _pl_fl, "n3": _late}
"""The evidence for each claim about scores, for one state at a time."""
