"""Many models of the same sizes, as the engines train them: rows in, forecasts and gradients out.

Any `nn.Module` will do. Its rows train together (`plfl.networks.traced`), or one after the other if
PyTorch cannot trace it for many models at once.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from textwrap import shorten
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from plfl.base.errors import PlflError, Problem
from plfl.layout import KernelForm, ParameterLayout, WindowShape
from plfl.networks.row_random import RowGenerators
from plfl.networks.traced import TensorsByName, TracedPasses, make_passes

log = logging.getLogger(__name__)

PROBE_WINDOWS = 3
"""Number of generated windows of which a module shows what it does in training."""


class PassState(NamedTuple):
    """What a backward pass needs from the forward pass."""

    passes: TracedPasses
    """The passes."""
    tensors: list[Tensor]
    """The tensors that the forward pass keeps."""
    penultimate: Tensor | None = None
    """Features (S, W, B), the inputs of the last layer, if the loss reads them."""
    buffers: Tensor | None = None
    """The buffers (S, Q) after the pass, if the layout has any."""

    def gradients(self, slopes: Tensor) -> list[Tensor]:
        """Gradients of each parameter (S, ...), given those of the loss by the forecasts."""
        return self.passes.backward(*self.tensors, slopes)


class RowPasses(NamedTuple):
    """The same of models that train one after the other."""

    forecasts: list[Tensor]
    """Of each row (B, ...)."""
    parameters: list[list[Tensor]]
    """The parameters of each row, on which they depend."""
    buffers: Tensor

    def gradients(self, slopes: Tensor) -> list[Tensor]:
        """See `PassState.gradients`."""
        rows = []
        with torch.inference_mode(False):
            for forecasts, parameters, slope in zip(*self[:2], slopes.clone(), strict=True):
                gradients = torch.autograd.grad(
                    forecasts, parameters, slope, allow_unused=True, materialize_grads=True
                )
                rows.append(gradients)
        return [torch.stack(row_tensors) for row_tensors in zip(*rows, strict=True)]


class Network(Protocol):
    """The interface of a model for the engines."""

    @property
    def layout(self) -> ParameterLayout:
        """The parameters of a row, in order."""

    @property
    def kernel_form(self) -> KernelForm | None:
        """The model as the native kernel describes it; None if the kernel does not support it."""

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers in training, as Dropout does."""

    @property
    def has_buffers(self) -> bool:
        """Whether training changes more than the parameters, see `ParameterLayout.buffers`."""

    def can_stack(self, row_count: int, *inputs: Tensor) -> bool:
        """Whether so many models can train together on windows like `inputs` (S, B, ...)."""

    def initial(self, seed: int) -> Tensor:
        """Initial parameters and buffers (P,), float32."""

    def module(self, row: Tensor | None = None) -> nn.Module:
        """One model as a module, with parameters in the order of a row; `row`: its parameters and
        buffers (P,)."""

    def forecasts(self, rows: Tensor, sequence: Tensor, covariates: Tensor) -> Tensor:
        """Forecasts (S, B), or (S, B, O) of several outputs, of models `rows` (S, P) for the
        windows of a `sequence` (S, B, T, F) and `covariates` (S, B, G)."""

    def forward_pass(
        self, rows: Tensor, *inputs: Tensor, features: bool = False, keys: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """The forecasts of models (S, P) in training for `inputs`, `sequence` and `covariates`, and
        what the backward pass needs. `features`: whether the loss reads features, which are then
        fields of the second result, as are `buffers`, if the model has any. `keys`: see
        `plfl.training.work.Minibatches`."""

    def backward_pass(
        self, rows: Tensor, kept: Any, by_output: Tensor, by_feature: TensorsByName, out: Tensor
    ) -> None:
        """Write the gradient of a loss with respect to the models `rows` of a forward pass into
        `out` (S, P), given its gradients `by_output`, with respect to the forecasts, and
        `by_feature`, by name, with respect to features in `kept`."""


class Buildable(Protocol):
    """What this module needs of a `plfl.interfaces.model.Model`."""

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


def make_windows(shape: WindowShape, windows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sequences and covariates of generated windows, of numbers between 0 and 1."""
    random = torch.Generator().manual_seed(seed)
    sequence = torch.rand(windows, shape.look_back, shape.inputs, generator=random)
    return sequence, torch.rand(windows, shape.covariates, generator=random)


def run_module(module: nn.Module, shape: WindowShape, *inputs: Tensor) -> Any:
    """Forecasts (B,) or (B, O) of a module, in its present mode, for sequences and covariates."""
    return trim_outputs(module(*select_arguments(module, inputs)), shape)


def select_arguments(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What `forward` takes of sequences and covariates."""
    return inputs if reads_covariates(module) else inputs[:1]


def trim_outputs(outputs: Any, shape: WindowShape) -> Any:
    """Outputs (B, O, 1), and (B, 1) or (B, 1, 1) of a single one, without their last dimensions of
    1; all others as they are."""
    if not isinstance(outputs, Tensor) or outputs.dim() > 3:
        return outputs
    surplus = outputs.shape[1 if shape.outputs == 1 else 2 :]
    if all(size == 1 for size in surplus):
        for _ in surplus:
            outputs = outputs.squeeze(-1)
    return outputs


def reads_covariates(module: nn.Module) -> bool:
    """Whether `forward` takes covariates: a second argument that has no default, or `covariates` in
    its name. Others, such as `hidden=None` or `mask=None`, are something else."""
    forward = module.forward
    is_method = inspect.ismethod(forward)
    return _takes_two(getattr(forward, "__func__", forward), is_method)


@cache
def _takes_two(forward: Callable[..., Any], is_method: bool) -> bool:
    try:
        parameters = [*inspect.signature(forward).parameters.values()][is_method:]
    except (TypeError, ValueError):  # of a class that is not written in Python
        return True
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    second = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)][1:2]
    return any(p.default is p.empty or "covariates" in p.name for p in second)


@dataclass(frozen=True)
class ModuleNetwork:
    """A model that is any `nn.Module`."""

    model: Buildable
    shape: WindowShape
    layout: ParameterLayout
    stateless: nn.Module
    """A module whose own parameters and changing buffers are never used."""
    tells_features: bool = False
    """Whether the module returns the inputs of its last layer after its outputs."""
    recorded_passes: dict[tuple[Any, ...], TracedPasses] = field(default_factory=dict)
    """Passes, by numbers of rows and windows, type and device."""
    constants: dict[tuple[torch.device, torch.dtype], TensorsByName] = field(default_factory=dict)
    """The buffers that never change, by device and type."""
    unstackable: set[str] = field(default_factory=set)
    """What models must do one after the other: `train` and `forecast`."""

    @classmethod
    def for_model(cls, model: Buildable, shape: WindowShape) -> ModuleNetwork:
        """The network of a model for windows of some shape."""
        module = initial_of(model, shape, 0)
        shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
        head = tuple(model.head_patterns) or (ParameterLayout(shapes).last,)
        buffers = _find_changing_buffers(model, shape) if [*module.buffers()] else {}
        return cls(model, shape, ParameterLayout(shapes, head, buffers), module)

    @property
    def kernel_form(self) -> KernelForm | None:
        return self.model.kernel_form

    @cached_property
    def is_random(self) -> bool:
        module = self.module().train()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            state = torch.get_rng_state()
            module(*select_arguments(module, make_windows(self.shape, PROBE_WINDOWS)))
            return not torch.equal(state, torch.get_rng_state())

    @property
    def has_buffers(self) -> bool:
        return bool(self.layout.buffers)

    def module(self, row: Tensor | None = None) -> nn.Module:
        module = initial_of(self.model, self.shape, 0)
        if row is not None:
            with torch.no_grad():
                tensors = self.layout.views(row[None]) | self.layout.buffer_views(row[None])
                targets = dict(module.named_parameters()) | dict(module.named_buffers())
                for name, value in tensors.items():
                    targets[name].copy_(value[0])
        return module

    def initial(self, seed: int) -> Tensor:
        module = initial_of(self.model, self.shape, seed)
        buffers = dict(module.named_buffers())
        parts = [*module.parameters(), *(buffers[name].float() for name in self.layout.buffers)]
        return nn.utils.parameters_to_vector(parts).detach().clone()

    def forecasts(self, rows: Tensor, sequence: Tensor, covariates: Tensor) -> Tensor:
        models = self.layout.views(rows), self.layout.buffer_views(rows)
        with torch.no_grad():
            # On a CPU row by row, so that no forecast depends on which other models forecast at the
            # same time.
            is_alone = rows.device.type == "cpu" or "forecast" in self.unstackable
            if not is_alone and not self._has_own_kernel(rows.device):
                try:
                    return vmap(self._forecast_one)(*models, sequence, covariates)
                except torch.OutOfMemoryError:
                    raise
                except Exception as error:  # whatever PyTorch cannot do for many models
                    self._give_up_stacks("forecast", error)
            parameters, buffers = models
            rows_of_forecasts = [
                self._forecast_one(_select_row(parameters, s), _select_row(buffers, s), *inputs)
                for s, inputs in enumerate(zip(sequence, covariates, strict=True))
            ]
            return torch.stack(rows_of_forecasts)

    def _forecast_one(
        self, parameters: TensorsByName, buffers: TensorsByName, *inputs: Tensor
    ) -> Tensor:
        """Forecasts of one model as it is used."""
        return self._call(parameters, buffers, inputs, is_training=False)[0]

    @cached_property
    def _with_features(self) -> ModuleNetwork:
        """The same modules, which also return the inputs of their last layer after the outputs."""
        return replace(self, tells_features=True, recorded_passes={})

    @cached_property
    def _last(self) -> nn.Linear:
        """The last layer of a model with features (`Model.features`)."""
        last = self.stateless.get_submodule(self.layout.last.removesuffix(".*"))
        assert isinstance(last, nn.Linear)
        return last

    def can_stack(self, row_count: int, *inputs: Tensor) -> bool:
        return self._record_passes(row_count, *inputs) is not None

    def forward_pass(
        self, rows: Tensor, *inputs: Tensor, features: bool = False, keys: Tensor | None = None
    ) -> tuple[Tensor, PassState | RowPasses]:
        if features:
            joint_outputs, kept = self._with_features.forward_pass(rows, *inputs, keys=keys)
            assert isinstance(kept, PassState)
            outputs, read = joint_outputs.tensor_split([self.shape.outputs], -1)
            return outputs, kept._replace(penultimate=read.mT)
        generators = None
        if self.is_random:
            if keys is None:
                raise ValueError("random layers need the keys of their steps")
            generators = RowGenerators(keys.tolist(), rows.device)
        passes = self._record_passes(len(rows), *inputs)
        if passes is None:
            return self._pass_row_by_row(rows, inputs, generators)
        tensors = (self.layout.views(rows) | self.layout.buffer_views(rows)).values()
        (forecasts, *buffers), tensors_to_keep = passes.forward(*tensors, *inputs, generators)
        return forecasts, PassState(passes, tensors_to_keep, buffers=_join_buffers(buffers, rows))

    def _pass_row_by_row(
        self, rows: Tensor, inputs: tuple[Tensor, ...], generators: RowGenerators | None
    ) -> tuple[Tensor, RowPasses]:
        """The forward pass of models that do not train together."""
        forecasts, leaves, buffers = list[Tensor](), list[list[Tensor]](), list[TensorsByName]()
        with torch.inference_mode(False), torch.enable_grad():
            # Copies made here can take part in automatic differentiation, unlike their originals.
            rows, inputs = rows.clone(), tuple(x.clone() for x in inputs)
            for s in range(len(rows)):
                parameters = {n: x[s].detach() for n, x in self.layout.views(rows).items()}
                leaves.append([x.requires_grad_() for x in parameters.values()])
                model = parameters, _select_row(self.layout.buffer_views(rows), s)
                with nullcontext() if generators is None else generators.draw_from(s):
                    outputs, new_buffers = self._explained_forward(*model, *(x[s] for x in inputs))
                forecasts.append(outputs)
                buffers.append(new_buffers)
        stacks = [torch.stack([row[name] for row in buffers]) for name in self.layout.buffers]
        passes = RowPasses(forecasts, leaves, _join_buffers(stacks, rows).detach())
        return torch.stack(forecasts).detach(), passes

    def _explained_forward(
        self, parameters: TensorsByName, buffers: TensorsByName, *inputs: Tensor
    ) -> tuple[Tensor, TensorsByName]:
        """See `_train_forward`; PlflError: the module cannot train on such a minibatch."""
        try:
            return self._train_forward(parameters, buffers, *inputs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a module of the user's own raises
            reason = f"{type(error).__name__}: {shorten(str(error), 160, placeholder=' …')}"
            raise PlflError(
                Problem(
                    "",
                    f"{self.model.summary} cannot train on a minibatch of {len(inputs[0])} "
                    f"windows ({reason})",
                    "change its forward, or federation.batch_size",
                )
            ) from error

    def backward_pass(
        self,
        rows: Tensor,
        kept: PassState | RowPasses,
        by_output: Tensor,
        by_feature: TensorsByName,
        out: Tensor,
    ) -> None:
        if by_feature:
            by_output = torch.cat([by_output, by_feature["penultimate"].mT], -1)
        gradients = kept.gradients(by_output)
        for view, gradient in zip(self.layout.views(out).values(), gradients, strict=True):
            view.copy_(gradient)
        out[:, self.layout.buffer_columns] = 0

    def _train_forward(
        self, parameters: TensorsByName, buffers: TensorsByName, *inputs: Tensor
    ) -> tuple[Tensor, TensorsByName]:
        """Forecasts of one model in training, and its buffers afterwards."""
        return self._call(parameters, buffers, inputs, is_training=True)

    def _call(
        self,
        parameters: TensorsByName,
        buffers: TensorsByName,
        inputs: tuple[Tensor, ...],
        is_training: bool,
    ) -> tuple[Tensor, TensorsByName]:
        """Forecasts of one model, and its buffers afterwards."""
        module, read, hook = self.stateless, list[Tensor](), None
        if module.training != is_training:
            module.train(is_training)
        # A module changes buffers in place, or replaces them in this dictionary.
        tensors = parameters | {
            n: x.to(self._buffer_types[n] or x.dtype, copy=True) for n, x in buffers.items()
        }
        tensors |= self._place_constants(inputs[0])
        if self.tells_features:
            hook = self._last.register_forward_pre_hook(lambda _, given: read.append(given[0]))
        device = inputs[0].device
        try:
            # Tensors that forward makes, such as a first hidden state, are where the inputs are.
            with nullcontext() if device.type == "cpu" else device:
                outputs = functional_call(module, tensors, select_arguments(module, inputs))
        finally:
            if hook is not None:
                hook.remove()
        forecasts: Tensor = trim_outputs(outputs, self.shape)
        new_buffers = {name: tensors[name].to(buffer) for name, buffer in buffers.items()}
        return torch.cat([forecasts, *read], -1) if read else forecasts, new_buffers

    @cached_property
    def _buffer_types(self) -> dict[str, torch.dtype | None]:
        """The types of buffers, by name; None: that of the parameters."""
        types = {name: buffer.dtype for name, buffer in self.stateless.named_buffers()}
        return {name: None if t.is_floating_point else t for name, t in types.items()}

    def _place_constants(self, inputs: Tensor) -> TensorsByName:
        """The buffers that never change, such as encodings of positions, where the inputs are."""
        device, dtype = inputs.device, inputs.dtype
        if (device, dtype) not in self.constants:
            self.constants[device, dtype] = {
                name: buffer.to(device, self._buffer_types[name] or dtype)
                for name, buffer in self.stateless.named_buffers()
                if name not in self.layout.buffers
            }
        return self.constants[device, dtype]

    def _record_passes(self, row_count: int, *inputs: Tensor) -> TracedPasses | None:
        """The passes of this many rows together; None: they train one after the other."""
        sequence = inputs[0]
        key = (row_count, *sequence.shape[1:], len(inputs), sequence.dtype, sequence.device.type)
        if key in self.recorded_passes or "train" in self.unstackable:
            return self.recorded_passes.get(key)
        if self._has_own_kernel(sequence.device):
            reason = "by PyTorch's kernel of a recurrent layer"
            log.info("%s: its models train one after the other, %s", self.model.summary, reason)
            self.unstackable.add("train")
            return None
        batch, shape = sequence.shape[1], self.shape
        with torch.inference_mode(False):
            zeros = torch.zeros(row_count, self.layout.width).to(sequence)
            tensors = self.layout.views(zeros) | self.layout.buffer_views(zeros)
            output = () if shape.outputs == 1 else (shape.outputs,)
            if self.tells_features:
                output = (shape.outputs + self._last.in_features,)
            sizes = *(x.shape[2:] for x in inputs), output
            windows = [torch.zeros(row_count, batch, *n).to(sequence) for n in sizes]
        try:
            passes = make_passes(self._train_forward, self.layout.names, [*self.layout.buffers])
            results = 1 + len(self.layout.buffers)
            self.recorded_passes[key] = TracedPasses(passes, [*tensors.values(), *windows], results)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever PyTorch cannot trace
            self._give_up_stacks("train", error)
        return self.recorded_passes.get(key)

    def _has_own_kernel(self, device: torch.device) -> bool:
        """Whether PyTorch computes a recurrent layer as a whole, for one model only. On a CPU that
        is as fast as a stack; on a GPU PyTorch cannot stack it."""
        kind: type[nn.Module] = nn.LSTM if device.type == "cpu" else nn.RNNBase
        has_kernel = device.type != "cpu" or torch.backends.mkldnn.is_available()
        return has_kernel and any(isinstance(layer, kind) for layer in self.stateless.modules())

    def _give_up_stacks(self, purpose: str, error: Exception) -> None:
        """Let models `train` or `forecast` one after the other, and say so."""
        self.unstackable.add(purpose)
        log.warning(
            "%s: its models %s one after the other, which takes longer, because PyTorch cannot "
            "compute many at once (%s)",
            *(self.model.summary, purpose, shorten(str(error), 160, placeholder=" …")),
        )


def _select_row(tensors: TensorsByName, s: int) -> TensorsByName:
    return {name: values[s] for name, values in tensors.items()}


def _join_buffers(buffers: Sequence[Tensor], rows: Tensor) -> Tensor:
    """Buffers (S, ...) of `rows` as columns (S, Q)."""
    return torch.cat([rows[:, :0], *(values.reshape(len(rows), -1) for values in buffers)], 1)


def _find_changing_buffers(model: Buildable, shape: WindowShape) -> dict[str, tuple[int, ...]]:
    """The shapes of the buffers that training changes, or that depend on the seed, by name."""
    modules = [initial_of(model, shape, seed) for seed in (0, 0, 1)]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        run_module(modules[0].train(), shape, *make_windows(shape, PROBE_WINDOWS))
    trained_buffers, *initial_buffers = (dict(module.named_buffers()) for module in modules)
    return {
        name: tuple(buffer.shape)
        for name, buffer in trained_buffers.items()
        if not all(torch.equal(buffer, initial[name]) for initial in initial_buffers)
    }
