"""Passes of models and steps of optimisers as a few kernels of a GPU instead of one per operation.

With thousands of models, the speed of a step is limited by reads and writes of their parameters.
One operation at a time, Adam needs about 26 of them per parameter; in one kernel, seven.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from plfl.base.errors import ConfigError
from plfl.models.network import Kept, Network
from plfl.models.traced import Traced
from plfl.optimizers.client import ClientOpt

log = logging.getLogger(__name__)

BACKEND = "inductor"
"""The backend of `torch.compile`."""

Program = Callable[..., Any]
"""A function of tensors."""


class CompiledNetwork:
    """A network whose passes are compiled once for every combination of shapes and types of their
    tensors.

    Passes that PyTorch cannot trace, or whose loss reads features, run uncompiled.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.passes: dict[object, Traced | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def forward_pass(
        self, rows: Tensor, *inputs: Tensor, features: bool = False
    ) -> tuple[Tensor, Any]:
        """See `Network.forward_pass`."""
        key = _forms(rows, *inputs)
        if not features and key not in self.passes:
            self.passes[key] = self._compiled(rows, inputs)
        if features or (passes := self.passes[key]) is None:
            return self.network.forward_pass(rows, *inputs, features=features)
        forecasts, tensors = passes.forward(rows, *inputs)
        return forecasts, (passes, tensors)

    def backward_pass(
        self, rows: Tensor, kept: Any, forecast: Tensor, features: dict[str, Tensor], out: Tensor
    ) -> None:
        """See `Network.backward_pass`."""
        if type(kept) is tuple:
            passes, tensors = kept
            passes.backward(*tensors, forecast.contiguous(), out)
        else:
            self.network.backward_pass(rows, kept, forecast, features, out)

    def _compiled(self, rows: Tensor, inputs: tuple[Tensor, ...]) -> Traced | None:
        def both(rows: Tensor, *others: Tensor) -> tuple[Tensor]:
            *inputs, slope, out = others
            forecasts, kept = self.network.forward_pass(rows, *inputs)
            self.network.backward_pass(rows, kept, slope, {}, out)
            return (forecasts,)

        forecasts, kept = self.network.forward_pass(rows, *inputs)
        slope = forecasts.contiguous()
        try:
            if isinstance(kept, Kept) and not isinstance(kept.how, Traced):
                raise TypeError("rows train one after the other")
            given = (_zeros(x, False) for x in (rows, *inputs, slope, rows))
            found = Traced(both, list(given), later=2)
        except Exception as error:  # whatever PyTorch cannot trace
            log.info("the passes are not compiled: %s", str(error).split("\n")[0])
            return None
        found.forward = _compiled("the model", found.forward, rows, *inputs)
        _, tensors = found.forward(rows, *inputs)
        out = _zeros(rows, rows.is_inference())
        found.backward = _compiled("the model", found.backward, *tensors, slope, out)
        return found


class CompiledSteps:
    """Takes steps of optimisers, each compiled once for every combination of shapes and types of
    its tensors."""

    def __init__(self) -> None:
        self.compiled: dict[object, Program] = {}

    def __call__(
        self, optimiser: ClientOpt, y: Tensor, g: Tensor, state: dict[str, Tensor], k: Tensor
    ) -> None:
        """Take step `k` of an optimiser, see `ClientOpt.step`."""
        tensors = [y, g, k, *state.values()]
        if isinstance(optimiser.lr, Tensor):
            tensors.append(optimiser.lr)
            optimiser = optimiser.model_copy(update={"lr": 1.0})
        key = repr(optimiser), tuple(state), _forms(*tensors)
        if key not in self.compiled:
            self.compiled[key] = _step(optimiser, list(state), tensors)
        self.compiled[key](*tensors)


def _step(optimiser: ClientOpt, names: list[str], like: list[Tensor]) -> Program:
    """A step as a function of the rows, the gradients, its number, the entries of the state and, if
    it is a tensor, the rate."""

    def step(y: Tensor, g: Tensor, k: Tensor, *rest: Tensor) -> None:
        state = dict(zip(names, rest, strict=False))
        own = optimiser.slowed(rest[-1]) if len(rest) > len(names) else optimiser
        own.step(y, g, state, k)

    with _refused(optimiser.name), torch.inference_mode(False), torch.no_grad():
        program = make_fx(functionalize(step))(*(_zeros(x, False) for x in like))
    return _compiled(optimiser.name, program, *(_zeros(x, x.is_inference()) for x in like))


def _forms(*tensors: Tensor) -> tuple[object, ...]:
    """The shapes and types of tensors; PyTorch compiles a program anew if they change."""
    return tuple((x.shape, x.stride(), x.dtype, x.device, x.is_inference()) for x in tensors)


def _zeros(like: Tensor, for_inference: bool) -> Tensor:
    with torch.inference_mode(for_inference):
        return like.new_empty_strided(like.shape, like.stride()).zero_()


def _compiled(name: str, program: Program, *given: Tensor) -> Program:
    """The program compiled into as few kernels as possible, after a first run."""
    with _refused(name):
        compiled: Program = torch.compile(program, backend=BACKEND, dynamic=False)
        compiled(*given)
    return compiled


@contextmanager
def _refused(name: str) -> Iterator[None]:
    """Raise a `ConfigError` if PyTorch cannot compile here. Uncompiled steps would round
    differently under the same engine's name."""
    try:
        yield
    except Exception as error:  # compilers raise many kinds
        reason = str(error).split("\n")[0]
        problem = f"'compiled' cannot compile {name}: {reason}; set it to auto"
        raise ConfigError("compute.engine", [problem]) from error
