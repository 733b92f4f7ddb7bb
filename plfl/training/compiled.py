"""The step of an optimiser as one kernel of a GPU instead of one per operation.

With thousands of models a step is limited by reads and writes of their parameters: operation by
operation Adam has about 26 of them for each parameter, in one kernel seven.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from plfl.base.errors import ConfigError
from plfl.optimizers.client import ClientOpt

BACKEND = "inductor"
"""Of `torch.compile`."""

Step = Callable[..., Any]
"""A step, given rows, gradients, its number, the entries of the state and the rate, if that is a
tensor."""


class CompiledSteps:
    """Takes steps of optimisers, each compiled once for every form of its tensors."""

    def __init__(self) -> None:
        self.compiled: dict[object, Step] = {}

    def __call__(
        self, optimiser: ClientOpt, y: Tensor, g: Tensor, state: dict[str, Tensor], k: Tensor
    ) -> None:
        """Take step `k` of an optimiser, see `ClientOpt.step`."""
        tensors = [y, g, k, *state.values()]
        if isinstance(optimiser.lr, Tensor):
            tensors.append(optimiser.lr)
            optimiser = optimiser.model_copy(update={"lr": 1.0})
        forms = tuple((x.shape, x.stride(), x.dtype, x.device) for x in tensors)
        key = repr(optimiser), tuple(state), forms
        if key not in self.compiled:
            self.compiled[key] = _compiled(optimiser, list(state), tensors)
        self.compiled[key](*tensors)


def _compiled(optimiser: ClientOpt, names: list[str], like: list[Tensor]) -> Step:
    """The step in one kernel.

    Raises:
        ConfigError: PyTorch cannot compile it here. Uncompiled steps round differently, and the
            engine would have the same name.
    """

    def step(y: Tensor, g: Tensor, k: Tensor, *rest: Tensor) -> None:
        state = dict(zip(names, rest, strict=False))
        own = optimiser.slowed(rest[-1]) if len(rest) > len(names) else optimiser
        own.step(y, g, state, k)

    with torch.inference_mode(False), torch.no_grad():
        given = [torch.zeros_like(x) for x in like]
        try:
            compiled: Step = torch.compile(
                make_fx(functionalize(step))(*given), backend=BACKEND, dynamic=False
            )
            compiled(*given)
        except Exception as error:  # compilers raise many kinds
            reason = str(error).split("\n")[0]
            problem = f"'compiled' cannot compile {optimiser.name}: {reason}; set it to auto"
            raise ConfigError("compute.engine", [problem]) from error
    return compiled
