"""Many models at once in torch: batched matrix products over the rows of a stack.

PyTorch may choose another routine for batches of another size, and then round differently.
Therefore only a few sizes of stacks are used, and their results are compared before a model trains,
so that no row's bits depend on others.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plfl.data.computed import RowTable, kept_rows
from plfl.data.examples import Examples
from plfl.networks.network import Network
from plfl.training.gpu import Graphs, Step, make_convolutions_exact, memory_of
from plfl.training.work import STANDING_OPTIMISER, LocalWork, Minibatches, sums

log = logging.getLogger(__name__)

CPU = torch.device("cpu")

STACK_SIZES = (2, 8, 16, 32, 64)
"""Rows of a stack, more than one: PyTorch often has another routine for a batch of one."""
ROW_BY_ROW = (1,)
"""Sizes on a CPU for a model whose bits depend on the size of its stack, and on any device for one
that cannot train in a stack."""
MOST_STACK_PARAMETERS = 2**20
"""Most parameters of a stack, chosen for the caches. A stack of two rows may have more."""
GPU_SIZES = (16, 64, 256, 1024)
"""Rows of a stack on a GPU, where a few rows take as long as many."""
MOST_GPU_PARAMETERS = 2**26
"""Most parameters of a stack, enough to keep a large GPU busy; the least size may have more."""

STACKED_WINDOWS = 256
"""Windows of one model that are forecast together on a GPU; if too few, the last is repeated."""
MOST_GPU_NUMBERS = 2**26
"""Most numbers of the windows, or of the models, that are forecast together on a GPU: gigabytes, if
it has enough memory."""
FEATURE_WINDOWS = 4096
"""Most windows whose features are computed together, because a forward pass keeps them all."""
CLIP_EPSILON = 1e-6
"""The number that PyTorch adds to the norm of a gradient when it clips."""


def sizes_for(width: int, device: torch.device = CPU) -> tuple[int, ...]:
    """The sizes of stacks of rows of `width` parameters."""
    sizes, most_numbers = (
        (STACK_SIZES, MOST_STACK_PARAMETERS)
        if device.type == "cpu"
        else (GPU_SIZES, MOST_GPU_PARAMETERS)
    )
    return sizes[:1] + tuple(size for size in sizes[1:] if size * width <= most_numbers)


def split(row_count: int, sizes: tuple[int, ...]) -> Iterator[tuple[slice, int]]:
    """As few stacks as possible for `row_count` rows: the rows of each, and its size. The last one
    may have fewer rows than its size; the engine then fills it with copies."""
    for first in range(0, row_count, sizes[-1]):
        end = min(first + sizes[-1], row_count)
        yield slice(first, end), next(size for size in sizes if size >= end - first)


@torch.no_grad()
def comparable(
    network: Network, sizes: tuple[int, ...], templates: Sequence[Tensor], features: str
) -> tuple[int, ...]:
    """The ascending `sizes` if random rows have the same bits in stacks of all of them. Otherwise
    `ROW_BY_ROW` on a CPU. On a GPU that would take too long: there, the sizes with the same bits as
    the largest one.

    `templates`: inputs of `Network.forward_pass` with the sizes and type of the training, but any
    number of rows; `features`: those that the loss reads, see `Engine.hidden_features`; empty:
    none.
    """
    largest_size = sizes[-1]
    random = torch.Generator().manual_seed(0)
    rows = torch.stack([network.initial(seed) for seed in range(largest_size)]).to(templates[0])
    inputs = [
        torch.rand(largest_size, *x.shape[1:], generator=random).to(templates[0]) for x in templates
    ]

    def passes(indices: Tensor) -> Tensor:
        """Forecasts and gradients of the rows `indices`, in a stack in this order."""
        models, keys = rows[indices], indices.to(rows.device) if network.is_random else None
        gradients = torch.empty_like(models)
        chosen_inputs = (x[indices] for x in inputs)
        forecasts, state = network.forward_pass(
            models, *chosen_inputs, features=bool(features), keys=keys
        )
        read: dict[str, Tensor] = {features: getattr(state, features)} if features else {}
        network.backward_pass(models, state, forecasts, read, gradients)
        after = [state.buffers] if network.has_buffers else []
        return torch.cat([x.flatten(1) for x in (forecasts, *read.values(), *after, gradients)], 1)

    full_pass, equal_sizes = passes(torch.arange(largest_size)), []
    for size in sizes:
        # Each row is at another place than in `full_pass`.
        row_indices = (torch.arange(size) + 1) % largest_size
        if torch.equal(passes(row_indices), full_pass[row_indices]):
            equal_sizes.append(size)
            continue
        log.info(
            "in a stack of %d, a model's bits are not those in a stack of %d", size, largest_size
        )
        if rows.device.type == "cpu":
            log.info("the stacked engine trains one row after the other")
            return ROW_BY_ROW
    return tuple(equal_sizes) or sizes[-1:]


class WindowRows:
    """The rows of a table of windows as tensors."""

    def __init__(self, table: RowTable, device: torch.device, dtype: torch.dtype):
        """A GPU keeps all rows; a CPU not those that are computed and too many."""
        rows = kept_rows(table) if device.type == "cpu" else np.asarray(table)
        self.shape = table.shape
        self._table, self._device, self._dtype = table, device, dtype
        self._rows = None if rows is None else torch.from_numpy(rows).to(device, dtype)

    def __getitem__(self, rows: Tensor) -> Tensor:
        if self._rows is not None:
            return self._rows[rows]
        values = torch.from_numpy(self._table[rows.numpy()])
        return values.to(self._device, self._dtype)


class Stacked:
    """Trains any number of rows, on CPU or GPU."""

    def __init__(
        self,
        network: Network,
        dataset: Examples,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ):
        self.network = network
        self.device, self.dtype = device, dtype
        self.sizes = sizes_for(network.layout.width, device)
        self.memory = memory_of(device)
        self.most_numbers = MOST_GPU_NUMBERS
        """Most numbers of a pass of forecasts on a GPU."""
        self.repeat: Callable[[Step, int], None] | None = None
        """Repeats equal steps faster than one by one, with CUDA graphs on a GPU."""
        if device.type == "cuda":
            make_convolutions_exact()
            self.repeat = Graphs(device)
        self.features = torch.from_numpy(dataset.features).to(device, dtype)
        self.covariates = WindowRows(dataset.covariates, device, dtype)
        self.targets = WindowRows(dataset.targets, device, dtype)
        self.look_back = torch.arange(dataset.look_back, device=device)
        self.relative = dataset.relative
        self._compared: dict[tuple[Any, ...], tuple[int, ...]] = {}
        """Sizes of stacks with the same bits, by all that the passes of some work depend on."""

    @property
    def is_random(self) -> bool:
        return self.network.is_random

    def most_models(self, work: Callable[[], LocalWork]) -> int:
        """Several stacks, or as many as fit into the memory of a GPU."""
        return 4 * self.sizes[-1] if self.memory is None else self._sizes_in_memory(work())[1]

    def _sizes_in_memory(self, work: LocalWork) -> tuple[tuple[int, ...], int]:
        """Sizes of stacks that fit into the memory, and the models that fit, by a measured step."""
        templates = self.inputs(work.minibatches.starts[:1, 0])
        if not self.network.can_stack(self.sizes[0], *templates):
            return ROW_BY_ROW, self.sizes[-1]
        if self.memory is None:
            return self.sizes, 0

        def step(size: int) -> None:
            copies = torch.zeros(size, dtype=torch.int64, device=self.device)
            Stack(self, work.select(copies), True).take_step()

        parts = (work.minibatches, work.changes, work.tracked_rows)
        field_names = [
            name for part in parts for name, value in vars(part).items() if value is not None
        ]
        form = (work.optimiser.name, work.minibatches.starts.shape[-1], *field_names)
        return self.memory.sizes_in_memory("a local step", form, self.sizes, step)

    def train(self, work: LocalWork) -> Tensor:
        fresh = not work.moments.steps.any()
        losses = []
        for rows, size in split(len(work.rows), self.stack_sizes(work)):
            own_work = stack = work.select(rows)
            if size > len(own_work.rows):
                indices = torch.arange(size, device=self.device)
                stack = own_work.select(indices.clamp(max=len(own_work.rows) - 1))
            losses.append(Stack(self, stack, fresh).train()[: len(own_work.rows)])
            if stack is not own_work:
                for target, source in zip(
                    own_work.trained_tensors, stack.trained_tensors, strict=True
                ):
                    target.copy_(source[: len(target)])
        return torch.cat(losses)

    def stack_sizes(self, work: LocalWork) -> tuple[int, ...]:
        """The sizes of the stacks of some work, which are the same whichever rows it has."""
        layer, (fitting, _) = work.changes.layer, self._sizes_in_memory(work)
        minibatches = work.minibatches
        kind = (minibatches.starts.shape[-1], layer, fitting)
        if fitting == ROW_BY_ROW:
            return ROW_BY_ROW
        if kind not in self._compared:
            templates = self.inputs(minibatches.starts[:1, 0])
            self._compared[kind] = comparable(self.network, fitting, templates, layer)
        return self._compared[kind]

    def inputs(self, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Sequences (S, B, T, F) and covariates (S, B, G) of windows."""
        sequence = self.features[starts[..., None] + self.look_back]
        if self.relative:
            sequence[..., 0] -= sequence[..., -1:, 0].clone()
        return sequence, self.covariates[starts + self.look_back[-1]]

    def targets_of(self, starts: Tensor) -> Tensor:
        """Targets of windows, of the shape of `starts`, or with further dimensions of the task."""
        return self.targets[starts + self.look_back[-1]]

    @torch.inference_mode()
    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        if self.device.type != "cpu" and any(map(len, starts)):
            return self._predict_together(rows, starts)
        return [
            self.network.forecasts(rows[s : s + 1], *self.inputs(windows[None]))[0]
            for s, windows in enumerate(starts)
        ]

    def _predict_together(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        """See `predict`. All matrix products have the same sizes, so no row depends on others."""
        parts: list[tuple[int, int, int]] = []
        all_starts, begins, end = torch.cat(starts), [], 0
        for row, windows in enumerate(starts):
            begin, end = end, end + len(windows)
            begins.append(len(parts) * STACKED_WINDOWS)
            parts += [(row, first, end - 1) for first in range(begin, end, STACKED_WINDOWS)]
        window = self.look_back.numel() * self.features.shape[1] + self.covariates.shape[1]
        parts_per_pass = max(1, self.most_numbers // max(STACKED_WINDOWS * window, rows.shape[1]))
        positions, predictions = torch.arange(STACKED_WINDOWS, device=self.device), []

        def product(size: int) -> None:
            copies = torch.zeros(size, STACKED_WINDOWS, dtype=torch.int64, device=self.device)
            self.network.forecasts(rows[copies[:, 0]], *self.inputs(all_starts[copies]))

        if self.memory is not None:
            sizes = tuple(sorted({max(1, parts_per_pass >> halved) for halved in (0, 2, 4, 6)}))
            fitting, _ = self.memory.sizes_in_memory(
                "a product of forecasts", parts_per_pass, sizes, product
            )
            parts_per_pass = fitting[-1]
        for first in range(0, len(parts), parts_per_pass):
            block = parts[first : first + parts_per_pass]
            filled = block + block[-1:] * (parts_per_pass - len(block))
            models, firsts, lasts = torch.tensor(filled, device=self.device).mT
            indices = torch.minimum(firsts[:, None] + positions, lasts[:, None])
            outputs = self.network.forecasts(rows[models], *self.inputs(all_starts[indices]))
            predictions.append(outputs[: len(block)].flatten(0, 1))
        all_predictions = torch.cat(predictions)
        return [
            all_predictions[begin : begin + len(s)] for begin, s in zip(begins, starts, strict=True)
        ]

    @torch.inference_mode()
    def penultimate(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        hidden_features = []
        for s, windows in enumerate(starts):
            row, parts = rows[s : s + 1], []
            for block in windows.split(FEATURE_WINDOWS):
                _, state = self.network.forward_pass(row, *self.inputs(block[None]), features=True)
                parts.append(state.penultimate[0].mT)
            hidden_features.append(torch.cat(parts))
        return hidden_features

    @torch.inference_mode()
    def hidden_features(self, rows: Tensor, minibatches: Minibatches, layer: str) -> Tensor:
        all_columns = torch.ones_like(rows[0], dtype=torch.bool)
        work = LocalWork.fresh(STANDING_OPTIMISER, rows, minibatches, all_columns).with_changes(
            layer=layer
        )
        hidden_features = []
        for block, size in split(len(rows), self.stack_sizes(work)):
            indices = torch.arange(block.start, block.start + size, device=self.device)
            stack = work.select(indices.clamp(max=block.stop - 1))
            minibatches_of_stack, steps = stack.minibatches, []
            for k in range(1, minibatches_of_stack.starts.shape[1] + 1):
                inputs, keys = (
                    self.inputs(_select_step(minibatches_of_stack.starts, k)),
                    _select_keys(minibatches_of_stack, k),
                )
                _, state = self.network.forward_pass(stack.rows, *inputs, features=True, keys=keys)
                steps.append(getattr(state, layer)[: block.stop - block.start])
            hidden_features.append(torch.stack(steps, 1))
        return torch.cat(hidden_features)


class Stack:
    """The rows of some work while they are trained."""

    def __init__(self, engine: Stacked, work: LocalWork, is_fresh: bool):
        """`is_fresh`: no optimiser has taken any steps yet."""
        self.engine, self.work, self.y = engine, work.with_state(), work.rows
        self.buffers = work.rows[:, :0]
        """The buffers (S, Q) after the last forward pass."""
        self.changes = changes = work.changes
        self.start = work.rows.clone()
        self.g = torch.empty_like(work.rows)
        if work.tracked_rows.gradients is not None:
            work.tracked_rows.gradients.zero_()
        self.steps_before = 0 if is_fresh else work.moments.steps
        S, K, _ = work.minibatches.starts.shape
        self.steps = torch.full((S,), K, device=engine.device) if work.steps is None else work.steps
        self.counts: list[int] = [K] * S if work.steps is None else self.steps.tolist()
        pull = work.optimiser.proximal * work.shared_mask + (
            0 if changes.pull is None else changes.pull
        )
        self.pull = pull if pull.any() else None
        self.targets = (
            engine.targets_of(work.minibatches.starts)
            if work.minibatches.targets is None
            else work.minibatches.targets.to(engine.dtype)
        )
        self.repeat = engine.repeat if self._is_recordable else None

    @property
    def _is_recordable(self) -> bool:
        """Whether a GPU can record a step: each row's own random numbers, and rows that train one
        after the other, are not the same work in every step."""
        engine, starts = self.engine, self.work.minibatches.starts
        if engine.repeat is None or engine.is_random:
            return False
        return engine.network.can_stack(len(self.y), *engine.inputs(starts[:1, 0]))

    @torch.inference_mode()
    def train(self) -> Tensor:
        """Take all steps; the mean losses (S,) of their minibatches."""
        total = torch.zeros(len(self.y), dtype=torch.float64, device=self.engine.device)

        def take(k: int | Tensor) -> None:
            # Selecting the rows with steps left by index would make a GPU wait every time.
            active = None if min(self.counts) == max(self.counts) else self.steps >= k
            losses = self._step(k, active)
            total.add_(losses if active is None else losses * active)

        if self.repeat is None:
            for k in range(1, max(self.counts) + 1):
                take(k)
        else:
            number = torch.zeros((), dtype=torch.float64, device=self.engine.device)
            self.repeat(lambda: take(number.add_(1)), max(self.counts))
        return total / self.steps

    @torch.inference_mode()
    def take_step(self) -> None:
        """Take a single step."""
        is_tensor = self.repeat is not None
        self._step(torch.ones((), device=self.engine.device).double() if is_tensor else 1, None)

    def _step(self, k: int | Tensor, active: Tensor | None) -> Tensor:
        """Take step `k`, from 1; the losses (S,) of its minibatches."""
        work, changes, y, g = self.work, self.changes, self.y, self.g
        losses, optimiser = self._gradient(k), work.optimiser
        if (gradients := work.tracked_rows.gradients) is not None:
            gradients.add_(g if active is None else g * active[:, None])
        if self.pull is not None:
            g += self.pull * (y - self.start)
        if changes.constant is not None:
            g += changes.constant
        optimiser.decay_weights(y, g)
        with _undo_inactive(active, y, work.moments.state) as (rows, moments):
            optimiser.step(rows, g, moments, self.steps_before + k)
            if changes.step_offset is not None:
                rows += changes.step_offset
            if changes.frozen is not None:
                rows.copy_(torch.where(changes.frozen, self.start, rows))
            if self.engine.network.has_buffers:
                rows[:, self.engine.network.layout.buffer_columns] = self.buffers
        if work.tracked_rows.average is not None:
            work.tracked_rows.average.advance(y, k, active)
        return losses

    def _gradient(self, k: int | Tensor) -> Tensor:
        """Losses (S,) of the minibatches of step `k`, from 1, and their gradients into `g`."""
        network, minibatches, changes, g = (
            self.engine.network,
            self.work.minibatches,
            self.changes,
            self.g,
        )
        (loss, scale), clip = self.work.objective, self.work.clip
        inputs = self.engine.inputs(_select_step(minibatches.starts, k))
        targets, reads = _select_step(self.targets, k), changes.by_feature is not None
        keys = _select_keys(minibatches, k)
        outputs, state = network.forward_pass(self.y, *inputs, features=reads, keys=keys)
        if network.has_buffers:
            self.buffers = state.buffers
        losses = loss.evaluate(outputs, targets).flatten(1)
        by_output = loss.slope(outputs, targets) * (scale / losses.shape[1])
        by_feature = {}
        if changes.by_feature is not None:
            by_feature[changes.layer] = _select_step(changes.by_feature, k)
        network.backward_pass(self.y, state, by_output, by_feature, g)
        if clip is not None:
            if changes.frozen is not None:
                g.masked_fill_(changes.frozen, 0)
            g *= (clip / (sums(g * g).sqrt() + CLIP_EPSILON)).clamp(max=1)
        return losses.mean(1) * scale


def _select_step(values: Tensor, k: int | Tensor) -> Tensor:
    """Entries (S, ...) of step `k`, from 1, out of those (S, K, ...) of all steps."""
    if isinstance(k, int):
        return values[:, k - 1]
    return values.index_select(1, (k - 1).long()[None])[:, 0]


def _select_keys(minibatches: Minibatches, k: int | Tensor) -> Tensor | None:
    """Keys (S,) of random layers in step `k`, from 1."""
    return None if minibatches.keys is None else _select_step(minibatches.keys, k)


@contextmanager
def _undo_inactive(
    active: Tensor | None, y: Tensor, state: dict[str, Tensor]
) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """A context in which the rows `y` and their state are changed in place. Afterwards, changes of
    rows outside the mask `active` (S,) are undone; None: all stay."""
    if active is None:
        yield y, state
        return
    rows, moments = y.clone(), {name: values.clone() for name, values in state.items()}
    yield rows, moments
    for old_values, after in ((y, rows), *((state[name], moments[name]) for name in state)):
        old_values.copy_(torch.where(active[:, None], after, old_values))
