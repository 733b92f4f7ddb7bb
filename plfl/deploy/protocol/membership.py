"""The clients of a deployed cell as the server knows them: who has joined, who is connected.

A client joins by answering an invitation with a description of its series.
"""

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import pandas as pd
import torch
from torch import Tensor

from plfl.base.errors import PlflError, Problem
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.answers import CheckedAnswer, JoinedFacts, read_joined
from plfl.deploy.protocol.endpoints import Message, MessageError
from plfl.deploy.protocol.rounds import RoundPolicy
from plfl.study import Cell, Study

log = logging.getLogger(__name__)

MEMBERSHIP_PAUSE = 0.25
"""Seconds between two checks for connected clients."""
RETRY = 5.0
"""Seconds until a client that could not join is asked again."""
LONGEST_REASON = 500
"""Characters of a reason in the log; it may contain text of a client."""


class Transport(Protocol):
    """Carries messages to clients, and their answers back. Keys prove the names of clients."""

    def list_connected(self) -> Collection[str]:
        """Names of the connected clients."""

    def exchange(
        self, messages: Mapping[str, bytes], timeout: float, kind: str
    ) -> dict[str, bytes]:
        """Send each client its message, of kind `train` or `query`; return the answers that arrive
        within `timeout` seconds."""


class Membership:
    """The clients of a cell that have joined.

    Raises:
        PlflError: `policy.minimum` is not a possible number of clients.
    """

    def __init__(self, study: Study, cell: Cell, transport: Transport, policy: RoundPolicy):
        names = agreement.roster(study, cell)
        if not 1 <= policy.minimum <= len(names):
            raise PlflError(
                Problem(
                    f"--minimum {policy.minimum}",
                    f"the study has {len(names)} clients",
                    f"use a value from 1 to {len(names)}",
                )
            )
        self.names, self.transport, self.policy = names, transport, policy
        self.study, self.cell = study, cell
        self.window_counts: dict[str, int] = {}
        """Numbers of training windows of all clients that have ever joined."""
        self.limits: dict[str, Tensor] = {}
        """The limits by which all clients scale; empty before round 1, or if each has its own."""
        self.has_limits: set[str] = set()
        """Clients that have received the limits."""
        self.joining_bytes: dict[str, tuple[int, int]] = {}
        """Bytes to and from clients for joining, which no round has recorded yet."""
        self.refused: dict[str, list[str]] = {}
        """Reasons why answers were refused, by client, which no round has recorded yet."""
        self.description_records: dict[str, dict[str, Any]] = {}
        """How all clients that have ever joined describe their series, as JSON values."""
        self._answers: dict[str, CheckedAnswer[JoinedFacts]] = {}
        # When to ask a client again that has not joined (monotonic seconds).
        self._retry_at: dict[str, float] = {}

    @property
    def descriptions(self) -> pd.DataFrame:
        """The clients' descriptions of their series, as in `clients.parquet`."""
        table = pd.DataFrame(
            [self.description_records[n] for n in self.names if n in self.description_records]
        )
        return table.assign(order=[self.names.index(name) for name in table["client"]])

    def gather(self, invitation: Message) -> None:
        """Wait until at least `policy.minimum` clients are connected."""
        end = time.monotonic() + self.policy.patience
        while True:
            connected = self.list_connected(invitation)
            if len(connected) >= self.policy.minimum:
                return
            if time.monotonic() >= end:
                missing = ", ".join(name for name in self.names if name not in connected)
                raise PlflError(
                    Problem(
                        "",
                        f"{len(connected)} of {self.policy.minimum} clients were connected "
                        f"after {self.policy.patience:.0f} s, without {missing}",
                        "start them, or lower --minimum",
                    )
                )
            time.sleep(MEMBERSHIP_PAUSE)

    def list_connected(self, invitation: Message) -> list[str]:
        """Names of the connected clients. New ones are sent the `invitation` first."""
        connected, now = self.transport.list_connected(), time.monotonic()
        reached = [name for name in self.names if name in connected]
        new = [n for n in reached if n not in self._answers and now >= self._retry_at.get(n, 0.0)]
        if new:
            timeout = min(self.policy.patience, self.policy.timeout)
            packed_invitation, request = invitation.pack(), invitation.request["request"]
            answers = self.transport.exchange(
                dict.fromkeys(new, packed_invitation), timeout, "query"
            )
            for name in new:
                self._retry_at[name] = time.monotonic() + RETRY
                if name in answers:
                    self._join(name, answers[name], request, len(packed_invitation))
        return [name for name in reached if name in self._answers]

    def _join(self, name: str, data: bytes, request: str, sent_bytes: int) -> None:
        """Let a client join if its answer `data` to an invitation of `sent_bytes` bytes is
        accepted."""
        try:
            answer = read_joined(self.study, self.cell, data, request, name)
        except MessageError as error:
            self.refuse(name, error)
            return
        log.info("client %s has joined", name)
        self._answers[name] = answer
        self.joining_bytes[name] = sent_bytes, len(data)
        self.window_counts[name] = answer.facts.windows
        self.description_records[name] = answer.facts.describes.model_dump()

    def refuse(self, name: str, reason: object) -> None:
        """Note, in the log and for the summary, why an answer of the client `name` is refused."""
        line = str(reason)[:LONGEST_REASON]
        line = line if line.isprintable() else ascii(line)
        log.warning("the answer of client %s is refused: %s", name, line)
        reasons = self.refused.setdefault(name, [])
        if line not in reasons:
            reasons.append(line)

    def pool_limits(self) -> None:
        """Set the limits by which all clients scale, unless they are set.

        They are those of the clients that have joined by then.
        """
        if self.limits:
            return
        limits_of_clients = [answer.arrays for answer in self._answers.values()]
        self.limits = {
            "low": torch.stack([limits["low"] for limits in limits_of_clients]).amin(0),
            "high": torch.stack([limits["high"] for limits in limits_of_clients]).amax(0),
        }
