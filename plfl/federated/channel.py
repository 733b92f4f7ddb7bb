"""The only connection between clients and server, and the ledger of the bytes that cross it."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Direction = Literal["down", "up"]


class Channel:
    """Carries messages of one federation and counts their bytes, per client and direction.

    A message is one row of shared parameters per client, plus extras: further arrays or scalars
    that an algorithm sends. The receiver gets a copy and may use nothing else. Here both sides are
    in one process; the channels of `plfl.deploy` connect different machines.
    """

    def __init__(self, shared: int, clients: int):
        self.shared = shared
        self.clients = clients
        self._ledger = self._blank()

    def _blank(self) -> dict[str, NDArray[np.int64]]:
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
        The ledger's `bytes_*` hold parameters and extras together, `extras_*` the extras alone.

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
            self._ledger[f"{kind}_{direction}"][clients.cpu().numpy()] += size

    @property
    def page(self) -> dict[str, NDArray[np.int64]]:
        """Bytes of each client since `close_round` was last called, by kind; a copy."""
        return {kind: some.copy() for kind, some in self._ledger.items()}

    def close_round(self) -> dict[str, NDArray[np.int64]]:
        """Bytes of each client since the last call, by kind; starts a new page of the ledger."""
        page, self._ledger = self._ledger, self._blank()
        return page


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
