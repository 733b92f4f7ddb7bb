"""Checks with generated windows whether a module can be trained, before anything trains."""

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from plfl.base.errors import PlflError, Problem
from plfl.base.keys import Key
from plfl.layout import WindowShape
from plfl.networks.network import (
    PROBE_WINDOWS,
    Buildable,
    initial_of,
    make_windows,
    reads_covariates,
    run_module,
)
from plfl.plugins import line_of

COMPARED_WINDOWS = 32
"""Number of generated windows whose forecasts must be the same in smaller minibatches."""
_problems_found: dict[tuple[str, WindowShape], list[Problem]] = {}


def problems_of(model: Buildable, shape: WindowShape) -> list[Problem]:
    """The problems of a model on windows of some shape."""
    try:
        key = json.dumps(model.settings), shape
        if key not in _problems_found:
            _problems_found[key] = [
                problem if isinstance(problem, Problem) else Problem(Key("model"), problem)
                for problem in _problems(model, shape)
            ]
    except PlflError as error:
        return error.problems
    return _problems_found[key]


def _problems(model: Buildable, shape: WindowShape) -> Iterator[str | Problem]:
    """What is wrong, of the block `model` if nothing else is said."""
    sizes = ", ".join(f"{name}={size}" for name, size in shape._asdict().items())
    try:
        module = initial_of(model, shape, 0)
        second_module = initial_of(model, shape, 0)
    except PlflError:
        raise
    except Exception as error:  # whatever a module of the user's own raises
        yield f"{model.summary} cannot be built with {sizes}: {_describe_failure(model, error)}"
        return
    if not isinstance(module, nn.Module):
        yield f"{model.summary} is {type(module).__name__}, not a torch.nn.Module; return one"
        return
    problems = list(_check_parameters(model, module, second_module))
    yield from problems
    if not problems:
        yield from _check_forward(model, module, shape)


def _check_parameters(
    model: Buildable, module: nn.Module, second_module: nn.Module
) -> Iterator[str | Problem]:
    names = [name for name, _ in module.named_parameters()]
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    if lazy := [name for name, tensor in tensors.items() if is_lazy(tensor)]:
        yield (
            f"{model.summary} has layers without sizes ({', '.join(lazy)}); replace LazyLinear and "
            "the like by layers whose sizes are given"
        )
        return
    if not names:
        yield f"{model.summary} has no parameters; there is nothing to train"
    for dtype in {p.dtype for p in module.parameters()} - {torch.float32}:
        yield f"{model.summary} has parameters of type {dtype}; make them float32"
    pairs = zip(module.parameters(), second_module.parameters(), strict=True)
    if any(not torch.equal(a, b) for a, b in pairs):
        yield (
            f"{model.summary}: initial parameters differ between two modules of the same seed; "
            "draw them from torch's own random numbers only"
        )
    for pattern in model.head_patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            text = f"{pattern!r} matches no parameter of {model.summary}"
            yield Problem(Key("model.head"), text, f"allowed: {', '.join(names)}")


def _check_forward(model: Buildable, module: nn.Module, shape: WindowShape) -> Iterator[str]:
    if shape.covariates and not reads_covariates(module):
        yield (
            f"{model.summary} reads a sequence only, but the windows have covariates of "
            f"{shape.covariates} numbers; let forward take (sequence, covariates), or remove "
            "windows.covariates"
        )
        return
    windows = make_windows(shape, PROBE_WINDOWS)
    inputs = f"sequence {tuple(windows[0].shape)} and covariates {tuple(windows[1].shape)}"
    copies = [part.clone() for part in windows]
    try:
        with torch.random.fork_rng(devices=[]):
            forecasts = [run_module(module.eval(), shape, *windows) for _ in range(2)]
            training_outputs = []
            for trained_module in (module, initial_of(model, shape, 0)):
                torch.default_generator.manual_seed(0)
                training_outputs.append(run_module(trained_module.train(), shape, *windows))
    except Exception as error:  # whatever a module of the user's own raises
        yield f"{model.summary} cannot forecast {inputs}: {_describe_failure(model, error)}"
        return
    expected_shape = (PROBE_WINDOWS,) if shape.outputs == 1 else (PROBE_WINDOWS, shape.outputs)
    for outputs in (*forecasts, *training_outputs):
        if not isinstance(outputs, Tensor) or outputs.shape != expected_shape:
            expected_text = "one forecast" if shape.outputs == 1 else f"{shape.outputs} numbers"
            returned_text = (
                tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            )
            yield (
                f"{model.summary} returns {returned_text} for {inputs}; forward must return "
                f"{expected_text} per window, a tensor of shape {expected_shape}"
            )
            return
    if not all(outputs.isfinite().all() for outputs in (*forecasts, *training_outputs)):
        yield (
            f"{model.summary} forecasts NaN or infinite numbers for made-up windows of numbers "
            "between 0 and 1; look for a division by zero, and for log or sqrt of negative numbers"
        )
        return
    if not all(map(torch.equal, copies, windows)):
        yield f"{model.summary} changes its inputs in place; make new tensors, x * 2 for x.mul_(2)"
        return
    if not torch.equal(*forecasts):
        yield (
            f"{model.summary} is random after eval(): two forecasts of the same windows differ; "
            "use layers such as nn.Dropout, or draw only if self.training is true"
        )
    else:
        yield from _check_independence(model, module.eval(), shape)
    if not torch.equal(*training_outputs):
        yield (
            f"{model.summary} forecasts otherwise in two trainings from the same seed; draw random "
            "numbers from PyTorch only, and keep no values from one call to the next, but in "
            "buffers"
        )
    yield from _check_gradients(model, module, training_outputs[0])


def _check_gradients(model: Buildable, module: nn.Module, outputs: Tensor) -> Iterator[str]:
    if not outputs.requires_grad:
        yield f"{model.summary}: forecasts have no gradient; remove detach() and no_grad()"
        return
    parameters = dict(module.named_parameters())
    parameter_ids = {id(p) for p in parameters.values()}
    if strays := [
        tuple(x.shape) for x in _parameters_behind(outputs) if id(x) not in parameter_ids
    ]:
        yield (
            f"{model.summary} has tensors of the shapes {', '.join(map(str, strays))} that require "
            "gradients but are not among its parameters, so they would never change; put lists of "
            "layers into nn.ModuleList, and tensors into nn.Parameter"
        )
    leaves = [p for p in parameters.values() if p.requires_grad]
    gradients = iter(torch.autograd.grad(outputs.sum(), leaves, allow_unused=True))
    reached = {n: p.requires_grad and next(gradients) is not None for n, p in parameters.items()}
    if fixed := [name for name, parameter in parameters.items() if not parameter.requires_grad]:
        yield (
            f"{model.summary}: {', '.join(fixed)} require no gradient, but would be sent in every "
            "round; make them buffers (register_buffer), which are not, or let them require "
            "gradients"
        )
    if unused := [n for n, is_reached in reached.items() if not is_reached and n not in fixed]:
        yield (
            f"{model.summary}: {', '.join(unused)} never get a gradient, but would be sent in "
            "every round; use them in forward, or remove them"
        )


def _check_independence(model: Buildable, module: nn.Module, shape: WindowShape) -> Iterator[str]:
    """Report forecasts that depend on the other windows of a minibatch. A module may branch on a
    sum or a mean over all windows (`if sequence.mean() > 0.5`). Some of the windows therefore have
    extreme values, and are also forecast alone. For any threshold, at least one of them then takes
    a different branch from the whole minibatch. The load is also large, of either sign, so that
    sums of hidden units change their sign."""
    sequence, covariates = make_windows(shape, COMPARED_WINDOWS, 1)
    for values in (sequence, covariates):
        values[0], values[1], values[2] = 0, 1, 0.1 * values[2]
    sequence[3, :, 0] *= -1  # changes of the load may be negative
    sequence[4, :, 0], sequence[5, :, 0] = 9 * sequence[6, :, 0], -9 * sequence[6, :, 0]
    sizes = [1, 1, 1, 1, 1, 1, 1, COMPARED_WINDOWS - 7]
    parts = zip(sequence.split(sizes), covariates.split(sizes), strict=True)
    try:
        joint_outputs = run_module(module, shape, sequence, covariates)
        apart = [run_module(module, shape, *part) for part in parts]
    except Exception as error:  # whatever a module of the user's own raises
        reason = _describe_failure(model, error)
        yield f"{model.summary} cannot forecast one window or {COMPARED_WINDOWS}: {reason}"
        return
    output_shape = () if shape.outputs == 1 else (shape.outputs,)
    for size, values in zip((COMPARED_WINDOWS, *sizes), (joint_outputs, *apart), strict=True):
        if values.shape != (size, *output_shape):
            yield (
                f"{model.summary} makes {tuple(values.shape)} of a minibatch of {size}; forward "
                f"must return a tensor of shape {(size, *output_shape)}: replace squeeze() by [:, "
                "0]"
            )
            return
    if not torch.allclose(torch.cat(apart), joint_outputs, rtol=1e-3, atol=1e-5, equal_nan=True):
        yield (
            f"{model.summary}: a forecast depends on the other windows of its minibatch; compute "
            "each from its own window only, without a mean, a sum or an `if` over all windows"
        )


def _parameters_behind(outputs: Tensor) -> Iterator[Tensor]:
    """The leaf tensors that outputs depend on according to automatic differentiation, each once."""
    waiting, visited = [outputs.grad_fn], set()
    while waiting:
        if (node := waiting.pop()) is None or node in visited:
            continue
        visited.add(node)
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        waiting += [earlier_node for earlier_node, _ in node.next_functions]


def _describe_failure(model: Buildable, error: Exception) -> str:
    text = str(error).split("\n")[0]
    line = line_of(error, Path(model.summary.rpartition(":")[0]))
    return type(error).__name__ + line + (f": {text}" if text else "")
