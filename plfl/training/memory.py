"""The memory of a GPU: how much a step of a stack takes, as measured, and how many models fit."""

import logging
from collections.abc import Callable, Hashable

import torch

from plfl.base.errors import PlflError

log = logging.getLogger(__name__)

MARGIN = 0.8
"""Fraction of the free memory that may be used; fragmentation makes the rest unusable."""


class Memory:
    """The memory of a GPU, and how many models were found to fit."""

    def __init__(self, device: torch.device):
        self.device = device
        self.found: dict[Hashable, tuple[tuple[int, ...], int]] = {}

    def free(self) -> int:
        """Bytes that are free for tensors now."""
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return torch.cuda.mem_get_info(self.device)[0] + kept

    def taken(self, work: Callable[[], object]) -> int:
        """The most additional bytes that tensors take while `work` runs."""
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        work()
        most = torch.cuda.max_memory_allocated(self.device)
        torch.cuda.empty_cache()  # while a step is recorded, PyTorch frees no memory
        return most - before

    def fit(
        self, what: str, form: Hashable, sizes: tuple[int, ...], step: Callable[[int], None]
    ) -> tuple[tuple[int, ...], int]:
        """Those of the ascending `sizes` of stacks that fit into the free memory, and the number of
        models that fit, in whole stacks of the largest such size. Measured once for each `form`.

        `step` makes a stack of a given size and takes one step of it; `what` is its name in
        messages.

        Raises:
            PlflError: the smallest stack does not fit.
        """
        if form in self.found:
            return self.found[form]
        for count in range(len(sizes), 0, -1):
            size = sizes[count - 1]
            try:
                step(size)  # what is made once, such as traced passes, is not measured
                free = self.free()
                taken = max(1, self.taken(lambda size=size: step(size)))  # type: ignore[misc]
            except torch.OutOfMemoryError:
                continue
            # A recorded step has the same amount of memory once more.
            if (stacks := int(MARGIN * free) // taken - 1) > 0:
                log.info(
                    "%s of %d models takes %.3g GB of the GPU, %.3g GB are free: %d models fit",
                    *(what, size, taken / 1e9, free / 1e9, stacks * size),
                )
                self.found[form] = sizes[:count], stacks * size
                return self.found[form]
        raise PlflError(
            f"{what} of {sizes[0]} models does not fit into the memory of the GPU; "
            "lower federation.batch_size or set compute.device to cpu"
        )


def of(device: torch.device) -> Memory | None:
    """The memory that limits how many models train together; None on a CPU, where blocks are
    small."""
    return Memory(device) if device.type == "cuda" else None
