"""Which clients take part in a round: `federation.selection`, one function per rule.

Most rules choose clients together. They get random orders of the clients, one after another, the
number of clients to choose, and, if they need them, the labels that each client told the server
before round 1. Other rules decide for each client alone. To add a rule, add a function to `RULES`
and its name to `plfl.config.federation.FederationSettings.selection`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import ConfigError
from plfl.base.rounding import count_participants
from plfl.training.batches import stream

ClientNumbers = NDArray[np.int64]
"""Indices of clients."""
LabelMask = NDArray[np.bool_]
"""Which labels (N, classes) each client has."""

MOST_ORDERS = 1000
"""How many random orders a rule may reject before it chooses in another way or gives up."""


def uniform(
    orders: Iterator[ClientNumbers], count: int, _labels: LabelMask | None
) -> ClientNumbers:
    """All sets of `count` clients are equally probable."""
    return next(orders)[:count]


def data_aware(
    orders: Iterator[ClientNumbers], count: int, labels: LabelMask | None
) -> ClientNumbers:
    """Together they have every label that any client has (FedADC, arXiv 2012.09102, section IV);
    ConfigError if `count` clients never do.

    All sets for which this is true are equally probable: uniform draws are repeated. Where
    that takes more than `MOST_ORDERS` draws, clients are added greedily instead, each time the one
    with most labels that are still missing.
    """
    assert labels is not None
    labels_of_anyone = labels.any(0)
    for order in itertools.islice(orders, MOST_ORDERS):
        if (labels[order[:count]].any(0) == labels_of_anyone).all():
            return order[:count]
    for order in itertools.islice(orders, MOST_ORDERS):
        if (cover := _cover(order, count, labels)) is not None:
            return cover
    raise ConfigError.at_key(
        "federation.selection",
        f"'data_aware' finds no {count} of {len(labels)} clients that have all "
        f"{labels_of_anyone.sum()} labels together",
        "raise federation.participation, or let clients have more labels (data.skew)",
    )


def _cover(order: ClientNumbers, count: int, labels: LabelMask) -> ClientNumbers | None:
    """`count` clients that have all labels, chosen greedily; None if this fails. Of equally good
    clients, the first in `order` is added. Once all labels are there, the first clients left in
    `order` follow."""
    missing, cover = labels.any(0), order[:0]
    while missing.any():
        if len(cover) == count:
            return None
        best = order[(labels[order] & missing).sum(1).argmax()]
        cover, missing = np.append(cover, best), missing & ~labels[best]
    other_clients = order[~np.isin(order, cover)]
    return np.append(cover, other_clients[: count - len(cover)])


class Rule(NamedTuple):
    """A way to choose the clients of a round."""

    choose: Callable[[Iterator[ClientNumbers], int, LabelMask | None], ClientNumbers] = uniform
    """Chooses `count` of the clients, given random orders of them and their labels."""
    needs_labels: bool = False
    """Whether the clients tell the server before round 1 which labels they have."""
    takes_part: Callable[[Selection, str, int], bool] | None = None
    """Decides whether a client takes part in a round from its name alone."""


def poisson(selection: Selection, client: str, t: int) -> bool:
    """Every client takes part with probability `share`; a round may be empty."""
    return stream(selection.seed, f"/poisson/{client}", t).random() < selection.share


def allocation(selection: Selection, client: str, t: int) -> bool:
    """Every client takes part in a `share` of the rounds, drawn at random for each."""
    count = count_participants(selection.rounds, selection.share)
    order = stream(selection.seed, f"/allocation/{client}", 0).permutation(selection.rounds)
    return t - 1 in order[:count]


RULES = {
    "uniform": Rule(),
    "poisson": Rule(takes_part=poisson),
    "allocation": Rule(takes_part=allocation),
    "data_aware": Rule(data_aware, needs_labels=True),
}
"""The rules of `federation.selection`."""


@dataclass
class Selection:
    """Chooses the clients of each round of one federation."""

    seed: int
    clients: list[str]
    """Names of the N clients."""
    share: float
    """Fraction of the clients that take part, `federation.participation`; see
    `plfl.base.rounding.count_participants`."""
    rule: Rule = RULES["uniform"]
    labels: LabelMask | None = None
    """The labels that the clients told the server, if the rule needs them."""
    rounds: int = 1
    """Number of rounds T."""

    def draw(self, t: int, strata: NDArray[np.int64] | None = None) -> ClientNumbers:
        """Indices, ascending, of the clients that take part in round `t`: a fraction of all
        clients, or of each stratum of `strata` (N,)."""
        if self.rule.takes_part is not None:
            return np.flatnonzero([self.rule.takes_part(self, name, t) for name in self.clients])
        if strata is None:
            strata = np.zeros(len(self.clients), dtype=np.int64)
        by_name, participants = np.argsort(self.clients), []
        for stratum in np.unique(strata):
            random = stream(self.seed, "/participants", t)  # the same orders for every stratum
            orders = (by_name[random.permutation(len(by_name))] for _ in itertools.count())
            members = (order[strata[order] == stratum] for order in orders)
            count = count_participants(int((strata == stratum).sum()), self.share)
            participants.append(self.rule.choose(members, count, self.labels))
        return np.sort(np.concatenate(participants))
