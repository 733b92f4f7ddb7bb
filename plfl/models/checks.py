"""Checks on generated windows whether a module can be trained here, before anything trains."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from plfl.errors import PlflError
from plfl.layout import WindowShape
from plfl.models.network import Buildable, initial_of

WINDOWS = 3
"""Made-up windows that a module has to forecast."""
_found: dict[tuple[str, WindowShape], list[str]] = {}


def problems_of(model: Buildable, shape: WindowShape) -> list[str]:
    """One line per problem of a model on windows of some shape."""
    try:
        key = json.dumps(model.settings), shape
        if key not in _found:
            _found[key] = [
                f"model{'' if line[0] == '.' else ': '}{line}" for line in _problems(model, shape)
            ]
    except PlflError as error:
        return [str(error)]
    return _found[key]


def _problems(model: Buildable, shape: WindowShape) -> Iterator[str]:
    sizes = f"inputs={shape.inputs}, look_back={shape.look_back}, context={shape.context}"
    if shape.outputs > 1:
        sizes += f", outputs={shape.outputs}"
    try:
        module = initial_of(model, shape, 0)
        again = initial_of(model, shape, 0)
    except PlflError:
        raise
    except Exception as error:  # whatever a module of the user's own raises
        yield f"{model.summary} cannot be built with {sizes}: {_said(error)}"
        return
    if not isinstance(module, nn.Module):
        yield f"{model.summary} is {type(module).__name__}, not a torch.nn.Module; return one"
        return
    found = list(_of_parameters(model, module, again))
    yield from found
    if not found:
        yield from _of_forward(model, module, shape)


def _of_parameters(model: Buildable, module: nn.Module, again: nn.Module) -> Iterator[str]:
    names = [name for name, _ in module.named_parameters()]
    if buffers := [name for name, _ in module.named_buffers()]:
        yield (
            f"{model.summary} has buffers ({', '.join(buffers)}), which are no part of a row and "
            "would be lost between rounds; make them parameters or constants, and replace layers "
            "such as BatchNorm by LayerNorm"
        )
    if not names:
        yield f"{model.summary} has no parameters; there is nothing to train"
    for dtype in {p.dtype for p in module.parameters()} - {torch.float32}:
        yield f"{model.summary} has parameters of type {dtype}; make them float32"
    pairs = zip(module.parameters(), again.parameters(), strict=True)
    if any(not torch.equal(a, b) for a, b in pairs):
        yield (
            f"{model.summary}: initial parameters differ between two modules of the same seed; "
            "draw them from torch's own random numbers only"
        )
    for pattern in model.head_patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            listed = ", ".join(names)
            yield f"head: {pattern!r} matches no parameter of {model.summary}; allowed: {listed}"


def _of_forward(model: Buildable, module: nn.Module, shape: WindowShape) -> Iterator[str]:
    random = torch.Generator().manual_seed(0)
    sequence = torch.rand(WINDOWS, shape.look_back, shape.inputs, generator=random)
    context = torch.rand(WINDOWS, shape.context, generator=random)
    inputs = f"sequence {tuple(sequence.shape)} and context {tuple(context.shape)}"
    try:
        outputs, again = (module(sequence, context) for _ in range(2))
    except Exception as error:  # whatever a module of the user's own raises
        yield f"{model.summary} cannot forecast {inputs}: {_said(error)}"
        return
    wanted = (WINDOWS,) if shape.outputs == 1 else (WINDOWS, shape.outputs)
    if not isinstance(outputs, Tensor) or outputs.shape != wanted:
        many = "one forecast" if shape.outputs == 1 else f"{shape.outputs} numbers"
        shown = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        yield (
            f"{model.summary} makes {shown} of {inputs}; forward must return {many} per "
            f"window, a tensor of shape {wanted}"
        )
        return
    if not torch.equal(outputs, again):
        yield (
            f"{model.summary} is random: two forecasts of the same windows differ; remove Dropout "
            "and the like, since every number of a study must follow from its seed; the built-in "
            "model mlp has a dropout that does"
        )
    elif not torch.allclose(module(sequence[:1], context[:1]), outputs[:1], rtol=1e-3, atol=1e-5):
        yield (
            f"{model.summary}: a forecast depends on the other windows of its minibatch; compute "
            "each from its own window only"
        )
    if not outputs.requires_grad:
        yield f"{model.summary}: forecasts have no gradient; remove detach() and no_grad()"
        return
    parameters = dict(module.named_parameters())
    leaves = [p for p in parameters.values() if p.requires_grad]
    found = iter(torch.autograd.grad(outputs.sum(), leaves, allow_unused=True))
    reached = {n: p.requires_grad and next(found) is not None for n, p in parameters.items()}
    if unused := [name for name, is_reached in reached.items() if not is_reached]:
        yield (
            f"{model.summary}: {', '.join(unused)} never get a gradient, but would be sent in "
            "every round; use them in forward, or remove them"
        )


def _said(error: Exception) -> str:
    lines = str(error).split("\n")
    return f"{type(error).__name__}: {lines[0]}"
