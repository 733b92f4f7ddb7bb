"""The passes of a stack of models, traced once and then run as flat lists of tensor operations.

In every step, `vmap` and automatic differentiation decide which operations to launch. For small
models this takes longer than the arithmetic. The decisions depend only on shapes, so they are
recorded once (`make_fx`) for each number of rows and of windows.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import functionalize, vjp, vmap
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

Call = Callable[..., Tensor]
"""Forecasts (B,) or (B, O) of one model, given its parameters by name, sequences, covariates and,
if units are dropped, the factors of the units."""


class Traced:
    """A forward and a backward pass for one number of rows and of windows."""

    forward: Callable[..., tuple[Tensor, list[Tensor]]]
    """Forecasts for parameters and inputs, and what `backward` needs."""
    backward: Callable[..., list[Tensor]]
    """Gradients with respect to the parameters, given what it needs and the gradient of the loss
    with respect to the forecasts."""

    def __init__(self, both: Callable[..., Any], given: list[Tensor]):
        """Trace the passes.

        Args:
            both: computes forecasts and gradients from the `given` tensors.
            given: tensors of the right shapes, whose values do not matter. The last one is only for
                the backward pass.
        """
        with torch.inference_mode(False), torch.no_grad():
            program = make_fx(functionalize(both))(*given)
        self.forward, self.backward = _split(program)


def stacked(call: Call, names: list[str]) -> Callable[..., tuple[Tensor, ...]]:
    """Forecasts and gradients of rows of a module, given parameters (S, ...), sequences,
    covariates, factors if any, and slopes."""

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
