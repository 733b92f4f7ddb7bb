"""Forward and backward passes of many models at once, traced into flat lists of operations.

In every step, `vmap` and automatic differentiation would decide anew which operations to launch,
which takes longer than the arithmetic of small models. The decisions depend only on shapes, so they
are recorded once (`make_fx`) for each number of rows and of windows.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.func import functionalize, vjp, vmap
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from plfl.models.row_random import drawn, is_random

Named = dict[str, Tensor]
Call = Callable[..., tuple[Tensor, Named]]
"""Forecasts (B,) or (B, O) of one model in training, and its buffers afterwards, given parameters
and buffers by name, sequences and covariates."""


class Traced:
    """A forward and a backward pass for one number of rows and of windows."""

    forward: Callable[..., tuple[list[Tensor], list[Tensor]]]
    """The forecasts and then the buffers after the pass, and what `backward` needs, for parameters,
    buffers, inputs and the generators of the rows, None for a model without random layers."""
    backward: Callable[..., list[Tensor]]
    """Gradients with respect to the parameters, given what it needs and the gradient of the loss
    with respect to the forecasts."""

    def __init__(self, passes: Callable[..., Any], given: list[Tensor], results: int = 1):
        """Trace `passes`, which computes the results of the forward pass and then the gradients
        from the `given` tensors, of the right shapes, whose values do not matter. The last of these
        is only for the backward pass. `results`: how many the forward pass has.

        RuntimeError: random numbers are drawn that are not those of a row.
        """
        with torch.inference_mode(False), torch.no_grad(), _as_operations():
            program = make_fx(functionalize(passes))(*given)
        self.forward, self.backward = _split(program, results)


@contextmanager
def _as_operations() -> Iterator[None]:
    """A context in which layers consist of operations that many models can share, not of kernels
    that compute a whole layer of one model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about settings that PyTorch will rename
        with torch.backends.cudnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH):
            yield


def passes_of(call: Call, names: list[str], buffers: list[str]) -> Callable[..., Any]:
    """Forecasts, buffers and gradients of many models, given parameters (S, ...) of these `names`,
    `buffers`, windows and slopes."""

    def passes_of_one(*tensors: Tensor) -> tuple[Tensor, ...]:
        *inputs, slope = tensors[len(names) + len(buffers) :]
        parameters = dict(zip(names, tensors, strict=False))
        before = dict(zip(buffers, tensors[len(names) :], strict=False))
        found: Any = vjp(lambda named: call(named, before, *inputs), parameters, has_aux=True)
        forecast, back, after = found
        gradients = back(slope)[0]
        return forecast, *(after[name] for name in buffers), *(gradients[name] for name in names)

    return vmap(passes_of_one, randomness="different")


def _split(joint: GraphModule, results: int) -> tuple[GraphModule, GraphModule]:
    """A program in two parts: the one that computes the first outputs, and the rest."""
    nodes = list(joint.graph.nodes)
    *inputs, slope = [node for node in nodes if node.op == "placeholder"]
    outputs: Any = nodes[-1].args[0]
    first = {*outputs[:results], *inputs}
    for node in reversed(nodes):
        if node in first:
            first.update(node.all_input_nodes)
    rest = [node for node in nodes[:-1] if node not in {*first, slope}]
    used = {before for node in rest for before in node.all_input_nodes}
    kept = [node for node in nodes if node in first and node in used | {*outputs[results:]}]

    forward = Graph()
    copies: dict[Node, Node] = {node: forward.node_copy(node) for node in inputs}
    generators = forward.placeholder("generators")
    for node in nodes:
        if node in first and node not in copies:
            copies[node] = forward.node_copy(node, copies.__getitem__)
            if is_random(node.target):
                _draw_by_row(copies[node], generators, len(inputs[0].meta["val"]))
    forward.output(([copies[node] for node in outputs[:results]], [copies[node] for node in kept]))

    backward = Graph()
    copies = {node: backward.placeholder(node.name) for node in (*kept, slope)}
    for node in rest:
        if is_random(node.target):
            raise RuntimeError("its gradient is random")
        copies[node] = backward.node_copy(node, copies.__getitem__)
    backward.output([copies[node] for node in outputs[results:]])
    return GraphModule(joint, forward), GraphModule(joint, backward)


def _draw_by_row(node: Node, generators: Node, rows: int) -> None:
    """Let a random operation draw the numbers of each row from the row's own generator."""
    drawn_values = node.meta["val"]
    values = drawn_values if isinstance(drawn_values, tuple) else (drawn_values,)
    if any(value.shape[:1] != (rows,) for value in values):
        raise RuntimeError(f"{node.target} does not draw row by row")
    operation: Any = node.target
    node.args, node.target = (generators, operation, *node.args), drawn
