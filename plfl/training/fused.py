"""Trains every model by itself in a native kernel: the fastest engine on the CPU.

`kernel.cpp` runs all local steps of a model in one go while its weights and moments stay in the
processor's cache. `python -m plfl.training.fused` compiles it ahead of the first use.
"""

import itertools
import logging
import math
from collections.abc import Callable
from ctypes import Structure, addressof, byref, c_int32
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.data.computed import RowTable, kept_rows
from plfl.data.dataset import Dataset, window_length
from plfl.layout import KernelForm, WindowShape
from plfl.networks.network import Network
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.tasks.losses import Pinball
from plfl.training.native.compile import (
    CompileError,
    KernelStructure,
    build_kernel,
    find_supported,
    load_kernel,
    structure,
)
from plfl.training.native.flags import BUILDS
from plfl.training.stacked import Stacked
from plfl.training.work import LocalWork, Minibatches

log = logging.getLogger(__name__)

MODELS_PER_BLOCK = 60
"""Models in a block for each thread: enough that threads seldom wait for the last one."""


def unavailable_reason() -> str | None:
    """Why this machine cannot run the engine; None if it can. Compiles the kernel if needed."""
    try:
        load_kernel()
    except CompileError as error:
        return str(error)
    return None


class Fused:
    """Trains each row to the same bits, whatever other rows it trains with and on any number of
    threads. `Stacked` does what the kernel does not support: a ClientOpt with a step of its own,
    another loss."""

    def __init__(
        self,
        network: Network,
        dataset: Dataset,
        device: torch.device,
        threads: int | None = None,
        instructions: str | None = None,
    ):
        """Set up for the tables of one dataset and a model that has a `kernel_form`; the kernel
        supports no device but the CPU, and numbers are float32.

        `threads`: number of rows to train at once; by default the number of torch's threads.
        `instructions`: one of `compile.supported()` rather than the best. CompileError: there is no
        kernel, see `unavailable_reason`. ValueError: it does not support what is given.
        """
        form = network.kernel_form
        if form is None:
            raise ValueError("the fused engine does not know the model")
        if device.type != "cpu":
            raise ValueError(f"the fused engine trains on the CPU, not on {device}")
        self.device, self.dtype = device, torch.float32
        self.threads = threads or torch.get_num_threads()
        self._kernel = load_kernel(instructions)
        # The last parameter is the bias of the outputs.
        (outputs,) = network.layout.shapes[network.layout.names[-1]]
        self._network = _network_of(form, dataset.shape._replace(outputs=outputs))
        self._parameters = network.layout.width
        if self._kernel.plfl_parameters(byref(self._network)) != self._parameters:
            raise ValueError(
                f"the kernel's model does not have {self._parameters} parameters: {form}"
            )
        self._targets = dataset.targets.shape[1:]
        self._dataset = dataset
        self._features = np.ascontiguousarray(dataset.features)
        covariates, targets = kept_rows(dataset.covariates), kept_rows(dataset.targets)
        self._whole_source = None
        if covariates is not None and targets is not None:
            self._whole_source = self._source_of(covariates, targets)
        self._windows = len(dataset.features) - window_length(dataset) + 1
        self._stacked = Stacked(network, dataset, device, self.dtype)

    @property
    def is_random(self) -> bool:
        return False  # none of the kernel's layers is

    def most_models(self, work: Callable[[], LocalWork]) -> int:
        """See `MODELS_PER_BLOCK`."""
        return MODELS_PER_BLOCK * self.threads

    def train(self, work: LocalWork) -> Tensor:
        """Run the local steps of every row; returns the mean minibatch loss (S,), float64.
        MemoryError: there is not enough memory for each thread's copy of a model."""
        rule, steps_taken, loss = (
            _rule(work.optimiser),
            _steps_taken(work),
            work.objective.loss.name,
        )
        if rule is None or steps_taken is None or loss not in _LOSSES:
            feature = "parameters that have taken unequal numbers of steps"
            if loss not in _LOSSES:
                feature = f"the loss {loss}"
            elif rule is None:
                feature = work.optimiser.name
            leave_to_stacked(feature)
            return self._stacked.train(work)
        S, K, B = work.minibatches.starts.shape
        fresh = work.optimiser.init(work.rows[:1])
        # Without a state the kernel begins with zeros.
        if any(x.any() for x in fresh.values()):
            work = work.with_state()
        losses, rules = torch.empty(S, dtype=torch.float64), (_Rule * S)(*[rule] * S)
        trained_arrays, models = _trained_arrays(work), (S, self._parameters)
        changed_arrays = {n: self._numbers(x, models) for n, x in trained_arrays.items()}
        fields = self._step_arguments(work) | self._change_arguments(work) | changed_arrays
        fields |= {"taken": steps_taken, "losses": losses}
        values = {n: x.data_ptr() if isinstance(x, Tensor) else x for n, x in fields.items()}
        sizes = {"rows": S, "steps": K, "batch": B, "threads": self.threads}
        job = _Training(**sizes, rules=addressof(rules), **values)
        self._run("plfl_train", job, work.minibatches.starts)
        for name, x in trained_arrays.items():
            x.copy_(changed_arrays[name])
        return losses

    def _step_arguments(self, work: LocalWork) -> dict[str, Tensor | float]:
        """The arrays and numbers of some work that are about its steps, by the kernel's names."""
        S, K, B = work.minibatches.starts.shape
        minibatches, (loss, scale) = work.minibatches, work.objective
        fields: dict[str, Tensor | float] = {
            "starts": self._windows_of(minibatches.starts),
            "shared": _mask(work.shared_mask, self._parameters),
            "loss": _LOSSES.index(loss.name),
            "loss_scale": scale,
            "clip": work.clip or 0.0,
        }
        if isinstance(loss, Pinball):
            fields["quantiles"] = len(loss.levels)
            fields["levels"] = torch.tensor(loss.levels, dtype=self.dtype)
        if minibatches.targets is not None:
            fields["targets"] = self._numbers(minibatches.targets, (S, K, B, *self._targets))
        if work.steps is not None:
            fields["row_steps"] = _steps(work.steps, S, K)
        if (average := work.tracked_rows.average) is not None:
            fields["averaged"] = average.steps.double().expand(S, 1).contiguous()
            fields["limit"] = average.decay
        return fields

    def _change_arguments(self, work: LocalWork) -> dict[str, Tensor | float]:
        """As `_step_arguments`, for the changes."""
        (S, K, B), P, changes = work.minibatches.starts.shape, self._parameters, work.changes
        fields: dict[str, Tensor | float] = {}
        if changes.pull is not None:
            fields["pull"] = self._numbers(changes.pull, (P,))
        if changes.constant is not None:
            fields["constant"] = self._numbers(changes.constant, (S, P))
        if changes.step_offset is not None:
            fields["step_offset"] = self._numbers(changes.step_offset, (S, P))
        if changes.frozen is not None:
            fields["frozen"] = _mask(changes.frozen, P)
        if changes.by_feature is not None:
            layer, width = self._layer(changes.layer)
            fields["by_feature"] = self._numbers(changes.by_feature, (S, K, width, B))
            fields["layer"] = layer
        return fields

    def _layer(self, features: str) -> tuple[int, int]:
        """The layer of the MLP whose inputs these features are, and their number."""
        layer = 0 if features == "states" else int(self._network.layers)
        weights = [s for s in self._stacked.network.layout.shapes.values() if len(s) == 2]
        return layer, weights[layer - self._network.layers - 1][1]

    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        """Forecasts, in scaled units, of row s for the windows `starts[s]`."""
        sizes = [len(windows) for windows in starts]
        if self._whole_source is None and len(sizes) > MODELS_PER_BLOCK:
            blocks = [
                slice(first, first + MODELS_PER_BLOCK)
                for first in range(0, len(sizes), MODELS_PER_BLOCK)
            ]
            return [x for block in blocks for x in self.predict(rows[block], starts[block])]
        windows = self._windows_of(torch.cat(starts))
        offsets = torch.tensor([0, *itertools.accumulate(sizes)])
        models = self._numbers(rows, (len(starts), self._parameters))
        outputs = () if self._network.outputs == 1 else (self._network.outputs,)
        forecasts = torch.empty((len(windows), *outputs), dtype=self.dtype)
        arrays = (models, offsets, windows, forecasts)
        job = _Prediction(len(sizes), self.threads, *(x.data_ptr() for x in arrays))
        self._run("plfl_predict", job, windows)
        return list(forecasts.split(sizes))

    def penultimate(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        """The inputs of row s's last layer for the windows `starts[s]`, computed by `Stacked`."""
        return self._stacked.penultimate(rows, starts)

    def hidden_features(self, rows: Tensor, minibatches: Minibatches, layer: str) -> Tensor:
        """Features (S, K, W, B) of each row for its minibatches, see `Engine.hidden_features`."""
        (S, K, B), (number, width) = minibatches.starts.shape, self._layer(layer)
        features = torch.empty((S, K, width, B), dtype=self.dtype)
        models = self._numbers(rows, (S, self._parameters))
        arrays = {"theta": models, "features": features}
        arrays["starts"] = self._windows_of(minibatches.starts)
        sizes = {"rows": S, "steps": K, "batch": B, "threads": self.threads, "layer": number}
        pointers = {name: x.data_ptr() for name, x in arrays.items()}
        self._run("plfl_features", _Reading(**sizes, **pointers), arrays["starts"])
        return features

    def _run(self, function: str, job: Structure, starts: Tensor) -> None:
        """Run a function of the kernel that reads the windows at `starts`."""
        source = self._whole_source or self._source_near(starts)
        arguments = (self._network, source, job)
        if getattr(self._kernel, function)(*map(byref, arguments)):
            raise MemoryError(f"the fused engine ran out of memory with {self.threads} threads")

    def _source_near(self, starts: Tensor) -> Structure:
        """The tables of windows, of which covariates and targets have the rows of the windows at
        `starts` alone."""
        last = np.unique(starts.numpy()) + self._dataset.look_back - 1
        if not len(last):
            last = np.zeros(1, np.int64)
        data, first = self._dataset, int(last[0])
        return self._source_of(_rows_at(data.covariates, last), _rows_at(data.targets, last), first)

    def _source_of(
        self, covariates: NDArray[np.float32], targets: NDArray[np.float32], first: int = 0
    ) -> Structure:
        """The tables of windows; it keeps their arrays alive. `first`: the number of the first row
        of covariates and targets."""
        tables = [self._features, *map(np.ascontiguousarray, (covariates, targets))]
        skipped_bytes = [0, *(first * table[:1].nbytes for table in tables[1:])]
        addresses = (x.ctypes.data - n for x, n in zip(tables, skipped_bytes, strict=True))
        source = _Windows(*addresses, math.prod(self._targets), self._dataset.relative)
        source.owned = tables
        return source

    # The kernel would read beyond the end of an array that is too small, so these checks are
    # strict.
    def _windows_of(self, starts: Tensor) -> Tensor:
        if starts.numel() and not 0 <= starts.min() <= starts.max() < self._windows:
            raise IndexError(f"a window starts outside of 0 … {self._windows - 1}")
        return starts.to(torch.int64).contiguous()

    def _numbers(self, values: Tensor, shape: tuple[int, ...]) -> Tensor:
        if values.shape != shape or values.dtype != self.dtype:
            description = f"{tuple(values.shape)} of {values.dtype}"
            raise ValueError(f"numbers {shape} of {self.dtype} are needed, not {description}")
        return values.contiguous()


def _rows_at(table: RowTable, row_numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows of a table, ascending, in an array that begins with the first; those between are not
    filled."""
    filled = np.empty((int(row_numbers[-1] - row_numbers[0]) + 1, *table.shape[1:]), np.float32)
    filled[row_numbers - row_numbers[0]] = table[row_numbers]
    return filled


def _trained_arrays(work: LocalWork) -> dict[str, Tensor]:
    """The tensors of some work that the kernel changes, by the kernel's names."""
    tracked = work.tracked_rows
    tensors = {"theta": work.rows}
    tensors |= {_KERNEL_STATE[name]: x for name, x in work.moments.state.items()}
    if tracked.average is not None:
        tensors["average"] = tracked.average.rows
    if tracked.gradients is not None:
        tensors["gradients"] = tracked.gradients
    return tensors


def _mask(mask: Tensor, parameters: int) -> Tensor:
    if mask.shape != (parameters,):
        raise ValueError(f"{parameters} booleans are needed, not {tuple(mask.shape)}")
    return mask.to(torch.uint8).contiguous()


def _steps(steps: Tensor, row_count: int, most_steps: int) -> Tensor:
    if steps.shape != (row_count,) or not 0 <= steps.min() <= steps.max() <= most_steps:
        raise ValueError(
            f"steps of {row_count} rows, from 0 to {most_steps} each, are needed, not {steps}"
        )
    return steps.to(torch.int64).contiguous()


def _steps_taken(work: LocalWork) -> Tensor | None:
    """Steps (S, 2) that led to the state of the shared and of the other parameters of each row;
    None if they differ within one of the two."""
    steps_taken = work.moments.steps.to(torch.int64).expand(len(work.rows), -1)
    if steps_taken.shape[1] == 1:
        return steps_taken.expand(-1, 2).contiguous()
    parts = [
        part
        for mask in (work.shared_mask, ~work.shared_mask)
        if (part := steps_taken[:, mask]).shape[1]
    ]
    if any((part != part[:, :1]).any() for part in parts):
        return None
    return torch.stack([parts[0][:, 0], parts[-1][:, 0]], 1)


def _rule(optimiser: ClientOpt) -> KernelStructure | None:
    """An optimiser as the kernel describes it: one that it supports, or one that inherits its step.
    The kinds are those of `Kind` in optimisers.h."""
    step, settings = type(optimiser).step, {}
    match optimiser:
        case Sgd() if step is Sgd.step:
            kind = 0
        case SgdMomentum() if step is SgdMomentum.step:
            kind, settings = 1, {"beta1": optimiser.momentum, "beta2": optimiser.dampening}
            settings["variant"] = int(optimiser.nesterov)
        case Adam() if step is Adam.step:
            kind = 2
        case AdamAMS() if step is AdamAMS.step:
            kind, settings = 3, {"variant": ("paper", "torch", "reddi").index(optimiser.variant)}
        case AdamW() if step is AdamW.step:
            kind, settings = 4, {"weight_decay": optimiser.weight_decay}
        case _:
            return None
    if isinstance(optimiser, Adam):
        settings |= {"beta1": optimiser.beta1, "beta2": optimiser.beta2, "eps": optimiser.eps}
    return _Rule(
        kind=kind,
        lr=optimiser.lr,
        proximal=optimiser.proximal,
        coupled_decay=optimiser.coupled_decay,
        **settings,
    )


_KERNEL_STATE = {"m": "m", "b": "m", "v": "v", "vmax": "vmax"}
"""The kernel's names for the state of the optimisers."""
_LOSSES = ("mse", "mae", "huber", "pinball")
"""The losses of `plfl.tasks.losses` that the kernel supports, in its order."""
_ACTIVATIONS = ("prelu", "silu")
"""The kernel's activations, in its order."""


@cache
def leave_to_stacked(feature: str) -> None:
    """Say once that the other engine trains what this one does not know."""
    log.warning("the fused engine leaves %s to the stacked engine", feature)


_Network, _Windows, _Rule, _Training, _Prediction, _Reading = map(
    structure,
    ("PlflNetwork", "PlflWindows", "PlflRule", "PlflTraining", "PlflPrediction", "PlflReading"),
)


def _network_of(form: KernelForm, shape: WindowShape) -> Structure:
    """The model; it keeps the array of its layers' widths alive."""
    widths = (c_int32 * len(form.widths))(*form.widths)
    network = _Network(
        features=shape.inputs,
        look_back=shape.look_back,
        covariates=shape.covariates,
        hidden=form.hidden,
        layers=len(form.widths),
        widths=addressof(widths),
        activation=_ACTIVATIONS.index(form.activation),
        absolute=form.absolute,
        outputs=shape.outputs,
    )
    network.owned = widths
    return network


def main() -> None:
    """Compile the kernels for every instruction set of this processor and print the outcomes."""
    for source, instructions in BUILDS:
        if instructions not in find_supported():
            continue
        try:
            outcome = str(build_kernel(instructions, source))
        except CompileError as error:
            outcome = str(error)
        print(f"{source}, {instructions}: {outcome}")
    reason = unavailable_reason()
    print(f"fused engine: {f'not available, so stacked trains: {reason}' if reason else 'ready'}")


if __name__ == "__main__":
    main()
