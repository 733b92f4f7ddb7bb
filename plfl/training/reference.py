"""One model at a time with `nn.Module` and `torch.optim`: slow but simple, to check the others.

The updates that `torch.optim` has are taken from there; the others (the paper's AdamAMS) are the
equations of `plfl.optimizers.client`, which have oracles of their own.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from plfl.data.examples import Examples
from plfl.errors import ConfigError
from plfl.models.network import Network
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.training.task import Contrast, LocalTask

ORACLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": nn.functional.mse_loss,
    "mae": nn.functional.l1_loss,
    "huber": nn.functional.huber_loss,
}
"""PyTorch's own losses. Of others it takes the derivative itself, not their `slope`."""


def optimiser(settings: ClientOpt, parameters: list[nn.Parameter]) -> torch.optim.Optimizer | None:
    """PyTorch's optimiser of the same update, if it has one."""
    match settings:
        case AdamAMS(variant="torch") | Adam(name="adam" | "proxadam"):
            return torch.optim.Adam(
                parameters,
                settings.lr,
                (settings.beta1, settings.beta2),
                settings.eps,
                settings.coupled_decay,
                amsgrad=isinstance(settings, AdamAMS),
            )
        case AdamW():
            return torch.optim.AdamW(
                parameters,
                settings.lr,
                (settings.beta1, settings.beta2),
                settings.eps,
                settings.weight_decay,
            )
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
        self.device, self.dtype, self.block = device, dtype, 1
        self.module: Any = network.module().to(device, dtype)
        self.dropout = network.dropout
        self.features = torch.from_numpy(dataset.features).to(device, dtype)
        self.context = torch.from_numpy(dataset.context).to(device, dtype)
        self.targets = torch.from_numpy(dataset.targets).to(device, dtype)
        self.dataset = dataset

    def train(self, task: LocalTask) -> Tensor:
        if task.steps_taken.any():
            problem = "'reference' starts every round with fresh moments; take another engine here"
            raise ConfigError("compute.engine", [problem])
        losses = [self._train_row(task, s) for s in range(len(task.rows))]
        return torch.tensor(losses, dtype=torch.float64)

    def _train_row(self, task: LocalTask, s: int) -> float:
        parameters = list(self.module.parameters())
        nn.utils.vector_to_parameters(task.rows[s].clone(), parameters)
        torch_optimiser = optimiser(task.optimiser, parameters)
        start, total = task.rows[s].clone(), 0.0
        pull = task.optimiser.proximal * task.shared + (0 if task.pull is None else task.pull)
        steps = len(task.batches[s]) if task.steps is None else int(task.steps[s])
        others = []
        if task.previous is not None:
            others = [self._module(row) for row in (start, task.previous[s])]
        storm = task.storm and task.storm.map(lambda rows: rows[s])
        if storm is not None:
            before = start + torch.where(task.shared, storm.scale * storm.momentum, 0)
        for k, windows in enumerate(task.batches[s][:steps], 1):
            target = self.targets[windows + self.dataset.look_back - 1]
            if task.targets is not None:
                target = task.targets[s, k - 1].to(self.dtype)
            y = nn.utils.parameters_to_vector(parameters).detach()
            minibatch = (
                windows,
                target,
                others,
                None if task.keys is None else task.keys[s, k - 1],
            )
            if storm is not None:
                nn.utils.vector_to_parameters(before, parameters)
                _, old = self._gradient(task, *minibatch)
                nn.utils.vector_to_parameters(y, parameters)
            point, extra, look, mixture = y, 0.0, task.lookahead, task.mixture
            if look is not None:
                own = look.batches[s, k - 1]
                targets = self.targets[own + self.dataset.look_back - 1]
                key = None if look.keys is None else look.keys[s, k - 1]
                extra, slope = self._gradient(task, own, targets, others, key)
                point = y - look.rate * slope
                if task.frozen is not None:
                    point = torch.where(task.frozen, y, point)
            paced = task.optimiser
            if task.rates is not None:
                paced = task.optimiser.slowed(task.rates[k - 1])
            if mixture is not None:
                share, v = mixture.share[s].clone(), mixture.rows[s]
                nn.utils.vector_to_parameters(share * v + (1 - share) * y, parameters)
                loss, by_mixture = self._gradient(task, *minibatch)
                extra += loss
                if k <= mixture.learns:
                    product = (v - y) @ by_mixture
                    mixture.share[s] = (share - mixture.rate * product).clamp(0, 1)
                moments = {name: rows[s : s + 1] for name, rows in mixture.state.items()}
                paced.step(v[None], paced.decayed(v, share * by_mixture)[None], moments, k)
            nn.utils.vector_to_parameters(point, parameters)
            loss, g = self._gradient(task, *minibatch)
            nn.utils.vector_to_parameters(y, parameters)
            ahead = before = y.clone()
            if storm is not None:
                m, v = storm.momentum, storm.square
                m[task.shared] = (g + (1 - storm.a) * (m - old))[task.shared]
                v[task.shared] = (storm.beta * v + (1 - storm.beta) * g**2)[task.shared]
                if k < steps:
                    ahead = y - storm.scale * m
            if task.gradients is not None:
                task.gradients[s] += g
            g += pull * (y - (start if task.anchor is None else task.anchor.rows[s]))
            if task.constant is not None:
                g += task.constant[s]
            if torch_optimiser:
                for group in torch_optimiser.param_groups:
                    group["lr"] = paced.lr
                nn.utils.vector_to_parameters(g, [_grad(p) for p in parameters])
                torch_optimiser.step()
                y = nn.utils.parameters_to_vector(parameters).detach()
            else:
                state = {name: rows[s : s + 1] for name, rows in task.state.items()}
                paced.step(y[None], paced.decayed(y, g)[None], state, task.since(k))
            if task.storm is not None:
                y = torch.where(task.shared, ahead, y)
            if task.step_offset is not None:
                y = y + task.step_offset[s]
            if task.frozen is not None:
                y = torch.where(task.frozen, start, y)
            nn.utils.vector_to_parameters(y, parameters)
            if task.anchor is not None and k % task.anchor.every == 0:
                w = task.anchor.rows[s]
                w.copy_((1 - task.anchor.rate) * w + task.anchor.rate * y)
                torch_optimiser = optimiser(task.optimiser, parameters)
                for rows in task.state.values():
                    rows[s] = 0
            if task.average is not None:
                mean, taken = task.average.rows[s], float(task.average.steps[s]) + k
                decay = min(task.average.decay, (1 + taken) / (10 + taken))
                mean.copy_(decay * mean + (1 - decay) * y)
            total += loss + extra
        task.rows[s] = nn.utils.parameters_to_vector(parameters).detach()
        return total / (steps * task.gradients_per_step)

    def _gradient(
        self,
        task: LocalTask,
        windows: Tensor,
        target: Tensor,
        others: list[Any],
        key: Tensor | None,
    ) -> tuple[float, Tensor]:
        """Loss of the module on a minibatch, and its gradient (P,)."""
        self.module.zero_grad()
        inputs = self._inputs(windows)
        if self.dropout is not None and key is not None:
            inputs = *inputs, self.dropout.kept(key, len(windows)).to(self.dtype)
        output = self.module(*inputs)
        oracle = ORACLES.get(task.loss.name)
        own = oracle(output, target) if oracle else task.loss.of(output, target).mean()
        loss = task.loss_scale * own
        if task.contrast is not None:
            loss = loss + self._contrastive(task.contrast, inputs[0], others)
        loss.backward()
        grads = [p.grad.flatten() for p in self.module.parameters() if p.grad is not None]
        gradient = torch.cat(grads)
        if task.clip is not None:
            if task.frozen is not None:
                gradient[task.frozen] = 0
            clipped = nn.Parameter(torch.empty_like(gradient))
            clipped.grad = gradient
            nn.utils.clip_grad_norm_(clipped, task.clip)
        return loss.item(), gradient

    def _module(self, row: Tensor) -> Any:
        module = deepcopy(self.module).requires_grad_(False)
        nn.utils.vector_to_parameters(row, module.parameters())
        return module

    def _contrastive(self, term: Contrast, x: Tensor, others: list[Any]) -> Tensor:
        """MOON's term as its authors compute it: the cross entropy of cosines."""
        h = self.module.features(x, term.features)
        cosine = nn.CosineSimilarity(-1)
        logits = torch.stack([cosine(h, o.features(x, term.features)) for o in others], 1)
        first = torch.zeros(len(x), dtype=torch.int64, device=self.device)
        return term.weight * nn.functional.cross_entropy(logits / term.temperature, first)

    def _inputs(self, starts: Tensor) -> tuple[Tensor, ...]:
        """Sequences (B, T, F) and contexts (B, G) of windows."""
        windows = [self.features[i : i + self.dataset.look_back] for i in starts.tolist()]
        if self.dataset.relative:
            windows = [window.clone() for window in windows]
            for window in windows:
                window[:, 0] -= window[-1, 0].item()
        return torch.stack(windows), self.context[starts + self.dataset.look_back - 1]

    @torch.inference_mode()
    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        forecasts = []
        for row, windows in zip(rows, starts, strict=True):
            nn.utils.vector_to_parameters(row, self.module.parameters())
            forecasts.append(self.module(*self._inputs(windows)))
        return forecasts

    @torch.inference_mode()
    def penultimate(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        found = []
        for row, windows in zip(rows, starts, strict=True):
            nn.utils.vector_to_parameters(row, self.module.parameters())
            found.append(self.module.features(self._inputs(windows)[0], "penultimate"))
        return found


def _grad(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
