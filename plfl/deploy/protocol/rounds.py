"""How the server waits for the clients of a round, who took part, and what is recorded of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plfl.experiments.evaluation import Evaluation
from plfl.experiments.recorder import Recorder
from plfl.experiments.train import clusters_of
from plfl.federated.clock import Clock
from plfl.federated.federation import Federation
from plfl.federated.round import Round

RELEASES_FILE = "releases"
"""File beside the checkpoint, with the run and the number of each private round on a line each time
that it drew noise. A round that is repeated after a restart may already have sent its model."""


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
    joined: list[str] = field(default_factory=list)
    """Clients that have joined by then: the server knows how many training windows they have."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Clients with answers that the server refused, and the reasons; see `protocol.answers`."""


class ObservedClock(Clock):
    """Participation as observed: which clients can be reached in a round, and which answer."""

    def observe(self, reached: Collection[str], answering: Collection[str]) -> None:
        """Set the names of the clients that a round can reach, and of those that answer."""
        self._reached = np.isin(self.names, [*reached])
        self.answering = np.isin(self.names, [*answering])
        """Mask (N,) of the clients that answer."""

    def available(self, t: int) -> NDArray[np.bool_]:
        return self._reached

    def share_before_dropout(self, t: int) -> NDArray[np.float64]:
        return self.answering.astype(np.float64)


def record(
    recorder: Recorder,
    f: Federation,
    finished_round: Round,
    evaluation: Evaluation | None,
    counts: Mapping[str, NDArray[np.int64]],
) -> None:
    """Record a finished round: the work of the clients that answered, and their scores, if any.

    `counts`: further columns (N,). A client with a count above 0 has a row even if it did not
    answer.
    """
    t, participants, traffic = finished_round.t, finished_round.participants, finished_round.traffic
    took_part = f.clock.share_before_dropout(t)[participants] == 1
    recorder.record_training(
        t,
        participants[took_part],
        finished_round.training_losses[took_part],
        finished_round.local_steps[took_part],
        traffic | dict(counts),
        None,
    )
    if evaluation is not None:
        recorder.record_scores(t, evaluation, traffic, clusters_of(f))
