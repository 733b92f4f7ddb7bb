"""What claims can compare: the scores that they name, in words."""

from typing import NamedTuple


class ClaimScore(NamedTuple):
    """A score of claims: what the first side does, before the second one is named. `{client_word}`
    is the word of the study for a client."""

    of_forecasts: str = ""
    """In a study of forecasts; empty: these have no such score."""
    of_classifiers: str = ""
    """In a study of classifiers; empty: these have no such score."""
    of_share: str = ""
    """Before a share of the other side's, if it is counted, not estimated; else empty."""

    def describe(self, is_of_forecasts: bool) -> str:
        """The words in a study of forecasts, or else of classifiers; empty if it has none."""
        return self.of_forecasts if is_of_forecasts else self.of_classifiers


LOADS_SCORE = "loads"
"""The score of a claim about the loads of the clients, which has no sides."""
CLAIM_SCORES = {
    "": ClaimScore("has a lower error than", "is more accurate than"),
    "spread": ClaimScore("has errors that differ less between {client_word}s than those of"),
    "quarter": ClaimScore("", "is more accurate after a quarter of the rounds than"),
    "own": ClaimScore("", "is more accurate on the {client_word}s' own labels than"),
    "bytes": ClaimScore("sends fewer bytes than", "sends fewer bytes than", "sends"),
    "bytes_down": ClaimScore("receives fewer bytes than", "receives fewer bytes than", "receives"),
    "seconds": ClaimScore("takes less time than", "", "takes"),
    "waiting": ClaimScore("has shorter waiting times than", "", "waits"),
    LOADS_SCORE: ClaimScore(
        "the {client_word}s' loads differ by more than a factor of {share:g} in their mean and in "
        "their spread (geometric standard deviation)"
    ),
}
"""By the name in `score`; the empty one is the error."""
COUNTED = tuple(name for name, score in CLAIM_SCORES.items() if score.of_share)
"""Scores that are counted in the summary and not estimated."""
