"""How a claim about classifiers is judged: its comparisons are paired seed by seed.

All clients share the held-out images, so results vary over seeds only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from plfl.results.power import Spread
from plfl.results.statistics import Part
from plfl.results.verdict import FINITE, Verdict, finite_or_none
from plfl_images.results import classification


@dataclass(frozen=True)
class Pair:
    """How far one side is ahead of the other, seed by seed; NaN where a side diverged."""

    names: tuple[str, str]
    ahead: pd.Series[float]
    lost: tuple[str, ...] = ()
    """The side that should be ahead, if it diverged with a seed."""


def judge(blank: Verdict, pairs: Sequence[Pair]) -> Verdict:
    """Judge whether all comparisons are positive, or which one contradicts that most clearly."""
    lost = tuple(dict.fromkeys(name for pair in pairs for name in pair.lost))
    blank = replace(blank, diverged=lost)
    scored = [pair for pair in pairs if pair.ahead.notna().any()]
    if not scored:
        return replace(blank, reason="every comparison has a diverged side", needed=FINITE)
    scored = [pair for pair in scored if pair.ahead.dropna().any()]
    if not scored:
        reason = "both sides have identical results"
        return replace(blank, reason=reason, needed="Nothing would: they are the same.")
    tests = [classification.tested(np.asarray(pair.ahead.dropna(), float)) for pair in scored]
    effects = np.array([test["difference"] for test in tests])
    # With one seed the variation over seeds is unknown.
    p = np.array([1.0 if np.isnan(test["p"]) else test["p"] for test in tests])
    holds = bool((effects > 0).all())
    if holds:
        k = int(np.lexsort((-effects, p))[-1])  # the weakest comparison decides
    else:
        p = np.where(effects < 0, np.minimum(len(p) * p, 1), 1.0)
        k = int(np.lexsort((effects, p))[0])
    count = int((effects > 0).sum())
    ahead, (one, other) = scored[k].ahead.dropna(), scored[k].names
    reason = f"{count} of {len(effects)} comparisons support it; " * (len(effects) > 1)
    verdict = replace(
        blank,
        answer="holds" if holds and not lost else "undecided" if holds else "does not hold",
        effect=float(effects[k]),
        low=finite_or_none(tests[k]["low"]),
        high=finite_or_none(tests[k]["high"]),
        p=float(p[k]),
        p_alone=float(p[k]),
        seeds=len(ahead),
        reason=f"{reason}{one} against {other}",
        spread=_spread(ahead, 1 if holds else len(effects)),
    )
    return replace(verdict, needed=FINITE) if lost and holds else verdict


def _spread(ahead: pd.Series[float], looks: int) -> Spread:
    """The variance of an effect, all of which is over seeds: more clients would not reduce it."""
    n = len(ahead)
    variance = float(ahead.var(ddof=1)) / n if n > 1 else 0.0
    return Spread({"seeds": Part(n, variance, n - 1)}, looks)
