"""The section `tuning`: the search of hyperparameters."""

from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from plfl.config.error_messages import refusal
from plfl.config.values import refuse_repetitions
from plfl.plugins.registry import Section, Value

ROUNDS = "federation.rounds"
"""The path of the number of rounds in a search."""


TriedValues = Annotated[list[Value], Field(min_length=1), AfterValidator(refuse_repetitions)]


class Tuning(Section):
    """Hyperparameter search on the validation set, with equally many trials for every cell.

    A trial is a complete training. The trial with the lowest validation MASE at the last round, as
    a mean over clients and all seeds, is kept, separately for the local and the global models. The
    test set is never used.
    """

    search: dict[str, TriedValues] = {}
    """Values to try, by path: `server_opt.*.lr: [0.01, 0.1, 1]`. A cell tries every combination of
    the values whose paths match its algorithms; a path with the name of an algorithm replaces the
    one with `*`. Numbers of `federation.rounds` are tried within one training; the best is trained
    again."""
    alone: dict[str, TriedValues] = {}
    """Values to try in cells without a server (P3), which must try equally many combinations.
    Empty: the `client_opt` paths of `search`."""
    trials: int | None = Field(None, ge=1)
    """Combinations that each cell tries, drawn as a Latin hypercube if there are more. null: all,
    which must then be equally many for every cell."""

    @field_validator("search")
    @classmethod
    def _check_rounds(cls, values_by_path: dict[str, list[Value]]) -> dict[str, list[Value]]:
        if not all(type(rounds) is int and rounds > 0 for rounds in values_by_path.get(ROUNDS, [])):
            raise refusal(f"{values_by_path[ROUNDS]} are not all whole numbers above 0", key=ROUNDS)
        return values_by_path

    @field_validator("alone")
    @classmethod
    def _check_paths(cls, values_by_path: dict[str, list[Value]]) -> dict[str, list[Value]]:
        for path in values_by_path:
            if not path.startswith("client_opt."):
                raise refusal(
                    f"{path!r} has no effect without a server; only paths of client_opt can be "
                    "tuned here"
                )
        return values_by_path

    @property
    def rounds(self) -> list[int]:
        """The numbers of rounds to try; empty: `federation.rounds` alone."""
        return sorted(n for n in self.search.get(ROUNDS, []) if isinstance(n, int))

    def find_search(self, trains_alone: bool) -> dict[str, list[Value]]:
        """The search of cells without a server (`trains_alone`) or of all other cells."""
        if not trains_alone:
            return self.search
        clients = {path: v for path, v in self.search.items() if path.startswith("client_opt.")}
        return self.alone or clients
