"""Who takes part, and how long it would take: simulated, never measured on the machine at hand.

A participant downloads, takes its local steps and uploads; the round lasts as long as the slowest
one, and the others wait for it. Groups of clients that take turns add up. Times follow from the
bytes in the ledger and the steps taken, so every method is on the same clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plfl import trace
from plfl.errors import ConfigError
from plfl.study import Simulation

if TYPE_CHECKING:
    from plfl.fleet import Fleet

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

    def __init__(self, simulation: Simulation, fleet: "Fleet"):
        """Draw the clients' speeds, or read them from a trace.

        Raises:
            ConfigError: the trace is none of these clients, or by a time that never passes.
            DataError: the trace cannot be used, see `plfl.trace.read`.
        """
        self.simulation, self.fleet = simulation, fleet
        s = simulation
        self._drawn = {
            "step_seconds": self._each("step_seconds", s.step_seconds, s.step_spread),
            "down_mbit": self._each("down_mbit", s.down_mbit, s.link_spread),
            "up_mbit": self._each("up_mbit", s.up_mbit, s.link_spread),
        }
        self._trace = None if s.trace is None else self._read(s.trace)
        self.now = 0.0
        """Seconds since the start of round 1."""
        self._set(1)
        self._steps = np.zeros(len(self._everyone))

    def _read(self, path: Path) -> trace.Trace:
        found = trace.read(path)
        problem = None
        if not set(found.clients) & set(self.fleet.names):
            problem = f"{path} has none of the clients {', '.join(self.fleet.names)}"
        elif found.by == "seconds" and not self.simulation.timed:
            problem = (
                f"{path} is by seconds, but nothing takes any; give step_seconds, down_mbit or "
                "up_mbit, there or here, or make it by round"
            )
        if problem:
            raise ConfigError("federation.simulation.trace", [problem])
        return found

    def _set(self, t: int) -> None:
        """Make the speeds those of round `t`."""
        values = dict(self._drawn)
        self._available = np.full(len(self._everyone), np.nan)
        if self._trace is not None:
            moment = t if self._trace.by == "round" else self.now
            traced = self._trace.at(self.fleet.names, moment)
            self._available = traced.pop("available")
            values |= {
                name: np.where(np.isnan(given), values[name], given)
                for name, given in traced.items()
            }
        self.step_seconds = values["step_seconds"]
        """Seconds (N,) of a local step in this round."""
        self.down_seconds = _of_byte(values["down_mbit"])
        """Seconds (N,) for a byte to come down in this round."""
        self.up_seconds = _of_byte(values["up_mbit"])
        """Seconds (N,) for a byte to go up in this round."""

    @property
    def _everyone(self) -> range:
        return range(len(self.fleet.names))

    def _each(self, key: str, value: float | list[float] | None, spread: float) -> Seconds:
        """A value (N,) of each client; 0, which takes no time, where there is none."""
        values = np.array(np.broadcast_to(value or 0.0, len(self._everyone)), dtype=np.float64)
        if spread:
            streams = self.fleet.streams(key, self._everyone, 0)
            values *= np.exp([spread * random.standard_normal() for random in streams])
        return values

    def available(self, t: int) -> NDArray[np.bool_]:
        """Which clients (N,) can be reached in round `t`, which begins."""
        self._set(t)
        share = self.simulation.availability
        reached = np.ones(len(self._everyone), dtype=np.bool_)
        if share < 1:
            streams = self.fleet.streams("availability", self._everyone, t)
            reached = np.array([random.random() < share for random in streams])
        return np.where(np.isnan(self._available), reached, self._available == 1)

    def progress(self, t: int) -> NDArray[np.float64]:
        """Share (N,) of its local steps after which each client would drop out of round `t`.

        It is 1 for those that stay.
        """
        progress = np.ones(len(self._everyone))
        if self.simulation.dropout:
            for i, random in enumerate(self.fleet.streams("dropout", self._everyone, t)):
                drops, after = random.random(2)
                if drops < self.simulation.dropout:
                    progress[i] = after
        return progress

    def work(self, clients: NDArray[np.int64], steps: NDArray[np.float64]) -> None:
        """Note that `clients` (n,) took further `steps` (n,) since the last round was closed."""
        self._steps[clients] += steps

    def close_round(
        self, page: dict[str, NDArray[np.int64]], turns: Sequence[NDArray[np.int64]]
    ) -> Times:
        """Times of the round whose ledger is `page`, in which the groups `turns` took part.

        One group begins when all of the one before are done. Clients in none of them may have been
        busy all the same, before round 1. When nobody took part and the trace is by seconds, the
        round lasts until something changes there.
        """
        download = page["bytes_down"] * self.down_seconds
        upload = page["bytes_up"] * self.up_seconds
        compute, self._steps = self._steps * self.step_seconds, np.zeros_like(self._steps)
        busy = download + compute + upload
        whole = float(sum(busy[clients].max() for clients in turns if len(clients)))
        whole = max(whole, float(busy.max()))
        waiting = np.zeros_like(busy)
        for clients in turns:
            waiting[clients] = whole - busy[clients]
        if self._trace is not None and self._trace.by == "seconds" and not any(map(len, turns)):
            change = self._trace.after(self.fleet.names, self.now)
            whole = 0.0 if change is None else change - self.now
        self.now += whole
        return Times(download, compute, upload, waiting, whole)


def _of_byte(mbit: Seconds) -> Seconds:
    """Seconds of a byte at so many Mbit/s; 0 where there is no such number."""
    seconds: Seconds = np.divide(8e-6, mbit, out=np.zeros_like(mbit), where=mbit > 0)
    return seconds
