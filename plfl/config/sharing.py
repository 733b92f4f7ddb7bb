"""The section `sharing`: a scheme with keys of its own."""

from typing import Literal

from pydantic import Field

from plfl.config.values import Patterns
from plfl.plugins.registry import Section

JoinKind = Literal["unseen", "raw"]
"""How clients join that do not train in the rounds: see `Scheme.join`."""


class Scheme(Section):
    """A sharing scheme in which clients take part without training in the rounds."""

    join: JoinKind
    """`unseen`: a client joins after the rounds and receives the model of the others, who train on
    their whole history; `fine_tuning` and `boosting` adapt it. `raw`: all receive one model,
    trained on the windows of all with as many steps as they take together."""
    share: Patterns = ["*"]
    """Patterns, as of other schemes."""
    turns: int = Field(4, ge=2)
    """Groups of clients, which are unseen in turn."""
    history: int | None = Field(None, ge=1)
    """With `unseen`: weeks of readings that these know. Their scores are used for no choice."""
