"""The section `claims`: the comparisons that a study names before it runs."""

import json
from collections.abc import Sequence
from datetime import date
from typing import Any, Literal

from pydantic import Field

from plfl.config.values import Patterns
from plfl.plugins.registry import Section


class Claim(Section):
    """A comparison that a study names before it runs (docs/claims.md)."""

    better: Patterns = []
    """Forecasters: `P2`, `baseline-ridge`."""
    than: Patterns = []
    """The other side."""
    each: list[Literal["state", "variant", "sharing", "method", "client_opt", "server_opt"]] = []
    """For each of these."""
    where: dict[str, list[Any] | str | int | float | None] = {}
    """Axes: `{windows.history: [1, 4]}`."""
    score: str = ""
    """Instead of the error: `bytes`."""
    margin: float = Field(0.0, ge=0)
    """How much worse `better` may be: 0.02 for 2 %."""
    share: float | None = Field(None, gt=0)
    """Its share."""
    text: str = ""
    """Its words."""

    def labels(self, key: str) -> list[str]:
        """The values of an axis that it is about, in the form of names."""
        values = self.where[key]
        return [as_label(value) for value in (values if isinstance(values, list) else [values])]

    def absent_states(self, states: Sequence[str]) -> list[str]:
        """The states that it is about and a study with these `states` lacks."""
        claimed_states = self.labels("data.states") if "data.states" in self.where else []
        return [state for state in claimed_states if state not in states]

    def __str__(self) -> str:
        """Everything that decides what is compared, to recognise the claim."""
        return json.dumps(self.model_dump(exclude={"text"}, exclude_defaults=True))


def as_label(value: Any) -> str:
    """A value of an axis in the form of names."""
    return str(value) if isinstance(value, str | date) else json.dumps(value, default=str)
