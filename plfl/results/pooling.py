"""Puts the scores of several states and origins of the test set together in one comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plfl.results.statistics import Array, Comparison


@dataclass(frozen=True)
class Piece:
    """The share of each week of a variant in the scores of a state, or in differences of them."""

    state: str
    origin: str
    clients: tuple[str, ...]
    weekly: Array
    """Shape (clients, seeds, weeks)."""

    def of(self, clients: Sequence[str]) -> Array:
        """The part of these clients, in this order."""
        return self.weekly[[self.clients.index(client) for client in clients]]

    def lead(self, other: Piece, margin: float = 0.0) -> Piece:
        """(1 + margin) times the scores of another piece minus these, for common clients: positive
        where these are lower."""
        common = tuple(client for client in self.clients if client in other.clients)
        left = (1 + margin) * other.of(common) - self.of(common)
        return Piece(self.state, self.origin, common, left)


@dataclass(frozen=True)
class StateScores:
    """The pieces of a state put together: the mean over the variants of each origin, and one origin
    after the other."""

    clients: list[str]
    """The clients that all pieces have."""
    weekly: Array
    """Shape (clients, seeds, weeks); its sums over weeks are means over the origins."""
    weeks: tuple[int, ...]
    """The number of weeks of each origin."""


def by_state(pieces: Sequence[Piece]) -> dict[str, StateScores]:
    """The pieces of each state put together."""
    found = {}
    for state in dict.fromkeys(piece.state for piece in pieces):
        here = [piece for piece in pieces if piece.state == state]
        clients = [c for c in here[0].clients if all(c in piece.clients for piece in here)]
        tables = [
            _mean([piece.of(clients) for piece in here if piece.origin == origin])
            for origin in dict.fromkeys(piece.origin for piece in here)
        ]
        weekly = np.concatenate(tables, axis=2) / len(tables)
        found[state] = StateScores(clients, weekly, tuple(table.shape[2] for table in tables))
    return found


def pooled(names: Sequence[str], pieces: Sequence[Piece], trained: bool = True) -> Comparison:
    """The comparison over states and origins."""
    states = by_state(pieces)
    return Comparison(
        tuple(dict.fromkeys(names)),
        {state: scores.weekly for state, scores in states.items()},
        trained,
        {state: scores.weeks for state, scores in states.items()},
    )


def _mean(tables: Sequence[Array]) -> Array:
    """The mean of tables with the same clients and seeds. Surplus weeks are added to the last."""
    weeks = range(min(table.shape[2] for table in tables))
    mean: Array = np.mean([np.add.reduceat(table, weeks, axis=2) for table in tables], axis=0)
    return mean
