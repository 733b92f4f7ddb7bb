"""The memory of a GPU: what a step of a stack takes of it, measured, and how many models fit."""

import logging
from collections.abc import Callable
from typing import Protocol

import torch

from plfl.base.errors import PlflError

log = logging.getLogger(__name__)

MARGIN = 0.8
"""Part of the free memory that models may take: memory gets cut up, and steps that are recorded
have some of their own."""


class Memory(Protocol):
    """The memory of a device."""

    def free(self) -> int:
        """Bytes that tensors can have now."""

    def taken(self, work: Callable[[], object]) -> int:
        """Most bytes that tensors take while some work is done, beside those before.

        Raises:
            torch.OutOfMemoryError: there are not so many.
        """


class OfGpu:
    """The memory of a GPU."""

    def __init__(self, device: torch.device):
        self.device = device

    def free(self) -> int:
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return torch.cuda.mem_get_info(self.device)[0] + kept

    def taken(self, work: Callable[[], object]) -> int:
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        work()
        return torch.cuda.max_memory_allocated(self.device) - before


def of(device: torch.device) -> Memory | None:
    """The memory that bounds what trains together; None on a CPU, where blocks are small."""
    return OfGpu(device) if device.type == "cuda" else None


def fit(
    memory: Memory, sizes: tuple[int, ...], step: Callable[[int], object], what: str
) -> tuple[tuple[int, ...], int]:
    """Those of the `sizes` of stacks, in ascending order, that fit into the free memory; and how
    many models do, in whole stacks of the largest of them.

    Args:
        memory: the memory.
        sizes: the sizes.
        step: takes a step of a stack of a size, all that the stack needs included. It is taken
            twice, because what is made once, such as traced passes, is no part of the measurement.
        what: the name of such a step.

    Raises:
        PlflError: the smallest stack does not fit.
    """
    for count in range(len(sizes), 0, -1):
        size = sizes[count - 1]
        try:
            step(size)
            free = memory.free()
            taken = max(1, memory.taken(lambda size=size: step(size)))  # type: ignore[misc]
        except torch.OutOfMemoryError:
            continue
        if stacks := int(MARGIN * free) // taken:
            log.info(
                "%s of %d models takes %.3g GB of the GPU, %.3g GB are free: %d models fit",
                *(what, size, taken / 1e9, free / 1e9, stacks * size),
            )
            return sizes[:count], stacks * size
    raise PlflError(
        f"{what} of {sizes[0]} models does not fit into the memory of the GPU; "
        "lower federation.batch_size or set compute.device to cpu"
    )
