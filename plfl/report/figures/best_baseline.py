"""The best baseline of each state in the legends of figures."""

from collections.abc import Collection

from plfl.results.labels import baseline_label


def legend_labels(best: dict[str, str], states: Collection[str]) -> list[str]:
    """One legend entry per baseline in `best`, with its states unless it is the best in all.

    Args:
        best: the best baseline of each state.
        states: all states that the figure shows.
    """
    labels = []
    for name in dict.fromkeys(best.values()):
        where = [state for state in states if best.get(state) == name]
        of = "" if len(where) == len(states) else f" ({', '.join(where)})"
        labels.append(f"best baseline{of}: {baseline_label(name)}")
    return labels
