"""Local training for methods that have routines of their own.

Most methods describe their local steps by the terms of a `TrainInstructions`, and an engine takes
them in one go. A method that trains one part of the model after the other, or a second model per
client, gives a `Routine` instead: a function of a `Session`, with which it trains models and takes
gradients on the clients' minibatches of the round. Every engine can do both, with the same bits
whichever models train together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from plfl.optimizers.client import ClientOpt
from plfl.training import schedule
from plfl.training.task import (
    STANDING,
    Anchor,
    Engine,
    LocalTask,
    LookAhead,
    Minibatches,
    Mixture,
    Tracked,
)

if TYPE_CHECKING:
    from plfl.federated.client_data import Passes
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
        self,
        rows: Tensor,
        first: int,
        steps: int,
        *,
        frozen: Tensor | None = None,
        pull: float = 0.0,
        towards: Tensor | None = None,
        inner: float = 0.0,
        inner_first: int | None = None,
    ) -> Tensor:
        """The models `rows` (n, P) after local steps of the ClientOpt, with fresh moments.

        Args:
            rows: where the steps start; they are not modified.
            first: number of the first minibatch, from 0.
            steps: number of steps, on one minibatch after the other.
            frozen: mask (P,) of parameters that stay as they are.
            pull: a of a term a · (y − `towards`) in every gradient, on the shared parameters.
            towards: models (n, P), or (1, P), towards which `pull` draws.
            inner: α, if `inner_first` is given: a step takes its gradient at y − α g′ instead of y.
            inner_first: number of the minibatch whose gradient is the first step's g′; each step
                takes the next.
        """
        if not steps:
            return rows.clone()
        f, settings = self.f, self.f.settings
        task = self._task(rows, self._some(first, steps), f.client_opt).with_terms(frozen=frozen)
        if inner_first is not None:
            task = task.with_terms(lookahead=LookAhead(inner, self._some(inner_first, steps)))
        if pull and towards is not None:
            strength = pull * f.shared.to(rows.dtype)
            task = task.with_terms(pull=strength, constant=strength * (rows - towards))
        rates = schedule.factors(settings, self.t, first, steps)
        self._run(replace(task, rates=rates), steps)
        return task.rows

    def train_near(
        self, rows: Tensor, minibatches: int, repeats: int, *, pull: float, rate: float
    ) -> tuple[Tensor, Tensor]:
        """Local steps near an anchor that follows them, several on each of the first minibatches.

        Args:
            rows: the models (n, P) where steps and anchor start.
            minibatches: number of minibatches.
            repeats: steps on each, with fresh moments and one rate; then the anchor moves.
            pull: a of the term a · (y − anchor) in every gradient, on the shared parameters.
            rate: part of the way to y that the anchor goes in a move.

        Returns:
            y and the anchor (n, P) after the steps.
        """
        f, settings = self.f, self.f.settings
        anchor = Anchor(rows.clone(), repeats, rate)
        each_again = self._some(0, minibatches).map(lambda x: x.repeat_interleave(repeats, 1))
        task = self._task(rows, each_again, f.client_opt)
        # The schedule counts minibatches, so that it ends with the rounds.
        each = schedule.factors(settings, self.t, 0, minibatches)
        rates = None if each is None else tuple(np.repeat(each, repeats).tolist())
        strength = pull * f.shared.to(rows.dtype)
        if minibatches:
            task = task.with_terms(anchor=anchor, pull=strength)
            self._run(replace(task, rates=rates), minibatches * repeats)
        return task.rows, anchor.rows

    def train_mixed(
        self,
        rows: Tensor,
        mixed: Tensor,
        share: Tensor,
        steps: int,
        *,
        learns: int,
        rate: float | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Local steps of two models per client, on the first minibatches, with fresh moments.

        Args:
            rows: the models y (n, P), which take plain steps.
            mixed: the models v (n, P); each steps along the gradient of its mixture with y.
            share: α (n,) of v in the mixture. `rows`, `mixed` and `share` are not modified.
            steps: number of steps.
            learns: first steps in which α is learned.
            rate: learning rate of α; None: that of the ClientOpt in the first step.

        Returns:
            y, v and α after the steps, see `plfl.training.task.Mixture`.
        """
        f = self.f
        rates = schedule.factors(f.settings, self.t, 0, steps)
        if rate is None:
            rate = f.client_opt.lr * (rates[0] if rates else 1.0)
        mixture = Mixture(
            mixed.clone(), f.client_opt.init(mixed), share.clone(), rate, min(learns, steps)
        )
        task = self._task(rows, self._some(0, steps), f.client_opt).with_terms(mixture=mixture)
        if steps:
            self._run(replace(task, rates=rates), steps)
        return task.rows, mixture.rows, mixture.share

    def gradient(self, rows: Tensor, minibatch: int | Tensor, who: Tensor | None = None) -> Tensor:
        """Gradients (n, P) of the models `rows` (n, P), 0 for others than `who`.

        Args:
            rows: one model per client.
            minibatch: its number in the round, from 0, or the start rows (n, B) of its windows, of
                which a model with dropout drops nothing.
            who: mask (n,) of the clients that compute one; None: all.
        """
        if isinstance(minibatch, int):
            one = self._some(minibatch, 1)
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

    def passes(self, purpose: str, epochs: float, most: int | None) -> Passes:
        """Minibatches of passes over the training windows, others in every round; see
        `ClientData.passes`."""
        return self.f.client_data.passes(f"{purpose}/{self.t}", self.clients, epochs, most)

    def optimiser(self, rows: Tensor) -> Steps:
        """The ClientOpt with fresh moments, for gradients that the routine has computed."""
        return Steps(self, rows)

    def _some(self, first: int, minibatches: int) -> Minibatches:
        """So many of the round's minibatches from number `first`, from 0."""
        return self._minibatches.map(lambda x: x[:, first : first + minibatches])

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
