"""Recordings of operations on the CPU, which are replayed as a GPU replays a CUDA graph.

A recording holds operations, the tensors that they read and those that they write. Python does not
run when it is replayed. What a GPU cannot record is refused: what makes Python wait for a value.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from plfl.training.graphs import Step, repeat
from tests.helpers.elsewhere import WAITING

ALSO_WAITING = {"item", "is_nonzero"}
"""What inference mode does not take apart into operations of `WAITING`."""


class Recording(TorchDispatchMode):
    """The operations inside of `with`, which run once there."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Callable[..., Any], Any, Any, list[Any]]] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        name, kwargs = func._schema.name.removeprefix("aten::"), kwargs or {}
        masks = name.startswith("index") and any(
            isinstance(leaf, Tensor) and leaf.dtype == torch.bool for leaf in tree_leaves(args[1:2])
        )
        if masks or name in WAITING | ALSO_WAITING:
            raise RuntimeError(f"{func} cannot be recorded")
        out = func(*args, **kwargs)
        self.done.append((func, args, kwargs, tree_leaves(out)))
        return out

    def replay(self) -> None:
        """Do everything again, in the same memory."""
        for func, args, kwargs, written in self.done:
            for old, new in zip(written, tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def recorded(step: Step) -> Step:
    """A recording of `step`. Because recording takes the step, its first replay does nothing."""
    recording = Recording()
    with recording:
        step()
    replays = iter([lambda: None])
    return lambda: next(replays, recording.replay)()


class Replayed:
    """Repeats steps by recordings, and counts them."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.refused = 0

    def _record(self, step: Step) -> Step:
        try:
            return recorded(step)
        except RuntimeError:
            self.refused += 1
            raise

    def __call__(self, step: Step, times: int) -> None:
        self.times.append(times)
        with torch.inference_mode():
            repeat(step, times, self._record)
