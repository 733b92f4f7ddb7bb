"""The only connection between clients and server, which counts the bytes that cross it."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Direction = Literal["down", "up"]
Traffic = dict[str, NDArray[np.int64]]
"""Bytes (N,) that each client received and sent, `bytes_down` and `bytes_up`, and how many of them
were extras, `extras_down` and `extras_up`."""


class Channel:
    """Carries messages of one federation and counts their bytes, per client and direction.

    A message is one row of shared parameters per client, plus extras: further arrays or scalars
    that an algorithm sends. The receiver gets a copy and may use nothing else. Here both sides are
    in one process; the channels of `plfl.deploy` connect different machines.
    """

    def __init__(self, shared: int, clients: int):
        self.shared = shared
        self.clients = clients
        self._traffic = self._blank()

    def _blank(self) -> Traffic:
        kinds = ("bytes_down", "bytes_up", "extras_down", "extras_up")
        return {kind: np.zeros(self.clients, dtype=np.int64) for kind in kinds}

    def send(
        self,
        direction: Direction,
        clients: Tensor,
        parameters: Tensor,
        extras: Sequence[Tensor | float] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Carry `parameters` (n, d_s) and `extras` to or from `clients` (n,).

        `extras` go with every one of these messages: arrays with one row per client, or scalars.

        Returns:
            The parameters and the extras as they arrive; a scalar becomes (n,), in float32.

        Raises:
            ValueError: `parameters` is not one row of d_s shared parameters per client, so that
                personal parameters, or those of another client, would have crossed.
        """
        if parameters.shape != (len(clients), self.shared):
            raise ValueError(
                f"cannot send parameters of shape {tuple(parameters.shape)} {direction}: the "
                f"channel carries {self.shared} shared parameters for each of {len(clients)} "
                "clients"
            )
        rows = [_rows(extra, clients) for extra in extras]
        self._count(direction, clients, [parameters, *rows], rows)
        parameters, *rows = self.carry(direction, clients, [parameters, *rows])
        return parameters, rows

    def send_extras(
        self, direction: Direction, clients: Tensor, extras: Sequence[Tensor | float]
    ) -> list[Tensor]:
        """Carry and count `extras`, as `send` does, without parameters."""
        rows = [_rows(extra, clients) for extra in extras]
        self._count(direction, clients, rows, rows)
        return self.carry(direction, clients, rows)

    def carry(self, direction: Direction, clients: Tensor, rows: list[Tensor]) -> list[Tensor]:
        """What arrives of `rows`, arrays with one row per client of `clients`."""
        return [_copy(row) for row in rows]

    def _count(
        self, direction: Direction, clients: Tensor, rows: list[Tensor], extras: list[Tensor]
    ) -> None:
        for kind, some in (("bytes", rows), ("extras", extras)):
            size = sum(math.prod(row.shape[1:]) * row.element_size() for row in some)
            self._traffic[f"{kind}_{direction}"][clients.cpu().numpy()] += size

    @property
    def traffic(self) -> Traffic:
        """What has crossed since `close_round` was last called; a copy."""
        return {kind: counts.copy() for kind, counts in self._traffic.items()}

    def close_round(self) -> Traffic:
        """What has crossed since the last call; the counts start again from zero."""
        traffic, self._traffic = self._traffic, self._blank()
        return traffic


def total(first: Traffic, second: Traffic) -> Traffic:
    """The sum of two traffics of the same clients."""
    return {kind: counts + second[kind] for kind, counts in first.items()}


def _copy(rows: Tensor) -> Tensor:
    """A copy of rows; a row that is the same for all clients is stored once."""
    if len(rows) > 1 and rows.stride(0) == 0:
        return rows[:1].clone().expand_as(rows)
    return rows.clone(memory_format=torch.contiguous_format)


def _rows(extra: Tensor | float, clients: Tensor) -> Tensor:
    """One row of `extra` for each client."""
    if isinstance(extra, Tensor):
        return extra
    return torch.full((len(clients),), extra, dtype=torch.float32, device=clients.device)
