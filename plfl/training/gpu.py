"""What the stacked engine needs on a GPU: equal steps as CUDA graphs, and stacks that fit into its
memory.

Launching the kernels of a small model's step one by one takes longer than the kernels themselves.
A step is therefore recorded once and replayed, without Python between kernels. It uses the same
memory each time, so everything that differs between steps must be in tensors on the GPU, even the
number of the step.
"""

import logging
from collections.abc import Callable, Hashable
from functools import cache

import torch

from plfl.base.errors import PlflError, Problem

log = logging.getLogger(__name__)

EAGER_STEPS = 2
"""The number of first steps, not replayed: they trace passes and allocate what libraries need."""

Step = Callable[[], None]


def make_convolutions_exact() -> None:
    """Let a GPU round convolutions as it rounds all else: to single precision, and alike each
    time. PyTorch's default is a shorter format (TF32) and whichever algorithm is fast."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


def repeat(step: Step, times: int, record: Callable[[Step], Step]) -> None:
    """Take a step, which reads and changes tensors only, `times` times: the first `EAGER_STEPS` as
    it is, the others by the recording that `record` makes of it without taking it. If that raises a
    `RuntimeError`, all steps are taken as they are."""
    for _ in range(min(times, EAGER_STEPS)):
        step()
    if times <= EAGER_STEPS:
        return
    try:
        replay = record(step)
    except RuntimeError as error:
        _say(str(error).split("\n")[0])
        replay = step
    for _ in range(times - EAGER_STEPS):
        replay()


@cache
def _say(reason: str) -> None:
    """Log, once for all stacks, why steps are not replayed."""
    log.info("the steps are not replayed as a CUDA graph: %s", reason)


class Graphs:
    """Repeats steps on one GPU; the graphs of all calls share their memory."""

    def __init__(self, device: torch.device):
        self.stream = torch.cuda.Stream(device)
        # Without a graph that lasts, PyTorch would refuse the memory that graphs have shared.
        self.lasting = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.lasting, stream=self.stream):
            torch.zeros((), device=device)

    def __call__(self, step: Step, times: int) -> None:
        """See `repeat`."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            repeat(step, times, self._record)
        current.wait_stream(self.stream)

    def _record(self, step: Step) -> Step:
        graph = torch.cuda.CUDAGraph()
        # `torch.cuda.graph` would collect garbage and empty the cache before each recording.
        graph.capture_begin(self.lasting.pool())
        try:
            step()
        finally:
            graph.capture_end()
        return graph.replay


USED_MEMORY = 0.8
"""Fraction of the free memory that may be used; fragmentation makes the rest unusable."""


class Memory:
    """The memory of a GPU, and how many models were found to fit."""

    def __init__(self, device: torch.device):
        self.device = device
        self.sizes_found: dict[Hashable, tuple[tuple[int, ...], int]] = {}

    def free_bytes(self) -> int:
        """Bytes that are free for tensors now."""
        cached_bytes = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(
            self.device
        )
        return torch.cuda.mem_get_info(self.device)[0] + cached_bytes

    def bytes_taken(self, work: Callable[[], object]) -> int:
        """The most additional bytes that tensors take while `work` runs."""
        bytes_before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        work()
        peak_bytes = torch.cuda.max_memory_allocated(self.device)
        torch.cuda.empty_cache()  # while a step is recorded, PyTorch frees no memory
        return peak_bytes - bytes_before

    def sizes_in_memory(
        self, subject: str, form: Hashable, sizes: tuple[int, ...], step: Callable[[int], None]
    ) -> tuple[tuple[int, ...], int]:
        """Those of the ascending `sizes` of stacks that fit into the free memory, and the number of
        models that fit, in whole stacks of the largest such size. Measured once for each `form`.
        `step` makes a stack of a given size and takes one step of it; `subject` is its name in
        messages. PlflError: the smallest stack does not fit."""
        if form in self.sizes_found:
            return self.sizes_found[form]
        for count in range(len(sizes), 0, -1):
            size = sizes[count - 1]
            try:
                step(size)  # what is made once, such as traced passes, is not measured
                free = self.free_bytes()
                bytes_taken = max(1, self.bytes_taken(lambda size=size: step(size)))  # type: ignore[misc]
            except torch.OutOfMemoryError:
                continue
            # A recorded step has the same amount of memory once more.
            if (stacks := int(USED_MEMORY * free) // bytes_taken - 1) > 0:
                log.info(
                    "%s of %d models takes %.3g GB of the GPU, %.3g GB are free: %d models fit",
                    *(subject, size, bytes_taken / 1e9, free / 1e9, stacks * size),
                )
                self.sizes_found[form] = sizes[:count], stacks * size
                return self.sizes_found[form]
        raise PlflError(
            Problem(
                "",
                f"{subject} of {sizes[0]} models does not fit into the memory of the GPU",
                "lower federation.batch_size or set compute.device to cpu",
            )
        )


def memory_of(device: torch.device) -> Memory | None:
    """The memory that limits how many models train together; None on a CPU (small blocks)."""
    return Memory(device) if device.type == "cuda" else None
