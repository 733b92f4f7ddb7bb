"""Local training for methods that have routines of their own.

Most methods describe their local steps by the terms of a `TrainInstructions`, and an engine takes
them in one go. A method that trains one part of the model after the other, or a second model per
client, gives a `Routine` instead: a function of a `Session`, with which it trains models and takes
gradients on the clients' minibatches of the round. Every engine can do both. Results have the same
bits whichever models train together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from plfl.interfaces.annotations import Federation
from plfl.optimizers.client import ClientOpt
from plfl.training.work import STANDING_OPTIMISER, Engine, LocalWork, Minibatches, TrackedRows


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
        among: slice = slice(None),
        are_staying: bool = True,
    ):
        self.f, self.engine, self.t = f, engine, t
        self.clients = clients
        """Their indices (n,)."""
        self.among = among
        """Which of the clients of `broadcast` they are."""
        self.are_staying = are_staying
        """Whether they do not drop out."""
        self.start = start
        """Models (n, P) with the shared parameters as received, and each client's personal ones."""
        self.steps = torch.zeros(len(clients), dtype=torch.int64, device=clients.device)
        """Minibatch gradients (n,) computed so far."""
        self.losses = torch.zeros(len(clients), dtype=torch.float64, device=clients.device)
        """Sums (n,) of their losses. A routine adds those of its own terms."""
        self._minibatches = f.client_data.minibatches(clients, t, minibatches)

    @property
    def loss(self) -> Tensor:
        """Mean minibatch loss (n,) so far."""
        return self.losses / self.steps.clamp(min=1)

    def train(
        self, rows: Tensor, first: int, steps: int, *, repeats: int = 1, **changes: Any
    ) -> Tensor:
        """The models after local steps of the ClientOpt from `rows` (n, P), with fresh moments, on
        the minibatches from number `first` (from 0) on, with `repeats` on each.

        `changes`: of the steps, named as the fields of `plfl.training.work.StepChanges`, as values
        for all P parameters (`Federation.full`).
        """
        if not steps:
            return rows.clone()
        minibatches = self.minibatches(first, steps).repeat(repeats)
        work = self.work_of(self.f.client_opt, rows.clone(), minibatches).with_changes(**changes)
        self.run(work, steps * repeats)
        return work.rows

    def stepping_clients(self, k: int) -> Tensor | None:
        """Mask (n,) of the clients that take step `k` of the round, from 0; None: all."""
        data = self.f.client_data
        return None if data.has_equal_steps else data.steps(self.clients) > k

    def minibatches(self, first: int, count: int) -> Minibatches:
        """The `count` minibatches of the round from number `first` on, counted from 0."""
        return self._minibatches.select_steps(first, count)

    def gradient(
        self, rows: Tensor, minibatch: int | Minibatches, mask: Tensor | None = None
    ) -> Tensor:
        """Gradients (n, P) of the models `rows` (n, P), one per client; 0 for clients that are not
        in the mask `mask` (n,). As in any forward pass, the buffers of `rows` change in place.
        `minibatch`: its number in the round, from 0, or a single one."""
        minibatches = self.minibatches(minibatch, 1) if isinstance(minibatch, int) else minibatch
        gradients = torch.empty_like(rows) if mask is None else torch.zeros_like(rows)
        # Steps that stand still change the rows in place, but not their values.
        work = self.work_of(STANDING_OPTIMISER, rows, minibatches)
        self.run(replace(work, tracked_rows=TrackedRows(gradients=gradients)), 1, mask)
        return gradients

    def features(self, rows: Tensor, first: int, count: int, layer: str) -> Tensor:
        """Features (n, count, W, B) of the models `rows` (n, P) on minibatches from number `first`
        on, see `Engine.hidden_features`."""
        return self.engine.hidden_features(rows, self.minibatches(first, count), layer)

    def passes(
        self, purpose: str, epochs: float, most_steps: int | None
    ) -> tuple[Minibatches, Tensor]:
        """Minibatches of passes over the training windows, new ones in every round; see
        `ClientData.passes`."""
        return self.f.client_data.passes(f"{purpose}/{self.t}", self.clients, epochs, most_steps)

    def learner(self, start: Tensor) -> Learner:
        """Models that begin at `start` (n, P) and take one step after the other."""
        return Learner(self, start)

    def slices(self, mask: Tensor | None = None) -> Iterator[slice]:
        """The clients of the mask `mask` (n,), or all, in slices for operations on each parameter:
        one after the other on a CPU, where a row then stays in the cache."""
        if mask is None and self.start.device.type != "cpu":
            yield slice(None)
            return
        for i in range(len(self.start)) if mask is None else mask.nonzero()[:, 0].tolist():
            yield slice(i, i + 1)

    def work_of(
        self,
        optimiser: ClientOpt,
        rows: Tensor,
        minibatches: Minibatches,
        moments: dict[str, Tensor] | None = None,
    ) -> LocalWork:
        """Steps that train `rows` (n, P) in place, with the study's loss; `moments`: None: fresh
        ones."""
        f = self.f
        return f.client_data.work_of(optimiser, rows, minibatches, f.shared_mask, moments=moments)

    def run(self, work: LocalWork, steps: int, mask: Tensor | None = None) -> None:
        """Let the engine do a work of some `steps`; `mask`: (n,), of the clients that take them;
        None: all."""
        if mask is None:
            self.losses += steps * self.engine.train(work).to(self.losses)
            self.steps += steps
        elif mask.any():
            losses = self.engine.train(replace(work, steps=steps * mask.long()))
            self.losses += torch.where(mask, steps * losses.to(self.losses), 0)
            self.steps += steps * mask


class Learner:
    """A model of each client that takes local steps of the ClientOpt one at a time, with moments
    that begin afresh and continue from step to step. A proximal ClientOpt pulls the shared
    parameters towards where they started."""

    def __init__(self, session: Session, start: Tensor):
        self._session, self._start, self._steps_taken = session, start, 0
        self._optimiser = session.f.client_opt
        self._moments = self._optimiser.init(start)
        self.rows = start.clone()
        """The models (n, P), which steps change in place."""

    def step(self, gradient: Tensor) -> None:
        """Take the next step along `gradient` (n, P), which may be overwritten."""
        pull, optimiser = self._pull(), self._optimiser
        self._steps_taken += 1
        for block in self._session.slices():
            y, g = self.rows[block], gradient[block]
            moments = {name: values[block] for name, values in self._moments.items()}
            g = optimiser.decay_weights(y, g if pull is None else g + pull[block])
            optimiser.step(y, g, moments, self._steps_taken)

    def train(self, minibatch: int, mask: Tensor | None = None, **changes: Any) -> None:
        """Take the next step on the minibatch of this number, from 0, of the round. `mask`:
        (n,), of the clients that take it; None: all. `changes`: as in `Session.train`."""
        session = self._session
        minibatches = session.minibatches(minibatch, 1)
        work = session.work_of(self._optimiser, self.rows, minibatches, self._moments)
        work.moments.steps.fill_(self._steps_taken)
        self._steps_taken += 1
        session.run(work.with_changes(constant=self._pull(), **changes), 1, mask)

    def _pull(self) -> Tensor | None:
        """The proximal term (n, P) of the ClientOpt in a gradient, if it has one."""
        if not self._optimiser.proximal:
            return None
        return self._optimiser.proximal * self._session.f.shared_mask * (self.rows - self._start)
