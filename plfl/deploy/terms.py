"""What is said about rounds before and after them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Terms:
    """How long the server waits, and for how many."""

    minimum: int
    """Clients that have to be there for a round to begin."""
    patience: float = 300.0
    """Seconds to wait for them."""
    timeout: float = 600.0
    """Seconds to wait for the answers of a round."""


@dataclass(frozen=True)
class Taken:
    """Who took part in a round, by name."""

    t: int
    asked: list[str]
    took_part: list[str]
    seconds: float
    """From the first message to the last answer and the server's step."""
    calibrated: dict[str, int] = field(default_factory=dict)
    """Who came late and calibrated its personal part, and in how many passes over its data."""
