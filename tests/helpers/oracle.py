"""An engine of `nn.Module` and `torch.optim`, one model at a time, to check the others.

Updates that `torch.optim` has are taken from there. The others (the paper's AdamAMS) are those of
`plfl.optimizers.client`, which are tested separately.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from plfl.data.examples import Examples
from plfl.networks.network import Network
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.training.work import LocalWork, Minibatches

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
        self.features = torch.from_numpy(dataset.features).to(device, dtype)
        self.covariates = torch.from_numpy(dataset.covariates).to(device, dtype)
        self.targets = torch.from_numpy(dataset.targets).to(device, dtype)
        self.dataset = dataset
        self.is_random = network.is_random

    def most_models(self, task: Callable[[], LocalWork]) -> int:
        return 1

    def train(self, task: LocalWork) -> Tensor:
        task = task.with_state()
        goes_on = task.moments.state and task.moments.steps.any()
        assert not goes_on, "PyTorch's optimisers begin with fresh moments"
        if task.tracked_rows.gradients is not None:
            task.tracked_rows.gradients.zero_()
        losses = [_Row(self, task, s).train() for s in range(len(task.rows))]
        return torch.tensor(losses, dtype=torch.float64)

    def targets_of(self, starts: Tensor) -> Tensor:
        """Targets (B,), or (B, H) of several, of windows."""
        return self.targets[starts + self.dataset.look_back - 1]

    def inputs(self, starts: Tensor) -> tuple[Tensor, ...]:
        """Sequences (B, T, F) and covariates (B, G) of windows."""
        windows = [self.features[i : i + self.dataset.look_back] for i in starts.tolist()]
        if self.dataset.relative:
            windows = [window.clone() for window in windows]
            for window in windows:
                window[:, 0] -= window[-1, 0].item()
        return torch.stack(windows), self.covariates[starts + self.dataset.look_back - 1]

    @torch.inference_mode()
    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        return [self.module(*inputs) for inputs in self._placed(rows, starts)]

    @torch.inference_mode()
    def penultimate(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        inputs_by_row = self._placed(rows, starts)
        return [self.module.features(inputs[0], "penultimate") for inputs in inputs_by_row]

    @torch.inference_mode()
    def hidden_features(self, rows: Tensor, minibatches: Minibatches, layer: str) -> Tensor:
        features = []
        for k in range(minibatches.starts.shape[1]):
            inputs_by_row = self._placed(rows, list(minibatches.starts[:, k]))
            features.append(
                torch.stack([self.module.features(x[0], layer).mT for x in inputs_by_row])
            )
        return torch.stack(features, 1)

    def _placed(self, rows: Tensor, starts: list[Tensor]) -> Iterator[tuple[Tensor, ...]]:
        """For each row, puts its parameters into the module and yields the inputs of its
        windows."""
        for row, windows in zip(rows, starts, strict=True):
            nn.utils.vector_to_parameters(row, self.module.parameters())
            yield self.inputs(windows)


class _Row:
    """One row of a task while it is trained."""

    def __init__(self, engine: Reference, task: LocalWork, s: int):
        self.engine, self.task, self.s, self.module = engine, task, s, engine.module
        self.parameters: list[nn.Parameter] = list(self.module.parameters())
        self._place(task.rows[s].clone())
        self.start = task.rows[s].clone()
        self.steps = len(task.minibatches.starts[s]) if task.steps is None else int(task.steps[s])
        self.optimiser = optimiser(task.optimiser, self.parameters)
        self.changes = changes = task.changes
        own_pull = 0 if changes.pull is None else changes.pull
        self.pull = task.optimiser.proximal * task.shared_mask + own_pull

    def train(self) -> float:
        """Take all steps; the mean loss of their minibatches."""
        total = sum((self._step(k) for k in range(1, self.steps + 1)), 0.0)
        self.task.rows[self.s] = self._parameters()
        return total / self.steps

    def _step(self, k: int) -> float:
        """Take step `k`, from 1; the loss of its minibatch."""
        task, changes, s, y = self.task, self.changes, self.s, self._parameters()
        loss, g = self._gradient(y, k)
        if task.tracked_rows.gradients is not None:
            task.tracked_rows.gradients[s] += g
        g += self.pull * (y - self.start)
        if changes.constant is not None:
            g += changes.constant[s]
        y = self._updated(y, g, task.optimiser, k)
        if changes.step_offset is not None:
            y = y + changes.step_offset[s]
        if changes.frozen is not None:
            y = torch.where(changes.frozen, self.start, y)
        self._place(y)
        if (average := task.tracked_rows.average) is not None:
            mean, steps_taken = average.rows[s], float(average.steps[s]) + k
            decay = min(average.decay, (1 + steps_taken) / (10 + steps_taken))
            mean.copy_(decay * mean + (1 - decay) * y)
        return loss

    def _updated(self, y: Tensor, g: Tensor, paced: ClientOpt, k: int) -> Tensor:
        """The parameters after the step of the optimiser along `g`."""
        if self.optimiser is None:
            own_row, moments = slice(self.s, self.s + 1), self.task.moments.state
            state = {name: rows[own_row] for name, rows in moments.items()}
            paced.step(y[None], paced.decay_weights(y, g)[None], state, k)
            return y
        self._place(y)
        for group in self.optimiser.param_groups:
            group["lr"] = paced.lr
        nn.utils.vector_to_parameters(g, [_grad(p) for p in self.parameters])
        self.optimiser.step()
        return self._parameters()

    def _gradient(self, y: Tensor, k: int) -> tuple[float, Tensor]:
        """Loss of the model with parameters `y` (P,) on minibatch `k`, from 1, and the gradient
        (P,)."""
        changes, engine, (loss, scale) = self.changes, self.engine, self.task.objective
        minibatches, s = self.task.minibatches, self.s
        starts = minibatches.starts[s, k - 1]
        self._place(y)
        self.module.zero_grad()
        inputs = engine.inputs(starts)
        output, oracle = self.module(*inputs), ORACLES.get(loss.name)
        targets = engine.targets_of(starts)
        if minibatches.targets is not None:
            targets = minibatches.targets[s, k - 1].to(engine.dtype)
        mean = oracle(output, targets) if oracle else loss.evaluate(output, targets).mean()
        total = whole_loss = scale * mean
        if changes.by_feature is not None:
            features = self.module.features(inputs[0], changes.layer)
            whole_loss = total + (features.mT * changes.by_feature[s, k - 1]).sum()
        whole_loss.backward()
        grads = [p.grad.flatten() for p in self.parameters if p.grad is not None]
        gradient = torch.cat(grads)
        if self.task.clip is not None:
            if changes.frozen is not None:
                gradient[changes.frozen] = 0
            clipped = nn.Parameter(torch.empty_like(gradient))
            clipped.grad = gradient
            nn.utils.clip_grad_norm_(clipped, self.task.clip)
        return total.item(), gradient

    def _parameters(self) -> Tensor:
        """The module's parameters (P,), as a copy."""
        return nn.utils.parameters_to_vector(self.parameters).detach()

    def _place(self, row: Tensor) -> None:
        """Set the module's parameters to `row` (P,); the two share memory from now on."""
        nn.utils.vector_to_parameters(row, self.parameters)


def _grad(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
