"""The combinations of a grid: their algorithms, the hyperparameters that they try, which
combinations methods refuse, and which repeat others.

A combination is a sharing scheme, a method, a ClientOpt and a ServerOpt. Its cells differ in state
and seed.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from plfl.config import search
from plfl.config.algorithms import Hyperparameters
from plfl.config.method_rules import MethodRules
from plfl.config.search import Candidate
from plfl.config.sections import Grid, Tuning
from plfl.plugins.registry import KINDS, Algorithm


@dataclass(frozen=True)
class Combinations:
    """The combinations of a study."""

    grid: Grid
    hyperparameters: Hyperparameters
    tuning: Tuning
    sharing: Mapping[str, list[str]]
    """The study's sharing schemes."""

    @cached_property
    def refused(self) -> dict[tuple[str, str, str], str]:
        """Why a method refuses a ClientOpt or a ServerOpt, by the three names in this order."""
        reasons, grid = {}, self.grid
        for names in itertools.product(grid.method, grid.client_opt, grid.server_opt):
            for tried in self._tried(*names):
                refuses = tried.method and tried.method.refuses(tried.client_opt, tried.server_opt)
                if refuses:
                    reasons[names] = refuses
                    break
        return reasons

    def _tried(self, method: str, client_opt: str, server_opt: str) -> list[Candidate]:
        """The candidates of these three algorithms, if clients train with a server."""
        untuned = self._untuned(method, client_opt, server_opt, alone=False)
        try:
            return search.candidates(untuned, self.tuning.search, self.tuning.trials)
        except ValueError:  # reported by `checks.of_values`
            return [untuned]

    @property
    def algorithms(self) -> list[tuple[str, Algorithm]]:
        """The algorithms of the grid with the study's hyperparameters, each with its kind."""
        return [
            (kind, self.hyperparameters.of(kind, name))
            for kind in KINDS
            for name in getattr(self.grid, kind)
        ]

    @property
    def methods(self) -> dict[str, MethodRules]:
        """The methods of the grid, by name."""
        return {name: self.hyperparameters.of_method(name) for name in self.grid.method}

    def shares_nothing(self, sharing: str) -> bool:
        """Whether a sharing scheme shares no parameter."""
        return not self.sharing[sharing]

    def trains_alone(self, sharing: str, method: str) -> bool:
        """Whether clients train alone, without a server, with a sharing scheme and a method."""
        ignores = self.hyperparameters.of_method(method).ignores_sharing
        return self.shares_nothing(sharing) and not ignores

    def repeats(self, sharing: str, method: str, client_opt: str, server_opt: str) -> bool:
        """Whether a combination trains exactly like an earlier one.

        Without a server, for example, all ServerOpts train the same.
        """
        if not self.trains_alone(sharing, method):
            return False
        same = (
            (m, s)
            for m, s in itertools.product(self.grid.method, self.grid.server_opt)
            if self.trains_alone(sharing, m) and (m, client_opt, s) not in self.refused
        )
        return next(same) != (method, server_opt)

    def untuned(self, sharing: str, method: str, client_opt: str, server_opt: str) -> Candidate:
        """The algorithms of a combination with the study's own hyperparameters.

        Where clients train alone, the method is left out: it has no effect.
        """
        return self._untuned(method, client_opt, server_opt, self.trains_alone(sharing, method))

    def _untuned(self, method: str, client_opt: str, server_opt: str, alone: bool) -> Candidate:
        return Candidate(
            self.hyperparameters.of_client_opt(client_opt),
            self.hyperparameters.of_server_opt(server_opt),
            None if alone else self.hyperparameters.of_method(method),
        )

    def candidates(
        self, sharing: str, method: str, client_opt: str, server_opt: str
    ) -> list[Candidate]:
        """The algorithms of a combination, with each choice of hyperparameters that is tried."""
        untuned = self.untuned(sharing, method, client_opt, server_opt)
        wanted = self.tuning.of(self.trains_alone(sharing, method))
        return search.candidates(untuned, wanted, self.tuning.trials)

    def trials(self, sharing: str, method: str, client_opt: str, server_opt: str) -> int:
        """The number of trials of a combination: its `candidates`, each with all numbers of
        rounds."""
        untuned = self.untuned(sharing, method, client_opt, server_opt)
        wanted = self.tuning.of(self.trains_alone(sharing, method))
        each = self.tuning.trials or search.count(untuned, wanted)
        return each * max(1, len(self.tuning.rounds))
