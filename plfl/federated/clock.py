"""Simulates who takes part in a round and how long it lasts; measures nothing on this machine.

A participant downloads, takes its local steps and uploads; the round lasts as long as the slowest
one, and the others wait for it. The times of groups that take turns add up, and so does the time
that a method needs before round 1. Times follow from the bytes that cross the channel and the work
done, so every method is on the same clock. The unit of work is a local step on one minibatch. A
forward pass over a minibatch is a third of it, see `plfl.federated.instructions.FORWARD`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import ConfigError
from plfl.base.text import list_names
from plfl.config.federation import Simulation
from plfl.config.speeds import SpeedsByClient
from plfl.federated.channel import Traffic
from plfl.training import batches

Seconds = NDArray[np.float64]
SPEEDS = ("step_seconds", "down_mbit", "up_mbit")
"""The keys of `Simulation` that determine how long computation and transfers take."""


@dataclass(frozen=True)
class RoundTimes:
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
        """Draw the clients' speeds."""
        self.simulation, self.names, self.seed = simulation, list(names), seed
        s = simulation
        self.step_seconds = self._seconds_each("step_seconds", s.step_seconds, s.step_spread)
        """Seconds (N,) of a local step."""
        self.down_seconds = _seconds_per_byte(
            self._seconds_each("down_mbit", s.down_mbit, s.link_spread)
        )
        """Seconds (N,) to download a byte."""
        self.up_seconds = _seconds_per_byte(self._seconds_each("up_mbit", s.up_mbit, s.link_spread))
        """Seconds (N,) to upload a byte."""
        self.computing = 0.0
        """Seconds for which the slowest participant of each group of the last round computed."""
        self._work = np.zeros(len(self._all_clients))
        self._bytes_ahead = np.zeros(len(self._all_clients))
        self._traffic_before: Traffic = {}
        self._spent_before = np.zeros((3, len(self._all_clients)))

    @property
    def _all_clients(self) -> range:
        return range(len(self.names))

    def _seconds_each(self, key: str, speeds: SpeedsByClient | None, spread: float) -> Seconds:
        """The value (N,) of each client: its own, or drawn around that of all; 0 if none is given:
        it takes no time. ConfigError: a client has none."""
        values = np.array(_list_speeds(key, speeds or 0.0, self.names))
        if spread:
            streams = batches.streams(self.seed, key, self.names, 0)
            values *= np.exp([spread * random.standard_normal() for random in streams])
        return values

    def available(self, t: int) -> NDArray[np.bool_]:
        """Which clients (N,) can be reached in round `t`."""
        share = self.simulation.availability
        if share == 1:
            return np.ones(len(self._all_clients), dtype=np.bool_)
        streams = batches.streams(self.seed, "availability", self.names, t)
        return np.array([random.random() < share for random in streams])

    def share_before_dropout(self, t: int) -> NDArray[np.float64]:
        """Share (N,) of its local steps after which each client would drop out of round `t`; 1 for
        those that stay."""
        progress = np.ones(len(self._all_clients))
        if self.simulation.dropout:
            streams = batches.streams(self.seed, "dropout", self.names, t)
            for i, random in enumerate(streams):
                drops, after = random.random(2)
                if drops < self.simulation.dropout:
                    progress[i] = after
        return progress

    def charge_work(self, clients: NDArray[np.int64], steps: NDArray[np.float64]) -> None:
        """Charge `clients` (n,) with further work (n,), in local steps of one minibatch."""
        self._work[clients] += steps

    def send_ahead(self, clients: NDArray[np.int64], size: int) -> None:
        """Note that `size` bytes of what each of `clients` (n,) downloads in this round were sent
        while the participants of the round before computed."""
        self._bytes_ahead[clients] += size

    def wait_for_all(self, traffic: Traffic) -> None:
        """End the phase before round 1, with this `traffic`, when all clients have finished."""
        self._traffic_before = traffic
        self._spent_before = self._seconds_spent(traffic)

    def _seconds_spent(self, traffic: Traffic) -> Seconds:
        """Seconds (3, N) of downloads, work and uploads; the work noted so far is set to zero."""
        work, self._work = self._work, np.zeros_like(self._work)
        seconds_down = traffic["bytes_down"] * self.down_seconds
        seconds_up = traffic["bytes_up"] * self.up_seconds
        return np.stack([seconds_down, work * self.step_seconds, seconds_up])

    def close_round(self, traffic: Traffic, groups: Sequence[NDArray[np.int64]]) -> RoundTimes:
        """Times of a round with this `traffic`, in which `groups` took part, each when all of the
        group before have finished. The phase before round 1 counts as part of round 1."""
        earlier_traffic, self._traffic_before = self._traffic_before, {}
        seconds_spent = self._seconds_spent(
            {kind: counts - earlier_traffic.get(kind, 0) for kind, counts in traffic.items()}
        )
        bytes_ahead, self._bytes_ahead = self._bytes_ahead, np.zeros_like(self._bytes_ahead)
        seconds_spent[0] -= np.minimum(bytes_ahead * self.down_seconds, self.computing)
        self.computing = float(
            sum(seconds_spent[1][clients].max() for clients in groups if len(clients))
        )
        duration = float(
            sum(seconds_spent.sum(0)[clients].max() for clients in groups if len(clients))
        )
        earlier, self._spent_before = self._spent_before, np.zeros_like(seconds_spent)
        duration += float(earlier.sum(0).max())
        download, compute, upload = seconds_spent + earlier
        busy = download + compute + upload
        waiting = np.zeros_like(busy)
        for clients in groups:
            waiting[clients] = duration - busy[clients]
        return RoundTimes(download, compute, upload, waiting, duration)


def _list_speeds(key: str, speeds: SpeedsByClient, names: Sequence[str]) -> list[float]:
    """The speeds of the clients `names`, from the value of a key of `Simulation`."""
    match speeds:
        case list():
            if len(speeds) == len(names):
                return speeds
            problem = f"lists {len(speeds)} speeds for {len(names)} clients"
            remedy = "give one for each"
        case dict():
            missing = [name for name in names if name not in speeds]
            if not missing:
                return [speeds[name] for name in names]
            problem, remedy = f"has no speed of {list_names(missing, 3)}", "add it"
        case _:
            return [speeds] * len(names)
    raise ConfigError.at_key(f"federation.simulation.{key}", problem, remedy)


def takes_time(simulation: Simulation) -> bool:
    """Whether anything takes time on the simulated clock."""
    return any(getattr(simulation, speed) is not None for speed in SPEEDS)


def _seconds_per_byte(mbit: Seconds) -> Seconds:
    """Seconds per byte at these Mbit/s; 0, no time, without a speed."""
    seconds: Seconds = np.divide(8e-6, mbit, out=np.zeros_like(mbit), where=mbit > 0)
    return seconds
