"""What an attacker can tell from single updates: three guesses, and how often they are right.

Sources: membership from gradients: Milad Nasr, Reza Shokri and Amir Houmansadr, "Comprehensive
Privacy Analysis of Deep Learning", IEEE S&P 2019, https://arxiv.org/abs/1812.00910; properties of
a batch: Luca Melis, Congzheng Song, Emiliano De Cristofaro and Vitaly Shmatikov, "Exploiting
Unintended Feature Leakage in Collaborative Learning", IEEE S&P 2019,
https://arxiv.org/abs/1805.04049.

Deviation: membership is guessed by least squares instead of a trained network.

The attacker observes updates (n, d) and wants to know something about each. He also knows other
updates (n, d) together with the answer. Row i of both is of the same client and round; no guess
about row i uses the known row i.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Kinds = NDArray[np.int64]


def membership(update: Numbers, gradients: Numbers, is_in: NDArray[np.bool_]) -> float:
    """How well an update (d,) separates the windows that it was trained on from others.

    The update is a weighted sum of the windows' `gradients` (m, d), by least squares. The windows
    with the most negative weights are guessed to be in.

    Returns:
        The AUC: the probability that the right one of two windows is guessed, exactly one of which
        `is_in` (m,).
    """
    from sklearn.metrics import roc_auc_score

    weights, *_ = np.linalg.lstsq(gradients.T, update, rcond=None)
    return float(roc_auc_score(is_in, -weights))


def sender(known: Numbers, observed: Numbers, clients: Kinds, rounds: Kinds) -> float:
    """Share of the `observed` updates whose client is guessed rightly. The guess is the client
    whose `known` updates of all other rounds have the nearest mean."""
    right: list[NDArray[np.bool_]] = []
    everyone = np.unique(clients)
    for t in np.unique(rounds):
        others = [known[(clients == i) & (rounds != t)] for i in everyone]
        has_any = np.array([len(rows) > 0 for rows in others])
        means = np.stack([rows.mean(0) for rows in others if len(rows)])
        here = rounds == t
        # |u − m|² without |u|², which is the same for every mean
        distances = (means**2).sum(1) - 2 * observed[here] @ means.T
        right.append(everyone[has_any][distances.argmin(1)] == clients[here])
    return float(np.concatenate(right).mean())


def kind(known: Numbers, observed: Numbers, kinds: Kinds, clients: Kinds) -> float:
    """Share of the `observed` updates whose kind of data (n,), 0 or 1, is guessed rightly.

    Logistic regression learns from the `known` updates of all other clients. Both kinds have the
    same total weight.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score

    guessed, model = np.empty_like(kinds), LogisticRegression(C=10, max_iter=1000)
    scale = np.linalg.norm(known, axis=1).mean()
    for i in np.unique(clients):
        model.fit(known[clients != i] / scale, kinds[clients != i])
        guessed[clients == i] = model.predict(observed[clients == i] / scale)
    return float(balanced_accuracy_score(kinds, guessed))
