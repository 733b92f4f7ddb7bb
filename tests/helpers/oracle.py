"""An engine of `nn.Module` and `torch.optim`, one model at a time, to check the others.

Updates that `torch.optim` has are taken from there. The others (the paper's AdamAMS) are those of
`plfl.optimizers.client`, which are tested separately.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from plfl.data.examples import Examples
from plfl.models.network import Network
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.training.task import Contrast, LocalTask, Minibatches

ORACLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": nn.functional.mse_loss,
    "mae": nn.functional.l1_loss,
    "huber": nn.functional.huber_loss,
}
"""PyTorch's own losses. Other losses are differentiated automatically, without their `slope`."""


def optimiser(settings: ClientOpt, parameters: list[nn.Parameter]) -> torch.optim.Optimizer | None:
    """PyTorch's optimiser of the same update, if it has one."""
    match settings:
        case AdamW() | AdamAMS(variant="torch") | Adam(name="adam" | "proxadam"):
            kind = torch.optim.AdamW if isinstance(settings, AdamW) else torch.optim.Adam
            betas, decay = (settings.beta1, settings.beta2), settings.weight_decay
            is_ams = isinstance(settings, AdamAMS)
            return kind(parameters, settings.lr, betas, settings.eps, decay, amsgrad=is_ams)
        case Sgd():
            return torch.optim.SGD(parameters, settings.lr, weight_decay=settings.coupled_decay)
        case SgdMomentum():
            return torch.optim.SGD(
                parameters,
                settings.lr,
                settings.momentum,
                settings.dampening,
                settings.coupled_decay,
                nesterov=settings.nesterov,
            )
    return None


class Reference:
    """Trains the rows one after the other."""

    def __init__(
        self,
        network: Network,
        dataset: Examples,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ):
        self.device, self.dtype = device, dtype
        self.module: Any = network.module().to(device, dtype)
        self.dropout = network.dropout
        self.features = torch.from_numpy(dataset.features).to(device, dtype)
        self.context = torch.from_numpy(dataset.context).to(device, dtype)
        self.targets = torch.from_numpy(dataset.targets).to(device, dtype)
        self.dataset = dataset

    def block(self, task: Callable[[], LocalTask]) -> int:
        return 1

    def train(self, task: LocalTask) -> Tensor:
        assert not task.moments.steps.any(), "PyTorch's optimisers begin with fresh moments"
        task = task.with_state()
        losses = [_Row(self, task, s).train() for s in range(len(task.rows))]
        return torch.tensor(losses, dtype=torch.float64)

    def targets_of(self, starts: Tensor) -> Tensor:
        """Targets (B,), or (B, H) of several, of windows."""
        return self.targets[starts + self.dataset.look_back - 1]

    def inputs(self, starts: Tensor) -> tuple[Tensor, ...]:
        """Sequences (B, T, F) and contexts (B, G) of windows."""
        windows = [self.features[i : i + self.dataset.look_back] for i in starts.tolist()]
        if self.dataset.relative:
            windows = [window.clone() for window in windows]
            for window in windows:
                window[:, 0] -= window[-1, 0].item()
        return torch.stack(windows), self.context[starts + self.dataset.look_back - 1]

    @torch.inference_mode()
    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        return [self.module(*inputs) for inputs in self._placed(rows, starts)]

    @torch.inference_mode()
    def penultimate(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        placed = self._placed(rows, starts)
        return [self.module.features(inputs[0], "penultimate") for inputs in placed]

    def _placed(self, rows: Tensor, starts: list[Tensor]) -> Iterator[tuple[Tensor, ...]]:
        """For each row, puts its parameters into the module and yields the inputs of its
        windows."""
        for row, windows in zip(rows, starts, strict=True):
            nn.utils.vector_to_parameters(row, self.module.parameters())
            yield self.inputs(windows)


class _Minibatch(NamedTuple):
    """Windows, the targets of their outputs, and the key for dropout."""

    starts: Tensor
    """Start rows (B,)."""
    targets: Tensor
    """(B,), or (B, ...) as the loss reads them."""
    key: Tensor | None
    """See `Minibatches.keys`."""


class _Row:
    """One row of a task while it is trained."""

    def __init__(self, engine: Reference, task: LocalTask, s: int):
        self.engine, self.task, self.s, self.module = engine, task, s, engine.module
        self.parameters: list[nn.Parameter] = list(self.module.parameters())
        self._place(task.rows[s].clone())
        self.start = task.rows[s].clone()
        self.steps = len(task.minibatches.starts[s]) if task.steps is None else int(task.steps[s])
        self.optimiser = optimiser(task.optimiser, self.parameters)
        self.terms = terms = task.terms
        own_pull = 0 if terms.pull is None else terms.pull
        self.pull = task.optimiser.proximal * task.shared + own_pull
        self.others = []
        if terms.previous is not None:
            self.others = [self._copy(row) for row in (self.start, terms.previous[s])]
        self.storm = terms.storm and terms.storm.map(lambda rows: rows[s])
        if self.storm is not None:
            way = torch.where(task.shared, self.storm.scale * self.storm.momentum, 0)
            self.before = self.start + way

    def train(self) -> float:
        """Take all steps; the mean loss of their minibatches."""
        total = sum((self._step(k) for k in range(1, self.steps + 1)), 0.0)
        self.task.rows[self.s] = self._parameters()
        return total / (self.steps * self.task.gradients_per_step)

    def _step(self, k: int) -> float:
        """Take step `k`, from 1; the sum of the losses of its minibatches."""
        task, terms, s, y = self.task, self.terms, self.s, self._parameters()
        minibatch, paced = self._minibatch(task.minibatches, k), task.optimiser
        if task.rates is not None:
            paced = paced.slowed(task.rates[k - 1])
        old = None if self.storm is None else self._gradient(self.before, minibatch)[1]
        point, losses = self._ahead(y, k)
        losses += self._mix(y, minibatch, paced, k)
        loss, g = self._gradient(point, minibatch)
        if task.tracked.gradients is not None:
            task.tracked.gradients[s] += g
        stormed = None if old is None else self._storm(y, g, old, k)
        g += self.pull * (y - (self.start if terms.anchor is None else terms.anchor.rows[s]))
        if terms.constant is not None:
            g += terms.constant[s]
        y = self._updated(y, g, paced, k)
        if stormed is not None:
            y = torch.where(task.shared, stormed, y)
        if terms.step_offset is not None:
            y = y + terms.step_offset[s]
        if terms.frozen is not None:
            y = torch.where(terms.frozen, self.start, y)
        self._place(y)
        self._move_anchor(y, k)
        if (average := task.tracked.average) is not None:
            mean, taken = average.rows[s], float(average.steps[s]) + k
            decay = min(average.decay, (1 + taken) / (10 + taken))
            mean.copy_(decay * mean + (1 - decay) * y)
        return losses + loss

    def _ahead(self, y: Tensor, k: int) -> tuple[Tensor, float]:
        """The point at which the gradient is taken, and the loss of the step to it; see
        `LookAhead`."""
        look, frozen = self.terms.lookahead, self.terms.frozen
        if look is None:
            return y, 0.0
        loss, slope = self._gradient(y, self._minibatch(look.minibatches, k))
        point = y - look.rate * slope
        return point if frozen is None else torch.where(frozen, y, point), loss

    def _mix(self, y: Tensor, minibatch: _Minibatch, paced: ClientOpt, k: int) -> float:
        """Take a step of the second model, and return the loss of the mixture; see `Mixture`."""
        mixture, s = self.terms.mixture, self.s
        if mixture is None:
            return 0.0
        share, v = mixture.share[s].clone(), mixture.rows[s]
        loss, slope = self._gradient(share * v + (1 - share) * y, minibatch)
        if k <= mixture.learns:
            mixture.share[s] = (share - mixture.rate * ((v - y) @ slope)).clamp(0, 1)
        moments = {name: rows[s : s + 1] for name, rows in mixture.state.items()}
        paced.step(v[None], paced.decayed(v, share * slope)[None], moments, k)
        return loss

    def _storm(self, y: Tensor, g: Tensor, old: Tensor, k: int) -> Tensor:
        """The new shared parameters, from the gradients at `y` and at the previous point; see
        `Storm`."""
        storm, shared = self.storm, self.task.shared
        assert storm is not None
        m, v = storm.momentum, storm.square
        m[shared] = (g + (1 - storm.a) * (m - old))[shared]
        v[shared] = (storm.beta * v + (1 - storm.beta) * g**2)[shared]
        self.before = y.clone()
        return y - storm.scale * m if k < self.steps else self.before

    def _updated(self, y: Tensor, g: Tensor, paced: ClientOpt, k: int) -> Tensor:
        """The parameters after the step of the optimiser along `g`."""
        if self.optimiser is None:
            own, moments = slice(self.s, self.s + 1), self.task.moments.state
            state = {name: rows[own] for name, rows in moments.items()}
            paced.step(y[None], paced.decayed(y, g)[None], state, self.task.since(k))
            return y
        self._place(y)
        for group in self.optimiser.param_groups:
            group["lr"] = paced.lr
        nn.utils.vector_to_parameters(g, [_grad(p) for p in self.parameters])
        self.optimiser.step()
        return self._parameters()

    def _move_anchor(self, y: Tensor, k: int) -> None:
        """Let the anchor follow the parameters `y` after step `k`; see `Anchor`."""
        anchor, s = self.terms.anchor, self.s
        if anchor is None or k % anchor.every:
            return
        w = anchor.rows[s]
        w.copy_((1 - anchor.rate) * w + anchor.rate * y)
        self.optimiser = optimiser(self.task.optimiser, self.parameters)
        for moments in self.task.moments.state.values():
            moments[s] = 0

    def _minibatch(self, minibatches: Minibatches, k: int) -> _Minibatch:
        """The minibatch of step `k`, from 1."""
        s, keys = self.s, minibatches.keys
        starts = minibatches.starts[s, k - 1]
        if minibatches.targets is None:
            targets = self.engine.targets_of(starts)
        else:
            targets = minibatches.targets[s, k - 1].to(self.engine.dtype)
        return _Minibatch(starts, targets, None if keys is None else keys[s, k - 1])

    def _gradient(self, at: Tensor, minibatch: _Minibatch) -> tuple[float, Tensor]:
        """Loss of the model `at` some parameters (P,) on a minibatch, and its gradient (P,)."""
        terms, engine, (loss, scale) = self.terms, self.engine, self.task.objective
        self._place(at)
        self.module.zero_grad()
        inputs: tuple[Tensor, ...] = engine.inputs(minibatch.starts)
        if engine.dropout is not None and minibatch.key is not None:
            kept = engine.dropout.kept(minibatch.key, len(minibatch.starts))
            inputs = *inputs, kept.to(engine.dtype)
        output, oracle = self.module(*inputs), ORACLES.get(loss.name)
        targets = minibatch.targets
        mean = oracle(output, targets) if oracle else loss.of(output, targets).mean()
        total = scale * mean
        if terms.contrast is not None:
            total = total + self._contrastive(terms.contrast, inputs[0])
        total.backward()
        grads = [p.grad.flatten() for p in self.parameters if p.grad is not None]
        gradient = torch.cat(grads)
        if self.task.clip is not None:
            if terms.frozen is not None:
                gradient[terms.frozen] = 0
            clipped = nn.Parameter(torch.empty_like(gradient))
            clipped.grad = gradient
            nn.utils.clip_grad_norm_(clipped, self.task.clip)
        return total.item(), gradient

    def _contrastive(self, term: Contrast, x: Tensor) -> Tensor:
        """MOON's term as its authors compute it: the cross entropy of cosines."""
        h = self.module.features(x, term.features)
        cosine = nn.CosineSimilarity(-1)
        logits = torch.stack([cosine(h, o.features(x, term.features)) for o in self.others], 1)
        first = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return term.weight * nn.functional.cross_entropy(logits / term.temperature, first)

    def _parameters(self) -> Tensor:
        """The module's parameters (P,), as a copy."""
        return nn.utils.parameters_to_vector(self.parameters).detach()

    def _place(self, row: Tensor) -> None:
        """Set the module's parameters to `row` (P,); the two share memory from now on."""
        nn.utils.vector_to_parameters(row, self.parameters)

    def _copy(self, row: Tensor) -> Any:
        """A separate module with the parameters `row` (P,), which are not trained."""
        module = deepcopy(self.module).requires_grad_(False)
        nn.utils.vector_to_parameters(row, module.parameters())
        return module


def _grad(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
