"""The only way between clients and the server, and the ledger of what crossed it."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Direction = Literal["down", "up"]
SCALAR_BYTES = 4
"""What an integer or scalar that accompanies a message counts: one float32."""


class Channel:
    """Carries messages of one federation and counts their bytes, per client and direction.

    A message is a row of shared parameters per client, plus extras: further arrays or scalars that
    an algorithm sends. What arrives is a copy, so nobody writes into the other side's memory.
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
    ) -> Tensor:
        """Carry `parameters` (n, d_s) to or from `clients` (n,) and return what arrives.

        `extras` go with every one of these messages: arrays with a row per client, or scalars.
        The ledger's `bytes_*` hold parameters and extras together, `extras_*` the extras alone.

        Raises:
            ValueError: `parameters` is not one row of d_s shared parameters per client: something
                personal, or somebody else's, was about to cross.
        """
        if parameters.shape != (len(clients), self.shared):
            raise ValueError(
                f"{tuple(parameters.shape)} parameters were about to go {direction}; the channel "
                f"carries {self.shared} shared ones for each of {len(clients)} clients"
            )
        size = self.shared * parameters.element_size()
        self._ledger[f"bytes_{direction}"][clients.cpu().numpy()] += size
        self.send_extras(direction, clients, extras)
        return parameters.clone(memory_format=torch.contiguous_format)

    def send_extras(
        self, direction: Direction, clients: Tensor, extras: Sequence[Tensor | float]
    ) -> None:
        """Count `extras`, as `send` does, that go to or from `clients` without parameters."""
        size = sum(
            e[0].numel() * e.element_size() if isinstance(e, Tensor) else SCALAR_BYTES
            for e in extras
        )
        for kind in ("bytes", "extras"):
            self._ledger[f"{kind}_{direction}"][clients.cpu().numpy()] += size

    def close_round(self) -> dict[str, NDArray[np.int64]]:
        """Bytes of each client since the last call, by kind; starts a new page of the ledger."""
        page, self._ledger = self._ledger, self._blank()
        return page
