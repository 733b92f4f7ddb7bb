"""Who takes part, and how long it would take: simulated, never measured on the machine at hand.

A participant downloads, takes its local steps and uploads; the round lasts as long as the slowest
one, and the others wait for it. Groups of clients that take turns add up. Times follow from the
bytes in the ledger and the steps taken, so every method is on the same clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
        self.simulation, self.fleet = simulation, fleet
        s = simulation
        self.step_seconds = self._each("step_seconds", s.step_seconds, s.step_spread)
        """Seconds (N,) of a local step."""
        self.down_seconds = self._byte("down_mbit", s.down_mbit)
        """Seconds (N,) for a byte to come down."""
        self.up_seconds = self._byte("up_mbit", s.up_mbit)
        """Seconds (N,) for a byte to go up."""
        self._steps = np.zeros(len(self._everyone))

    @property
    def _everyone(self) -> range:
        return range(len(self.fleet.names))

    def _each(self, key: str, value: float | list[float] | None, spread: float) -> Seconds:
        values = np.array(np.broadcast_to(value or 0.0, len(self._everyone)), dtype=np.float64)
        if spread:
            streams = self.fleet.streams(key, self._everyone, 0)
            values *= np.exp([spread * random.standard_normal() for random in streams])
        return values

    def _byte(self, key: str, mbit: float | list[float] | None) -> Seconds:
        if mbit is None:
            return np.zeros(len(self._everyone))
        return 8e-6 / self._each(key, mbit, self.simulation.link_spread)

    def available(self, t: int) -> NDArray[np.bool_]:
        """Which clients (N,) could be reached in round `t`."""
        share = self.simulation.availability
        if share == 1:
            return np.ones(len(self._everyone), dtype=np.bool_)
        streams = self.fleet.streams("availability", self._everyone, t)
        return np.array([random.random() < share for random in streams])

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

        One group begins when all of the one before are done.
        """
        download = page["bytes_down"] * self.down_seconds
        upload = page["bytes_up"] * self.up_seconds
        compute, self._steps = self._steps * self.step_seconds, np.zeros_like(self._steps)
        busy = download + compute + upload
        whole = float(sum(busy[clients].max() for clients in turns if len(clients)))
        waiting = np.zeros_like(busy)
        for clients in turns:
            waiting[clients] = whole - busy[clients]
        return Times(download, compute, upload, waiting, whole)
