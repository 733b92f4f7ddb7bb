"""Many models at once in torch: batched matrix products over the rows of a stack."""

import itertools
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from plfl.data.examples import Examples
from plfl.models.network import Network
from plfl.training.losses import contrastive
from plfl.training.task import Contrast, LocalTask, LookAhead, Storm

CHUNK = 12
"""Most rows that are trained together on a CPU: as many as its caches like."""
WINDOWS = 2**20
"""About as many windows are forecast together on a GPU, which takes some gigabytes."""
FEATURES = 4096
"""Most windows of which the features are computed together; a forward pass keeps all of theirs."""
CLOSE = 1e-6
"""What PyTorch adds to the norm of a gradient that it clips."""


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
        on_gpu = device.type != "cpu"
        self.block, self.chunk = (sys.maxsize, sys.maxsize) if on_gpu else (4 * CHUNK, CHUNK)
        # Those of one row are enough for a CPU.
        self.windows = WINDOWS if on_gpu else 1
        self.features = torch.from_numpy(dataset.features).to(device, dtype)
        self.context = torch.from_numpy(dataset.context).to(device, dtype)
        self.targets = torch.from_numpy(dataset.targets).to(device, dtype)
        self.look_back = torch.arange(dataset.look_back, device=device)
        self.relative = dataset.relative

    def train(self, task: LocalTask) -> Tensor:
        if len(task.rows) == 1:
            return self._train_with_a_twin(task)
        fresh = not task.steps_taken.any()
        chunks = math.ceil(len(task.rows) / self.chunk)
        edges = [round(i * len(task.rows) / chunks) for i in range(chunks + 1)]
        parts = (task.select(slice(*edge)) for edge in itertools.pairwise(edges))
        return torch.cat([self._train(part, fresh) for part in parts])

    def _train_with_a_twin(self, task: LocalTask) -> Tensor:
        """Train a single row beside a copy of itself.

        Torch computes a batch of one matrix product by another routine, which would give a row
        other bits alone than beside others.
        """
        twins = task.select(torch.zeros(2, dtype=torch.int64, device=self.device))
        loss = self._train(twins, not task.steps_taken.any())[:1]
        task.rows.copy_(twins.rows[:1])
        for name, rows in task.state.items():
            rows.copy_(twins.state[name][:1])
        if task.gradients is not None and twins.gradients is not None:
            task.gradients.copy_(twins.gradients[:1])
        if task.storm is not None and twins.storm is not None:
            task.storm.momentum.copy_(twins.storm.momentum[:1])
            task.storm.square.copy_(twins.storm.square[:1])
        if task.average is not None and twins.average is not None:
            task.average.rows.copy_(twins.average.rows[:1])
        if task.anchor is not None and twins.anchor is not None:
            task.anchor.rows.copy_(twins.anchor.rows[:1])
        if task.mixture is not None and twins.mixture is not None:
            task.mixture.rows.copy_(twins.mixture.rows[:1])
            task.mixture.share.copy_(twins.mixture.share[:1])
            for name, rows in task.mixture.state.items():
                rows.copy_(twins.mixture.state[name][:1])
        return loss

    @torch.inference_mode()
    def _train(self, task: LocalTask, fresh: bool) -> Tensor:
        """Train all rows at once; `fresh`: no optimiser has any steps behind it."""
        optimiser, y, state = task.optimiser, task.rows, task.state
        start = y.clone()
        behind = 0 if fresh else task.steps_taken.expand_as(y)
        pull = optimiser.proximal * task.shared + (0 if task.pull is None else task.pull)
        pulls = bool(pull.any())
        batches = task.batches
        targets = self.targets[batches + self.look_back[-1]]
        if task.targets is not None:
            targets = task.targets.to(self.dtype)
        steps = _steps(task)
        taken: list[int] = steps.tolist()
        always, most = min(taken) == max(taken), max(taken)
        # Rows that take a step are the first of these; a mask of them would stop a GPU every time.
        longest_first = steps.argsort(descending=True, stable=True)
        total = torch.zeros(len(y), dtype=torch.float64, device=self.device)
        g = torch.empty_like(y)
        storm = task.storm
        if storm is not None:
            before = y + task.shared * storm.scale * storm.momentum
            old = torch.empty_like(y)
        for k in range(1, most + 1):
            inputs = self._inputs(batches[:, k - 1], _key(task.keys, k))
            minibatch = (inputs, targets[:, k - 1], task, start)
            active = None if always else steps >= k
            now = slice(None) if always else longest_first[: sum(n >= k for n in taken)]
            paced = optimiser if task.rates is None else optimiser.slowed(task.rates[k - 1])
            point, losses = y, torch.zeros((), dtype=total.dtype)
            if task.lookahead is not None:
                point, losses = self._ahead(task, task.lookahead, k, y, start)
            losses = losses + self._gradient(point, *minibatch, g)
            if task.mixture is not None:
                mixture, share = task.mixture, task.mixture.share[:, None]
                by_mixture = torch.empty_like(y)
                mixed = share * mixture.rows + (1 - share) * y
                losses = losses + self._gradient(mixed, *minibatch, by_mixture)
                along = share * by_mixture
                if k <= mixture.learns:
                    mixture.learn(y, by_mixture, active)
                optimiser.decayed(mixture.rows, along)
                with _only(now, mixture.rows, mixture.state) as (rows, moments):
                    paced.step(rows, along[now], moments, _part(behind, now) + k)
            if storm is not None:
                self._gradient(before, *minibatch, old)
                mine = task.shared if active is None else task.shared & active[:, None]
                _recur(storm, g, old, mine)
                before.copy_(y)
                way = storm.scale * storm.momentum
                ahead = y - torch.where((steps > k)[:, None], way, 0)
            if task.gradients is not None:
                task.gradients.add_(g if active is None else g * active[:, None])
            if pulls:
                g += pull * (y - (start if task.anchor is None else task.anchor.rows))
            if task.constant is not None:
                g += task.constant
            optimiser.decayed(y, g)
            total += losses if active is None else losses * active
            with _only(now, y, state) as (rows, moments):
                paced.step(rows, g[now], moments, _part(behind, now) + task.since(k))
                if storm is not None:
                    rows.copy_(torch.where(task.shared, ahead[now], rows))
                if task.step_offset is not None:
                    rows += task.step_offset[now]
                if task.frozen is not None:
                    rows.copy_(torch.where(task.frozen, start[now], rows))
            if task.anchor is not None:
                task.anchor.advance(y, state, k, now)
            if task.average is not None:
                task.average.advance(y, k, active)
        return total / (steps * task.gradients_per_step)

    def _ahead(
        self, task: LocalTask, look: LookAhead, k: int, y: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Where the gradient of step `k` is taken, and the losses (S,) on the way there."""
        starts, slope = look.batches[:, k - 1], torch.empty_like(y)
        targets = self.targets[starts + self.look_back[-1]]
        inputs = self._inputs(starts, _key(look.keys, k))
        losses = self._gradient(y, inputs, targets, task, start, slope)
        point = y - look.rate * slope
        return point if task.frozen is None else torch.where(task.frozen, y, point), losses

    def _gradient(
        self,
        y: Tensor,
        inputs: tuple[Tensor, ...],
        targets: Tensor,
        task: LocalTask,
        start: Tensor,
        out: Tensor,
    ) -> Tensor:
        """Losses (S,) of the models `y` on a minibatch, and their gradient into `out`."""
        reads = task.contrast is not None
        outputs, kept = self.network.forward_pass(y, *inputs, features=reads)
        each = task.loss.of(outputs, targets).flatten(1)
        losses = each.mean(1) * task.loss_scale
        features: dict[str, Tensor] = {}
        if task.contrast is not None and task.previous is not None:
            which = task.contrast.features
            near, far = (
                getattr(self.network.forward_pass(rows, *inputs, features=reads)[1], which)
                for rows in (start, task.previous)
            )
            added, features[which] = _contrast(getattr(kept, which), near, far, task.contrast)
            losses = losses + added
        by_output = task.loss.slope(outputs, targets) * (task.loss_scale / each.shape[1])
        self.network.backward_pass(y, kept, by_output, features, out)
        if task.clip is not None:
            if task.frozen is not None:
                out.masked_fill_(task.frozen, 0)
            out *= (task.clip / (_norms(out) + CLOSE)).clamp(max=1)
        return losses

    def _inputs(self, starts: Tensor, keys: Tensor | None = None) -> tuple[Tensor, ...]:
        """Sequences (S, B, T, F) and contexts (S, B, G) of windows, and what dropout keeps of the
        units if the minibatches have keys (S,)."""
        sequence = self.features[starts[..., None] + self.look_back]
        if self.relative:
            sequence[..., 0] -= sequence[..., -1:, 0].clone()
        inputs = sequence, self.context[starts + self.look_back[-1]]
        dropout = self.network.dropout
        if dropout is None or keys is None:
            return inputs
        return *inputs, dropout.kept(keys, starts.shape[-1]).to(self.dtype)

    @torch.inference_mode()
    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        most = max(1, self.windows // max([1, *map(len, starts)]))
        forecasts: list[Tensor] = []
        for first in range(0, len(starts), most):
            some = starts[first : first + most]
            inputs = self._inputs(pad_sequence(some, batch_first=True))
            padded = self.network.forecasts(rows[first : first + most], *inputs)
            forecasts += [f[: len(own)] for f, own in zip(padded, some, strict=True)]
        return forecasts

    @torch.inference_mode()
    def penultimate(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        found = []
        for s, windows in enumerate(starts):
            parts = [
                self.network.forward_pass(rows[s : s + 1], *self._inputs(some[None]))[1]
                for some in windows.split(FEATURES)
            ]
            found.append(torch.cat([part.penultimate[0].mT for part in parts]))
        return found


def _norms(rows: Tensor) -> Tensor:
    """Norms (S, 1) of rows, summed in the same order beside any other rows."""
    squares = rows * rows
    while (width := squares.shape[1]) > 1:
        half = width // 2
        folded = squares[:, :half] + squares[:, half : 2 * half]
        squares = torch.cat([folded, squares[:, 2 * half :]], 1) if width % 2 else folded
    return squares.sqrt()


def _contrast(h: Tensor, near: Tensor, far: Tensor, contrast: Contrast) -> tuple[Tensor, Tensor]:
    """MOON's term (S,) in the losses for features (S, W, B), and its gradient by `h`."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf, near, far = (x.mT.clone() for x in (h, near, far))
        distances = contrastive(leaf.requires_grad_(), near, far, contrast.temperature)
        added = contrast.weight * distances.mean(1)
        (by_leaf,) = torch.autograd.grad(added.sum(), leaf)
    return added.detach(), by_leaf.mT


def _recur(r: Storm, g: Tensor, old: Tensor, where: Tensor) -> None:
    """Take the gradients at the point and at the one before into m and v, `where` they are to."""
    r.momentum.copy_(torch.where(where, g + (1 - r.a) * (r.momentum - old), r.momentum))
    r.square.copy_(torch.where(where, r.beta * r.square + (1 - r.beta) * g * g, r.square))


def _key(keys: Tensor | None, k: int) -> Tensor | None:
    """Keys (S,) of the minibatches of step `k`, from 1."""
    return None if keys is None else keys[:, k - 1]


def _steps(task: LocalTask) -> Tensor:
    """Steps (S,) of each row."""
    if task.steps is not None:
        return task.steps
    S, K, _ = task.batches.shape
    return torch.full((S,), K, device=task.rows.device)


@contextmanager
def _only(
    now: Tensor | slice, y: Tensor, state: dict[str, Tensor]
) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """The rows with the indices `now`, or a slice for all of them, to be changed in place."""
    if isinstance(now, slice):
        yield y, state
        return
    rows, moments = y[now], {name: values[now] for name, values in state.items()}
    yield rows, moments
    y[now] = rows
    for name, values in moments.items():
        state[name][now] = values


def _part(behind: Tensor | int, now: Tensor | slice) -> Tensor | int:
    return behind if isinstance(behind, int) else behind[now]
