"""Equal steps on a GPU as a CUDA graph: recorded once and replayed, without Python between kernels.

Launching the kernels of a small model's step one by one takes longer than the kernels themselves. A
recorded step uses the same memory each time, so everything that differs between steps must be in
tensors on the GPU, even the number of the step.
"""

import logging
from collections.abc import Callable
from functools import cache

import torch

log = logging.getLogger(__name__)

PLAIN = 2
"""The number of first steps, which are not replayed: they trace passes and allocate what libraries
need."""

Step = Callable[[], None]


def exact() -> None:
    """Let a GPU round convolutions as it rounds all else: to single precision, and alike each
    time. PyTorch's default is a shorter format (TF32) and whichever algorithm is fast."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


def repeat(step: Step, times: int, record: Callable[[Step], Step]) -> None:
    """Take a step `times` times: the first `PLAIN` as it is, the others by a recording.

    Args:
        step: reads and changes tensors only.
        times: at least one.
        record: makes a recording of the step without taking it. If it raises a `RuntimeError`, all
            steps are taken as they are.
    """
    for _ in range(min(times, PLAIN)):
        step()
    if times <= PLAIN:
        return
    try:
        again = record(step)
    except RuntimeError as error:
        _say(str(error).split("\n")[0])
        again = step
    for _ in range(times - PLAIN):
        again()


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
