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
            given = [_zeros(x) for x in (rows, *inputs, slope, rows)]
            found = Traced(both, given, later=2)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever PyTorch cannot trace
            log.info("the passes are not compiled: %s", str(error).split("\n")[0])
            return None
        found.forward = _compiled("the model", found.forward, rows, *inputs)
        _, tensors = found.forward(rows, *inputs)
        found.backward = _compiled("the model", found.backward, *tensors, slope, _zeros(rows))
        return found


class CompiledSteps:
    """Takes steps of optimisers, each compiled once for every combination of shapes and types of
    its tensors, whatever its rate."""

    def __init__(self) -> None:
        self.compiled: dict[object, Program] = {}

    def __call__(
        self, optimiser: ClientOpt, y: Tensor, g: Tensor, state: dict[str, Tensor], k: Tensor
    ) -> None:
        """Take step `k` of an optimiser, see `ClientOpt.step`."""
        rate: Any = optimiser.lr
        if not isinstance(rate, Tensor):
            rate = torch.full((), rate, dtype=torch.float64, device=y.device)
        tensors = [y, g, k, rate, *state.values()]
        optimiser = optimiser.model_copy(update={"lr": 1.0})
        key = repr(optimiser), tuple(state), _forms(*tensors)
        if key not in self.compiled:
            self.compiled[key] = _step(optimiser, list(state), tensors)
        self.compiled[key](*tensors)


def _step(optimiser: ClientOpt, names: list[str], like: list[Tensor]) -> Program:
    """A step as a function of the rows, the gradients, its number, the rate and the entries of the
    state."""

    def step(y: Tensor, g: Tensor, k: Tensor, rate: Tensor, *state: Tensor) -> None:
        own = optimiser.slowed(rate)
        own.step(y, g, dict(zip(names, state, strict=True)), k)

    given = [_zeros(x) for x in like]
    with _refused(optimiser.name):
        program = make_fx(functionalize(step))(*given)
    return _compiled(optimiser.name, program, *given)


def _forms(*tensors: Tensor) -> tuple[object, ...]:
    """The shapes and types of tensors; PyTorch compiles a program anew if they change."""
    return tuple((x.shape, x.stride(), x.dtype, x.device) for x in tensors)


def _zeros(like: Tensor) -> Tensor:
    return like.new_empty_strided(like.shape, like.stride()).zero_()


def _compiled(name: str, program: Program, *given: Tensor) -> Program:
    """The program compiled into as few kernels as possible, after a first run."""
    with _refused(name):
        compiled: Program = torch.compile(program, backend=BACKEND, dynamic=False)
        with _repeatable():
            compiled(*given)
    return compiled


@contextmanager
def _repeatable() -> Iterator[None]:
    """Let the code generator choose kernels by their shapes. Chosen by timing, they would differ,
    and round differently, between runs."""
    from torch._inductor import config  # imports the code generator

    # PyTorch before 2.9 lacks this option.
    with config.patch({"deterministic": True} if hasattr(config, "deterministic") else {}):
        yield


@contextmanager
def _refused(name: str) -> Iterator[None]:
    """Raise a `ConfigError` if PyTorch cannot compile here. Uncompiled steps would round
    differently under the same engine's name."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # compilers raise many kinds
        reason = str(error).split("\n")[0]
        problem = f"'compiled' cannot compile {name}: {reason}; set it to auto"
        raise ConfigError("compute.engine", [problem]) from error
