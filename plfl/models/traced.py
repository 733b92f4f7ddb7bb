"""The passes of a stack of modules, traced once and then run as flat lists of tensor operations.

`vmap` and automatic differentiation decide anew in every step which operations to launch, which
takes longer than the arithmetic of small models. What they decide depends on shapes only, so it is
written down (`make_fx`) for each number of rows and of windows.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import functionalize, vjp, vmap
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

Call = Callable[..., Tensor]
"""Forecasts (B,) or (B, O) of one model, given its parameters by name, sequences, contexts and, if
units are dropped, the factors of the units."""


class Traced:
    """A forward and a backward pass for one number of rows and of windows."""

    def __init__(self, call: Call, names: list[str], given: list[Tensor]):
        """Trace the passes, given parameters (S, ...), sequences, contexts, factors if any, and
        slopes of the same shapes as those to come; their values do not matter."""

        def one(*tensors: Tensor) -> tuple[Tensor, ...]:
            *inputs, slope = tensors[len(names) :]
            parameters = dict(zip(names, tensors, strict=False))
            forecast, back, *_ = vjp(lambda named: call(named, *inputs), parameters)
            gradients = back(slope)[0]
            return forecast, *(gradients[name] for name in names)

        with torch.inference_mode(False), torch.no_grad():
            joint = make_fx(functionalize(vmap(one)))(*given)
        self._forward, self._backward = _split(joint)

    def forward(self, *given: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Forecasts of parameters and inputs, and what `backward` needs."""
        outputs: tuple[Tensor, list[Tensor]] = self._forward(*given)
        return outputs

    def backward(self, kept: list[Tensor], slope: Tensor) -> list[Tensor]:
        """Gradients by the parameters, given that of the loss by the forecasts."""
        slopes: list[Tensor] = self._backward(*kept, slope)
        return slopes


def _split(joint: GraphModule) -> tuple[GraphModule, GraphModule]:
    """The part of a program that makes the first output, and the rest."""
    nodes = list(joint.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    outputs: Any = nodes[-1].args[0]
    first = {outputs[0], *inputs[:-1]}
    for node in reversed(nodes):
        if node in first:
            first.update(node.all_input_nodes)
    rest = [node for node in nodes[:-1] if node not in first and node is not inputs[-1]]
    used = {before for node in rest for before in node.all_input_nodes}
    kept = [node for node in nodes if node in first and node in used | {*outputs[1:]}]

    forward, copies = Graph(), dict[Node, Node]()
    for node in nodes:
        if node in first:
            copies[node] = forward.node_copy(node, copies.__getitem__)
    forward.output((copies[outputs[0]], [copies[node] for node in kept]))

    backward = Graph()
    copies = {node: backward.placeholder(node.name) for node in (*kept, inputs[-1])}
    for node in rest:
        copies[node] = backward.node_copy(node, copies.__getitem__)
    backward.output([copies[node] for node in outputs[1:]])
    return GraphModule(joint, forward), GraphModule(joint, backward)
