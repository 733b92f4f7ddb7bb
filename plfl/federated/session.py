"""Local training for methods that have routines of their own.

Most methods describe their local steps by the terms of a `TrainInstructions`, and an engine takes
them in one go. A method that trains one part of the model after the other, or a second model per
client, gives a `Routine` instead: a function of a `Session`, with which it trains models and takes
gradients on the clients' minibatches of the round. Every engine can do both. Results have the same
bits whichever models train together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from plfl.optimizers.client import ClientOpt
from plfl.training import schedule
from plfl.training.task import STANDING, Engine, LocalTask, Minibatches, Tracked

if TYPE_CHECKING:
    from plfl.federated.federation import Federation


class Session:
    """Some clients of a federation in a round, and what they can do with their data."""

    def __init__(
        self,
        f: Federation,
        engine: Engine,
        t: int,
        clients: Tensor,
        start: Tensor,
        minibatches: int,
    ):
        self.f, self.engine, self.t = f, engine, t
        self.clients = clients
        """Their indices (n,)."""
        self.start = start
        """Models (n, P) with the shared parameters as received, and each client's personal ones."""
        self.steps = torch.zeros(len(clients), dtype=torch.int64, device=clients.device)
        """Minibatch gradients (n,) computed so far."""
        self._losses = torch.zeros(len(clients), dtype=torch.float64, device=clients.device)
        self._minibatches = f.client_data.drawn(clients, t, minibatches)

    @property
    def loss(self) -> Tensor:
        """Mean minibatch loss (n,) so far."""
        return self._losses / self.steps.clamp(min=1)

    def train(
        self, rows: Tensor, first: int, steps: int, *, repeats: int = 1, **terms: Any
    ) -> Tensor:
        """The models `rows` (n, P) after local steps of the ClientOpt, with fresh moments.

        Args:
            rows: where the steps start; they are not modified.
            first: number of the first minibatch, from 0.
            steps: number of minibatches, one after the other. The schedule of the learning rate
                counts these.
            repeats: steps on each of them.
            terms: terms of the steps, named as the fields of `plfl.training.task.Terms`, as values
                for all P parameters (`Federation.full`). An `anchor` and a `mixture` are updated in
                place.
        """
        if not steps:
            return rows.clone()
        rates = schedule.factors(self.f.settings, self.t, first, steps)
        minibatches = self.minibatches(first, steps)
        if repeats > 1:
            minibatches = minibatches.map(lambda x: x.repeat_interleave(repeats, 1))
            rates = None if rates is None else tuple(np.repeat(rates, repeats).tolist())
        task = self._task(rows, minibatches, self.f.client_opt).with_terms(**terms)
        self._run(replace(task, rates=rates), steps * repeats)
        return task.rows

    def minibatches(self, first: int, number: int) -> Minibatches:
        """The `number` minibatches of the round that begin with number `first`, counted from 0."""
        return self._minibatches.map(lambda x: x[:, first : first + number])

    @property
    def first_rate(self) -> float:
        """Learning rate of the ClientOpt in the first step of the round."""
        rates = schedule.factors(self.f.settings, self.t, 0, 1)
        return float(self.f.client_opt.lr * (rates[0] if rates else 1.0))

    def gradient(self, rows: Tensor, minibatch: int | Tensor, who: Tensor | None = None) -> Tensor:
        """Gradients (n, P) of the models `rows` (n, P); 0 for clients that are not in `who`.

        Args:
            rows: one model per client.
            minibatch: its number in the round, from 0, or the start rows (n, B) of its windows;
                with these, there is no dropout.
            who: mask (n,) of the clients that compute a gradient; None: all.
        """
        if isinstance(minibatch, int):
            one = self.minibatches(minibatch, 1)
        else:
            one = Minibatches(minibatch[:, None])
        gradient = torch.zeros_like(rows)
        if who is None or who.all():
            task = self._task(rows, one, STANDING)
            self._run(replace(task, tracked=Tracked(gradients=gradient)), 1)
        elif who.any():
            task = self._task(rows[who], one.map(lambda x: x[who]), STANDING)
            gradients = torch.zeros_like(task.rows)
            self._run(replace(task, tracked=Tracked(gradients=gradients)), 1, who)
            gradient[who] = gradients
        return gradient

    def passes(self, purpose: str, epochs: float, most: int | None) -> tuple[Minibatches, Tensor]:
        """Minibatches of passes over the training windows, new ones in every round; see
        `ClientData.passes`."""
        return self.f.client_data.passes(f"{purpose}/{self.t}", self.clients, epochs, most)

    def optimiser(self, rows: Tensor) -> Steps:
        """The ClientOpt with fresh moments, for gradients that the routine has computed."""
        return Steps(self, rows)

    def _task(self, rows: Tensor, minibatches: Minibatches, optimiser: ClientOpt) -> LocalTask:
        f = self.f
        return f.client_data.task_of(optimiser, rows.clone(), minibatches, f.shared)

    def _run(self, task: LocalTask, steps: int, who: Tensor | slice = slice(None)) -> None:
        gradients = steps * task.gradients_per_step
        self._losses[who] += gradients * self.engine.train(task).to(self._losses)
        self.steps[who] += gradients


class Steps:
    """Local steps of the ClientOpt along given gradients."""

    def __init__(self, session: Session, rows: Tensor):
        self._session, self._taken = session, 0
        self._optimiser = session.f.client_opt
        self._state = self._optimiser.init(rows)

    def step(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """The models `rows` (n, P) after the next step along `gradient` (n, P).

        `gradient` may be overwritten.
        """
        settings, t = self._session.f.settings, self._session.t
        rates = schedule.factors(settings, t, self._taken, 1)
        optimiser = self._optimiser if rates is None else self._optimiser.slowed(rates[0])
        self._taken += 1
        stepped = rows.clone()
        # On a CPU, a row at a time stays in the cache.
        size = 1 if rows.device.type == "cpu" else len(rows)
        for first in range(0, len(rows), size):
            some = slice(first, first + size)
            state = {name: values[some] for name, values in self._state.items()}
            g = optimiser.decayed(rows[some], gradient[some])
            optimiser.step(stepped[some], g, state, self._taken)
        return stepped
