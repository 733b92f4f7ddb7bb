"""Simulates who takes part in a round and how long it lasts; measures nothing on this machine.

A participant downloads, takes its local steps and uploads; the round lasts as long as the slowest
one, and the others wait for it. The times of groups that take turns add up, and so does the time
that a method needs before round 1. Times follow from the bytes that cross the channel and the work
done, so every method is on the same clock. The unit of work is a local step on one minibatch. A
forward pass over a minibatch is a third of it, see `plfl.federated.instructions.FORWARD`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import ConfigError
from plfl.config.sections import Simulation
from plfl.federated import availability
from plfl.federated.availability import Trace, takes_time
from plfl.federated.channel import Traffic
from plfl.training import batches

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Times:
    """Simulated seconds of a round, (N,) each; 0 for clients that did not take part."""

    download: Seconds
    compute: Seconds
    upload: Seconds
    waiting: Seconds
    """From the end of a participant's own work to the end of the round."""
    round: float
    """Seconds of the whole round."""

    @property
    def busy(self) -> Seconds:
        """Seconds that each client was at work."""
        return self.download + self.compute + self.upload


class Clock:
    """Participation and time of the N clients of one federation."""

    def __init__(self, simulation: Simulation, names: Sequence[str], seed: int):
        """Draw the clients' speeds, or read them from a trace."""
        self.simulation, self.names, self.seed = simulation, list(names), seed
        s = simulation
        self._drawn = {
            "step_seconds": self._each("step_seconds", s.step_seconds, s.step_spread),
            "down_mbit": self._each("down_mbit", s.down_mbit, s.link_spread),
            "up_mbit": self._each("up_mbit", s.up_mbit, s.link_spread),
        }
        self._trace = None if s.trace is None else self._read(s.trace)
        self.now = 0.0
        """Seconds since the simulation began, before round 1."""
        self.computing = 0.0
        """Seconds (N,) for which each participant of the last round computed."""
        self._set(1)
        self._work = np.zeros(len(self._everyone))
        self._ahead = np.zeros(len(self._everyone))
        self._before: Traffic = {}
        self._spent_before = np.zeros((3, len(self._everyone)))

    def _read(self, path: Path) -> Trace:
        trace = availability.read(path)
        problem = None
        if not set(trace.clients) & set(self.names):
            problem = f"{path} has none of the clients {', '.join(self.names)}"
        elif trace.by == "seconds" and not takes_time(self.simulation):
            problem = (
                f"{path} gives times in seconds, but nothing takes time; give step_seconds, "
                "down_mbit or up_mbit, in the trace or in federation.simulation, or give rounds "
                "instead of seconds"
            )
        if problem:
            raise ConfigError("federation.simulation.trace", [problem])
        return trace

    def _set(self, t: int) -> None:
        """Set availability and speeds to those of round `t`."""
        values = dict(self._drawn)
        self._available = np.full(len(self._everyone), np.nan)
        if self._trace is not None:
            moment = t if self._trace.by == "round" else self.now
            traced = self._trace.at(self.names, moment)
            self._available = traced.pop("available")
            values |= {
                name: np.where(np.isnan(given), values[name], given)
                for name, given in traced.items()
            }
        self.step_seconds = values["step_seconds"]
        """Seconds (N,) of a local step in this round."""
        self.down_seconds = _of_byte(values["down_mbit"])
        """Seconds (N,) to download a byte in this round."""
        self.up_seconds = _of_byte(values["up_mbit"])
        """Seconds (N,) to upload a byte in this round."""

    @property
    def _everyone(self) -> range:
        return range(len(self.names))

    def _streams(self, purpose: str, t: int) -> list[np.random.Generator]:
        """Random numbers of round `t` for a `purpose`, one generator per client."""
        return [batches.stream(self.seed, f"/{purpose}/{name}", t) for name in self.names]

    def _each(self, key: str, value: float | list[float] | None, spread: float) -> Seconds:
        """A value (N,) drawn for each client; without a median, 0: it takes no time."""
        values = np.array(np.broadcast_to(value or 0.0, len(self._everyone)), dtype=np.float64)
        if spread:
            streams = self._streams(key, 0)
            values *= np.exp([spread * random.standard_normal() for random in streams])
        return values

    def available(self, t: int) -> NDArray[np.bool_]:
        """Begin round `t`; return which clients (N,) can be reached."""
        self._set(t)
        share = self.simulation.availability
        reached = np.ones(len(self._everyone), dtype=np.bool_)
        if share < 1:
            streams = self._streams("availability", t)
            reached = np.array([random.random() < share for random in streams])
        return np.where(np.isnan(self._available), reached, self._available == 1)

    def progress(self, t: int) -> NDArray[np.float64]:
        """Share (N,) of its local steps after which each client would drop out of round `t`.

        It is 1 for those that stay.
        """
        progress = np.ones(len(self._everyone))
        if self.simulation.dropout:
            for i, random in enumerate(self._streams("dropout", t)):
                drops, after = random.random(2)
                if drops < self.simulation.dropout:
                    progress[i] = after
        return progress

    def work(self, clients: NDArray[np.int64], steps: NDArray[np.float64]) -> None:
        """Charge `clients` (n,) with further work (n,), in local steps of one minibatch."""
        self._work[clients] += steps

    def send_ahead(self, clients: NDArray[np.int64], size: int) -> None:
        """Note that `size` bytes of what each of `clients` (n,) downloads in this round were sent
        while the participants of the round before computed."""
        self._ahead[clients] += size

    def wait_for_all(self, traffic: Traffic) -> None:
        """End the phase before round 1, with this `traffic`, when all clients have finished."""
        self._before = traffic
        self._spent_before = self._spent(traffic)
        self.now += float(self._spent_before.sum(0).max())

    def _spent(self, traffic: Traffic) -> Seconds:
        """Seconds (3, N) of downloads, work and uploads. The work noted so far is then set to
        zero."""
        work, self._work = self._work, np.zeros_like(self._work)
        return np.stack(
            [
                traffic["bytes_down"] * self.down_seconds,
                work * self.step_seconds,
                traffic["bytes_up"] * self.up_seconds,
            ]
        )

    def close_round(self, traffic: Traffic, groups: Sequence[NDArray[np.int64]]) -> Times:
        """Times of a round with this `traffic`, in which `groups` took part.

        A group begins when all clients of the group before it have finished. The phase before
        round 1 counts as part of round 1. If no client took part and the trace is by seconds, the
        round lasts until the next change in the trace.
        """
        before, self._before = self._before, {}
        spent = self._spent({kind: some - before.get(kind, 0) for kind, some in traffic.items()})
        ahead, self._ahead = self._ahead, np.zeros_like(self._ahead)
        spent[0] -= np.minimum(ahead * self.down_seconds, self.computing)
        self.computing = float(sum(spent[1][some].max() for some in groups if len(some)))
        whole = float(sum(spent.sum(0)[clients].max() for clients in groups if len(clients)))
        if self._trace is not None and self._trace.by == "seconds" and not any(map(len, groups)):
            change = self._trace.after(self.names, self.now)
            whole = 0.0 if change is None else change - self.now
        self.now += whole
        earlier, self._spent_before = self._spent_before, np.zeros_like(spent)
        whole += float(earlier.sum(0).max())
        download, compute, upload = spent + earlier
        busy = download + compute + upload
        waiting = np.zeros_like(busy)
        for clients in groups:
            waiting[clients] = whole - busy[clients]
        return Times(download, compute, upload, waiting, whole)


def _of_byte(mbit: Seconds) -> Seconds:
    """Seconds per byte at these Mbit/s; 0, no time, without a speed."""
    seconds: Seconds = np.divide(8e-6, mbit, out=np.zeros_like(mbit), where=mbit > 0)
    return seconds
