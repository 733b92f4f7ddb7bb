"""Many models of the same sizes, as the engines train them: rows in, forecasts and gradients out.

Any `nn.Module` will do. Its rows go through `torch.func.vmap` together, traced into flat lists of
operations. In every step, `vmap` and automatic differentiation would decide anew which operations
to launch, which takes longer than the arithmetic of small models. The decisions depend only on
shapes, so they are recorded once (`make_fx`) for each number of rows and of windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, functionalize, vjp, vmap
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from plfl.base.errors import PlflError
from plfl.layout import KernelForm, ParameterLayout, WindowShape

Named = dict[str, Tensor]
Call = Callable[..., Tensor]
"""Forecasts (B,) or (B, O) of one model, given its parameters by name, sequences and covariates."""


class Traced:
    """A forward and a backward pass for one number of rows and of windows."""

    forward: Callable[..., tuple[Tensor, list[Tensor]]]
    """Forecasts for parameters and inputs, and what `backward` needs."""
    backward: Callable[..., list[Tensor]]
    """Gradients with respect to the parameters, given what it needs and the gradient of the loss
    with respect to the forecasts."""

    def __init__(self, both: Callable[..., Any], given: list[Tensor]):
        """Trace the passes: `both` computes forecasts and gradients from the `given` tensors, of
        the right shapes, whose values do not matter. The last one is only for the backward pass."""
        with torch.inference_mode(False), torch.no_grad():
            program = make_fx(functionalize(both))(*given)
        self.forward, self.backward = _split(program)


def stacked(call: Call, names: list[str]) -> Callable[..., tuple[Tensor, ...]]:
    """Forecasts and gradients of a module, given parameters (S, ...), windows and slopes."""

    def one(*tensors: Tensor) -> tuple[Tensor, ...]:
        *inputs, slope = tensors[len(names) :]
        parameters = dict(zip(names, tensors, strict=False))
        forecast, back, *_ = vjp(lambda named: call(named, *inputs), parameters)
        gradients = back(slope)[0]
        return forecast, *(gradients[name] for name in names)

    return vmap(one)


def _split(joint: GraphModule) -> tuple[GraphModule, GraphModule]:
    """A program in two parts: the one that computes the first output, and the rest."""
    nodes = list(joint.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    *inputs, slope = inputs
    outputs: Any = nodes[-1].args[0]
    first = {outputs[0], *inputs}
    for node in reversed(nodes):
        if node in first:
            first.update(node.all_input_nodes)
    rest = [node for node in nodes[:-1] if node not in {*first, slope}]
    used = {before for node in rest for before in node.all_input_nodes}
    kept = [node for node in nodes if node in first and node in used | {*outputs[1:]}]

    forward, copies = Graph(), dict[Node, Node]()
    for node in nodes:
        if node in first:
            copies[node] = forward.node_copy(node, copies.__getitem__)
    forward.output((copies[outputs[0]], [copies[node] for node in kept]))

    backward = Graph()
    copies = {node: backward.placeholder(node.name) for node in (*kept, slope)}
    for node in rest:
        copies[node] = backward.node_copy(node, copies.__getitem__)
    backward.output([copies[node] for node in outputs[1:]])
    return GraphModule(joint, forward), GraphModule(joint, backward)


class PassState(NamedTuple):
    """What a backward pass needs from the forward pass."""

    traced: Traced
    """The passes."""
    tensors: list[Tensor]
    """The tensors that the forward pass keeps."""
    penultimate: Tensor | None = None
    """Features (S, W, B), the inputs of the last layer, if the loss reads them."""


class Network(Protocol):
    """The interface of a model for the engines."""

    @property
    def layout(self) -> ParameterLayout:
        """The parameters of a row, in order."""

    @property
    def kernel_form(self) -> KernelForm | None:
        """The model as the native kernel describes it; None if the kernel does not support it."""

    def initial(self, seed: int) -> Tensor:
        """Initial parameters (P,), float32."""

    def module(self) -> nn.Module:
        """One model as a module, with parameters in the order of a row."""

    def forecasts(self, rows: Tensor, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (S, B), or (S, B, O) of several outputs, of models `rows` (S, P) for the
        windows of a `sequence` (S, B, T, F) and `covariates` (S, B, G)."""

    def forward_pass(
        self, rows: Tensor, *inputs: Tensor, features: bool = False
    ) -> tuple[Tensor, Any]:
        """The forecasts of models (S, P) for `inputs`, `sequence` and `covariates`, and what the
        backward pass needs. `features`: whether the loss reads features, which are then fields of
        the second result."""

    def backward_pass(
        self, rows: Tensor, kept: Any, forecast: Tensor, features: Named, out: Tensor
    ) -> None:
        """Write the gradient of a loss with respect to the models `rows` of a forward pass into
        `out` (S, P), given its gradients with respect to the forecasts and, by name, to features in
        `kept`."""


class Buildable(Protocol):
    """What this module needs of a `plfl.models.Model`."""

    def build(self, shape: WindowShape) -> nn.Module: ...
    @property
    def head_patterns(self) -> Sequence[str]: ...
    @property
    def kernel_form(self) -> KernelForm | None: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def summary(self) -> str: ...


def initial_of(model: Buildable, shape: WindowShape, seed: int) -> nn.Module:
    """A module whose initial parameters depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        # `torch.manual_seed` would also store it for every kind of GPU, with a stack trace.
        torch.default_generator.manual_seed(seed)
        return model.build(shape)


@dataclass(frozen=True)
class ModuleNetwork:
    """A model that is any `nn.Module`."""

    model: Buildable
    shape: WindowShape
    layout: ParameterLayout
    stateless: nn.Module
    """A module whose own parameters are never used."""
    tells_features: bool = False
    """Whether the module returns the inputs of its last layer after its outputs."""
    traced: dict[tuple[Any, ...], Traced] = field(default_factory=dict)
    """Passes, by numbers of rows and windows, type and device."""

    @classmethod
    def of(cls, model: Buildable, shape: WindowShape) -> ModuleNetwork:
        """The network of a model for windows of some shape."""
        module = initial_of(model, shape, 0)
        shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
        head = tuple(model.head_patterns) or (ParameterLayout(shapes).last,)
        return cls(model, shape, ParameterLayout(shapes, head), module)

    @property
    def kernel_form(self) -> KernelForm | None:
        return self.model.kernel_form

    def module(self) -> nn.Module:
        return initial_of(self.model, self.shape, 0)

    def initial(self, seed: int) -> Tensor:
        module = initial_of(self.model, self.shape, seed)
        return nn.utils.parameters_to_vector(module.parameters()).detach().clone()

    def forecasts(self, rows: Tensor, sequence: Tensor, covariates: Tensor) -> Tensor:
        with torch.no_grad():
            # On a CPU row by row, so that no forecast depends on which other models forecast at the
            # same time.
            views = self.layout.views(rows)
            if rows.device.type != "cpu":
                return vmap(self._call)(views, sequence, covariates)
            each = [{name: view[s] for name, view in views.items()} for s in range(len(rows))]
            return torch.stack([*map(self._call, each, sequence, covariates)])

    @cached_property
    def _with_features(self) -> ModuleNetwork:
        """The same modules, which also return the inputs of their last layer after the outputs."""
        return replace(self, tells_features=True, traced={})

    @cached_property
    def _last(self) -> nn.Linear:
        """The last layer of a model with features (`ModelRules.features`)."""
        last = self.stateless.get_submodule(self.layout.last.removesuffix(".*"))
        assert isinstance(last, nn.Linear)
        return last

    def forward_pass(
        self, rows: Tensor, *inputs: Tensor, features: bool = False
    ) -> tuple[Tensor, PassState]:
        if features:
            both, kept = self._with_features.forward_pass(rows, *inputs)
            outputs, read = both.tensor_split([self.shape.outputs], -1)
            return outputs, kept._replace(penultimate=read.mT)
        traced = self._traced(len(rows), *inputs)
        forecasts, tensors = traced.forward(*self.layout.views(rows).values(), *inputs)
        return forecasts, PassState(traced, tensors)

    def backward_pass(
        self, rows: Tensor, kept: PassState, forecast: Tensor, features: Named, out: Tensor
    ) -> None:
        if features:
            forecast = torch.cat([forecast, features["penultimate"].mT], -1)
        gradients = kept.traced.backward(*kept.tensors, forecast)
        for view, gradient in zip(self.layout.views(out).values(), gradients, strict=True):
            view.copy_(gradient)

    def _call(self, parameters: Named, *inputs: Tensor) -> Tensor:
        read: list[Tensor] = []
        hook = None
        if self.tells_features:
            hook = self._last.register_forward_pre_hook(lambda _, given: read.append(given[0]))
        try:
            forecasts: Tensor = functional_call(self.stateless, parameters, inputs)
        finally:
            if hook is not None:
                hook.remove()
        return torch.cat([forecasts, *read], -1) if read else forecasts

    def _traced(self, rows: int, sequence: Tensor, *others: Tensor) -> Traced:
        """The passes of this many rows together; PlflError: PyTorch cannot trace them."""
        key = (rows, *sequence.shape[1:], len(others), sequence.dtype, sequence.device.type)
        if key not in self.traced:
            batch, shape = sequence.shape[1], self.shape
            with torch.inference_mode(False):
                views = self.layout.views(torch.zeros(rows, self.layout.width).to(sequence))
                output = () if shape.outputs == 1 else (shape.outputs,)
                if self.tells_features:
                    output = (shape.outputs + self._last.in_features,)
                sizes = *(x.shape[2:] for x in (sequence, *others)), output
                given = [torch.zeros(rows, batch, *n).to(sequence) for n in sizes]
            try:
                both = stacked(self._call, self.layout.names)
                self.traced[key] = Traced(both, [*views.values(), *given])
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # whatever PyTorch cannot trace
                reason = str(error).split("\n")[0]
                raise PlflError(
                    f"{self.model.summary}: many models cannot train together ({reason}); remove "
                    "control flow that depends on values, such as an `if` on a tensor"
                ) from None
        return self.traced[key]
