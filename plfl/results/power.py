"""What a study can decide, and how much more data would decide an undecided claim.

The true effect and its variance are assumed to be those that the study shows. The parts of the
variance (`plfl.results.statistics`) shrink as their numbers of levels grow. A number is enough if
the effect would be significant with probability `POWER`, that is, if it exceeds

    t(1 - α/2, ν) √V + t(POWER, ν₀) √V₀

for the variance V and the degrees of freedom ν expected of every source that it is tested against.
V₀ and ν₀ are those of all factors together.
"""

import bisect
import math
from collections.abc import Mapping

from scipy import special

from plfl.results.statistics import Comparison, VariancePart, sources
from plfl.results.words import listed
from plfl.study import Study

POWER = 0.8
"""Probability that the recommended number decides a claim."""
MANY = 30
"""Number of clients from which on differences of moderate size are decided."""
MOST = {"seeds": 50, "clients": 1000, "weeks": 104}
"""Upper limits of the recommended numbers."""
FEWEST = {"seeds": 3, "clients": 6, "weeks": 4}
"""Recommended numbers if a factor has too few levels to show any variation."""
_HOW = {
    "seeds": "seeds (grid.seeds)",
    "clients": "clients in every state (data.clients)",
    "weeks": "weeks of test (windows.split or data.origins)",
}


Parts = Mapping[str, VariancePart]
"""The parts of the variance of an effect, by factor."""


def _at(parts: Parts, factor: str, levels: int) -> Parts:
    """The expected parts if a factor had another number of levels."""
    part = parts[factor]
    # Each state loses one degree of freedom.
    freedom = part.freedom * (levels - 1) / (part.levels - 1)
    return {**parts, factor: VariancePart(levels, part.variance * part.levels / levels, freedom)}


def _decides(parts: Parts, effect: float, level: float) -> bool:
    """Whether an effect would be significant at a level with probability `POWER`."""
    tested = sources(parts)
    least = max(-special.stdtrit(p.freedom, level / 2) * math.sqrt(p.variance) for p in tested)
    whole = tested[0]
    scatter = special.stdtrit(whole.freedom, POWER) * math.sqrt(whole.variance)
    return bool(abs(effect) >= least + scatter)


def too_few(lacking: list[str]) -> str:
    """A sentence: what a study needs because its factors `lacking` have too few levels."""
    return f"Run at least {' and '.join(f'{FEWEST[factor]} {_HOW[factor]}' for factor in lacking)}."


def undecidable(study: Study) -> str:
    """What comparisons of cells in a study cannot decide, and what they need; empty if it has many
    clients.

    The number of weeks of its test sets is known only from the data.
    """
    numbers = {"seeds": len(study.grid.seeds)}
    if study.task.forecasts:  # the clients of classifiers share their test set
        numbers["clients"] = min(map(study.data.clients_of, study.data.states))
    if lacking := [factor for factor, n in numbers.items() if n < 2]:
        ones = " and ".join(f"one {factor[:-1]}" for factor in lacking)
        return f"no comparison is decided with {ones}. {too_few(lacking)}"
    clients, one = sum(map(study.data.clients_of, study.data.states)), study.participant
    if clients >= MANY or not study.task.forecasts:
        return ""
    return (
        f"with {clients} {one}s only large differences are decided; more {one}s help, more seeds "
        "do not"
    )


def advice(comparison: Comparison, level: float, sufficient: int = 1) -> str:
    """What would decide a claim, in one sentence: the factor that has to grow least.

    `level`: the significance level after correction for all other claims; `sufficient`: of how many
    comparisons any one could have decided it.
    """
    parts, effect, level = comparison.parts, comparison.effect, level / sufficient
    if comparison.lacking:
        return too_few(comparison.lacking)
    needed = {}
    for factor in (name for name in MOST if name in parts):
        numbers = range(parts[factor].levels + 1, MOST[factor] + 1)
        # All numbers above one that is enough are enough, too.
        i = bisect.bisect_left(
            numbers,
            True,
            key=lambda n, f=factor: _decides(_at(parts, f, n), effect, level),  # type: ignore[misc]
        )
        if i < len(numbers):
            needed[factor] = numbers[i]
    if not needed:
        return (
            f"More {listed(parts, 'or')} alone would not decide it: the difference is too small, "
            "or several vary too much."
        )
    factor = min(needed, key=lambda name: needed[name] / parts[name].levels)
    return (
        f"With about {needed[factor]} {factor}{' of test' * (factor == 'weeks')} "
        f"({parts[factor].levels} now) it would be decided, if the difference stays as it is; "
        "fewer do not suffice."
    )
