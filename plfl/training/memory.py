"""The memory of a GPU."""

from typing import Protocol

import torch


class Memory(Protocol):
    """The memory of a device."""

    def free(self) -> int:
        """Bytes that tensors can have now."""


class OfGpu:
    """The memory of a GPU."""

    def __init__(self, device: torch.device):
        self.device = device

    def free(self) -> int:
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return torch.cuda.mem_get_info(self.device)[0] + kept


def of(device: torch.device) -> Memory | None:
    """The memory that bounds what trains together; None on a CPU, where blocks are small."""
    return OfGpu(device) if device.type == "cuda" else None
