"""How the server waits for the clients of a round, and who took part in it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RoundPolicy:
    """How many clients a round needs, and how long the server waits for them."""

    minimum: int
    """Number of connected clients required to start a round."""
    patience: float = 300.0
    """Seconds to wait for these clients."""
    timeout: float = 600.0
    """Seconds to wait for the answers of a round."""


@dataclass(frozen=True)
class RoundSummary:
    """Which clients took part in a round, by name."""

    t: int
    asked: list[str]
    """Clients to which the server sent a message."""
    took_part: list[str]
    """Clients whose answer arrived in time and was accepted."""
    seconds: float
    """From the first message to the end of the server's step."""
    calibrated: dict[str, int] = field(default_factory=dict)
    """Passes over its own data by which a client that joined late prepared its personal part."""
    joined: list[str] = field(default_factory=list)
    """Clients that have joined by then: the server knows how many training windows they have."""
    margins: list[str] = field(default_factory=list)
    """Clients that sent the margins from which the server chose (`task.conformal: shared`)."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Clients with answers that the server refused, and the reasons; see `protocol.answers`."""
