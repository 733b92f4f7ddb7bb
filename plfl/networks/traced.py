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

from plfl.networks.row_random import draw_by_row, is_random

TensorsByName = dict[str, Tensor]
Call = Callable[..., tuple[Tensor, TensorsByName]]
"""Forecasts (B,) or (B, O) of one model in training, and its buffers afterwards, given parameters
and buffers by name, sequences and covariates."""


class TracedPasses:
    """A forward and a backward pass for one number of rows and of windows."""

    forward: Callable[..., tuple[list[Tensor], list[Tensor]]]
    """The forecasts and then the buffers after the pass, and what `backward` needs, for parameters,
    buffers, inputs and the generators of the rows, None for a model without random layers."""
    backward: Callable[..., list[Tensor]]
    """Gradients with respect to the parameters, given what it needs and the gradient of the loss
    with respect to the forecasts."""

    def __init__(self, passes: Callable[..., Any], tensors: list[Tensor], results: int = 1):
        """Trace `passes`, which computes the results of the forward pass and then the gradients
        from `tensors` of the right shapes, whose values do not matter. The last of these is only
        for the backward pass. `results`: how many the forward pass has.

        RuntimeError: numbers are drawn that are not those of a row.
        """
        with torch.inference_mode(False), torch.no_grad(), _as_operations():
            program = make_fx(functionalize(passes))(*tensors)
        self.forward, self.backward = _split(program, results)


@contextmanager
def _as_operations() -> Iterator[None]:
    """A context in which layers consist of operations that many models can share, not of kernels
    that compute a whole layer of one model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about settings that PyTorch will rename
        with torch.backends.cudnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH):
            yield


def make_passes(call: Call, names: list[str], buffers: list[str]) -> Callable[..., Any]:
    """Forecasts, buffers and gradients of many models, given parameters (S, ...) of these `names`,
    `buffers`, windows and slopes."""

    def pass_one(*tensors: Tensor) -> tuple[Tensor, ...]:
        *inputs, slope = tensors[len(names) + len(buffers) :]
        parameters = dict(zip(names, tensors, strict=False))
        old_buffers = dict(zip(buffers, tensors[len(names) :], strict=False))
        result: Any = vjp(lambda p: call(p, old_buffers, *inputs), parameters, has_aux=True)
        forecast, pull_back, new_buffers = result
        gradients = pull_back(slope)[0]
        updated = (new_buffers[name] for name in buffers)
        return forecast, *updated, *(gradients[name] for name in names)

    return vmap(pass_one, randomness="different")


def _split(joint: GraphModule, results: int) -> tuple[GraphModule, GraphModule]:
    """A program in two parts: the one that computes the first outputs, and the rest."""
    nodes = list(joint.graph.nodes)
    *inputs, slope = [node for node in nodes if node.op == "placeholder"]
    outputs: Any = nodes[-1].args[0]
    first = {*outputs[:results], *inputs}
    for node in reversed(nodes):
        if node in first:
            first.update(node.all_input_nodes)
    later_nodes = [node for node in nodes[:-1] if node not in {*first, slope}]
    read_later = {argument for node in later_nodes for argument in node.all_input_nodes}
    read_later |= {*outputs[results:]}
    kept_nodes = [node for node in nodes if node in first and node in read_later]

    forward = Graph()
    copies: dict[Node, Node] = {node: forward.node_copy(node) for node in inputs}
    generators = forward.placeholder("generators")
    for node in nodes:
        if node in first and node not in copies:
            copies[node] = forward.node_copy(node, copies.__getitem__)
            if is_random(node.target):
                _redirect_draws(copies[node], generators, len(inputs[0].meta["val"]))
    shown_nodes = outputs[:results]
    forward.output(tuple([copies[node] for node in part] for part in (shown_nodes, kept_nodes)))

    backward = Graph()
    copies = {node: backward.placeholder(node.name) for node in (*kept_nodes, slope)}
    for node in later_nodes:
        if is_random(node.target):
            raise RuntimeError("its gradient is random")
        copies[node] = backward.node_copy(node, copies.__getitem__)
    backward.output([copies[node] for node in outputs[results:]])
    return GraphModule(joint, forward), GraphModule(joint, backward)


def _redirect_draws(node: Node, generators: Node, row_count: int) -> None:
    """Let a random operation draw the numbers of each row from the row's own generator."""
    result = node.meta["val"]
    values = result if isinstance(result, tuple) else (result,)
    if any(value.shape[:1] != (row_count,) for value in values):
        raise RuntimeError(f"{node.target} does not draw row by row")
    operation: Any = node.target
    node.args, node.target = (generators, operation, *node.args), draw_by_row
