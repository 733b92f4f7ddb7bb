"""The clients' side of a round: the method's instructions, and how the clients train.

The models of many cohorts, of one or several federations, train together in blocks: small enough
for memory, large enough to use every core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.federated.federation import Federation
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.federated.session import Session
from plfl.training import schedule
from plfl.training.task import Average, Engine, LocalTask


class Cohort:
    """The clients of one federation that train at the same time.

    Of clients that drop out (`stay` is False) only the bytes sent to them and their time count.
    """

    def __init__(self, f: Federation, t: int, clients: Tensor, stay: bool):
        self.f, self.t, self.clients, self.stay = f, t, clients, stay
        self.instructions = (
            f.method.broadcast(f, t, clients) if f.channel.shared else TrainInstructions(f.x0[None])
        )
        asked, data = self.instructions.steps, f.client_data
        self.has_equal_steps = asked is None and data.equal_steps
        self.steps = (data.steps(clients) if asked is None else asked) - self.instructions.skip
        self.most = int(self.steps.max())
        self.losses = torch.zeros(len(clients), dtype=torch.float64, device=clients.device)
        width = (len(clients), f.channel.shared if stay else 0)
        self.update = f.initial.new_empty(width)
        self.gradients = (
            None if self.instructions.gradients == "none" else f.initial.new_empty(width)
        )
        storm = self.instructions.storm
        self.storm = storm and storm.map(torch.clone)
        self.objective = data.task.objective(data.settings.loss, self.instructions.term)
        self.rates = schedule.factors(f.settings, t, self.instructions.skip, self.most)

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for cohorts whose models can train as one stack."""
        instructions, f = self.instructions, self.f
        same = (f.shared, instructions.frozen, instructions.pull)
        per_client = (instructions.constant, instructions.step_offset, instructions.term)
        return (
            f.client_opt,
            *map(_by_value, same),
            *(values is not None for values in per_client),
            instructions.offset_first,
            self.has_equal_steps,
            self.objective,
            instructions.contrast,
            instructions.gradients,
            instructions.storm and (instructions.storm.a, instructions.storm.beta),
            self.most,
            self.rates,
        )

    @property
    def taken(self) -> NDArray[np.float64]:
        """Local steps (n,) that the clients took, including those that the method took itself."""
        asked = (self.steps + self.instructions.skip).cpu().double().numpy()
        progress = self.f.clock.progress(self.t)[self.clients.cpu().numpy()]
        return np.asarray(asked * progress, dtype=np.float64)

    def close(self) -> None:
        """Report the clients' work to the clock and their results to the method."""
        clients = self.clients.cpu().numpy()
        before = torch.as_tensor(self.instructions.before).cpu().numpy()
        self.f.clock.work(clients, before + self.taken * self.instructions.work_per_step)
        if self.stay and self.f.channel.shared:
            result = TrainResult(
                self.instructions, self.steps, self.update, self.gradients, self.storm
            )
            self.f.method.aggregate(self.f, self.t, self.clients, result)


def _by_value(values: Tensor | float | None) -> bytes | float | None:
    """Equal for equal values; a tensor equals itself only."""
    return values.cpu().numpy().tobytes() if isinstance(values, Tensor) else values


class _Part:
    """Some of the clients of a cohort, while they train."""

    def __init__(self, cohort: Cohort, index: slice):
        self.cohort, self.index = cohort, index
        self.clients = cohort.clients[index]

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def is_last(self) -> bool:
        """Whether it holds the last clients of its cohort."""
        return bool(self.index.stop == len(self.cohort.clients))

    def task(self, engine: Engine) -> LocalTask:
        """The work of these clients, according to the method's instructions."""
        f, instructions = self.cohort.f, self.cohort.instructions
        self.start = f.models(self.clients, self._of(instructions.start))
        state, behind = f.open_moments(self.clients)
        skip, steps = instructions.skip, self.cohort.steps[self.index]
        drawn = f.client_data.minibatches(self.clients, self.cohort.t, skip + self.cohort.most)
        batches, rows = drawn[:, skip:], self.start.clone()
        constant, step_offset = (
            self._full(instructions.constant),
            self._full(instructions.step_offset),
        )
        if step_offset is not None and instructions.offset_first:
            # An offset before each step is one after it, from a start with the offset. Terms that
            # draw towards the start still mean where it was.
            rows += step_offset
            pulls = instructions.pull + f.client_opt.proximal
            if isinstance(pulls, Tensor) or pulls:
                back = f.full(pulls * torch.ones_like(f.x0)) * step_offset
                constant = back if constant is None else constant + back
        previous, storm = instructions.previous, instructions.storm
        no_pull = isinstance(instructions.pull, float) and not instructions.pull
        return LocalTask(
            optimiser=f.client_opt,
            rows=rows,
            batches=batches,
            keys=f.client_data.keys(self.clients, self.cohort.t, skip + self.cohort.most)[:, skip:],
            shared=f.shared,
            state=state,
            steps_taken=behind,
            pull=None if no_pull else f.full(instructions.pull * torch.ones_like(f.x0)),
            constant=constant,
            step_offset=step_offset,
            targets=self._targets(engine, batches),
            loss=self.cohort.objective.loss,
            loss_scale=self.cohort.objective.scale,
            clip=f.settings.clip,
            steps=None if self.cohort.has_equal_steps else steps,
            gradients=torch.zeros_like(rows) if instructions.gradients == "steps" else None,
            contrast=instructions.contrast,
            previous=None if previous is None else f.models(self.clients, self._of(previous)),
            frozen=instructions.frozen,
            storm=storm and storm.map(lambda values: f.full(values[self.index]).clone()),
            rates=self.cohort.rates,
            average=self._average(step_offset if instructions.offset_first else None),
        )

    def _average(self, shift: Tensor | None) -> Average | None:
        """The average of these clients' parameters, moved by the `shift` of the rows to train."""
        average = self.cohort.f.open_average(self.clients)
        if average is not None and shift is not None:
            average.rows.add_(shift)
        return average

    def _full(self, values: Tensor | None) -> Tensor | None:
        """A method's `values` for these clients, 0 where a parameter is personal."""
        return None if values is None else self.cohort.f.full(self._of(values))

    def _of(self, values: Tensor) -> Tensor:
        """The rows of a method's `values` for these clients; a single row applies to all."""
        return values if len(values) == 1 else values[self.index]

    def _targets(self, engine: Engine, batches: Tensor) -> Tensor | None:
        f, instructions = self.cohort.f, self.cohort.instructions
        if instructions.term is None:
            return None
        taught = None
        if instructions.teacher is not None:
            teachers = f.models(self.clients, self._of(instructions.teacher))
            outputs = torch.stack(engine.predict(teachers, list(batches.flatten(1))))
            taught = outputs.unflatten(1, batches.shape[1:])
        own = f.client_data.targets(batches)
        return f.client_data.task.taught(instructions.term, taught, own, self.clients)

    def take(self, task: LocalTask, losses: Tensor) -> None:
        """Store the trained models, and the mean losses (n,)."""
        cohort, f, instructions = self.cohort, self.cohort.f, self.cohort.instructions
        cohort.losses[self.index] = losses
        if not cohort.stay:
            return
        trained, steps, average = task.rows, cohort.steps[self.index], task.average
        shift: Tensor | float = 0.0
        if instructions.step_offset is not None and instructions.offset_first:
            shift = f.full(self._of(instructions.step_offset))
            trained = trained - shift
        if average is not None:
            f.keep_average(self.clients, average.rows - shift, steps)
        f.local[self.clients] = trained
        f.keep_moments(self.clients, task.state, steps)
        columns = f.columns
        torch.sub(trained[:, columns], self.start[:, columns], out=cohort.update[self.index])
        if cohort.gradients is not None:
            if task.gradients is not None:
                means = task.gradients / steps[:, None]
            else:
                first = cohort.most if cohort.has_equal_steps else steps
                means = f.client_data.gradients(self.start, self.clients, cohort.t, first)
            cohort.gradients[self.index] = means[:, columns]
        if cohort.storm is not None and task.storm is not None:
            cohort.storm.momentum[self.index] = task.storm.momentum[:, columns]
            cohort.storm.square[self.index] = task.storm.square[:, columns]

    def run(self, engine: Engine) -> None:
        """Let the method's routine train these clients, and store the results."""
        cohort, f, columns = self.cohort, self.cohort.f, self.cohort.f.columns
        routine = cohort.instructions.routine
        assert routine is not None
        start = f.models(self.clients, self._of(cohort.instructions.start))
        session = Session(f, engine, cohort.t, self.clients, start, routine.minibatches)
        trained = routine.run(session)
        cohort.losses[self.index] = session.loss
        cohort.steps[self.index] = session.steps
        if not cohort.stay:
            return
        f.local[self.clients] = trained.rows
        shared = trained.rows[:, columns] if trained.shared is None else trained.shared
        torch.sub(shared, start[:, columns], out=cohort.update[self.index])
        for name, rows in trained.kept.items():
            getattr(f.state, name)[self.clients] = rows


def train_cohorts(cohorts: Iterable[Cohort], engine: Engine) -> Iterator[Cohort]:
    """Train the clients of `cohorts`; yield each cohort when its last client is done."""
    for block in _blocks(cohorts, engine.block):
        _train(block, engine)
        yield from (part.cohort for part in block if part.is_last)


def _blocks(cohorts: Iterable[Cohort], most: int) -> Iterator[list[_Part]]:
    """The clients of `cohorts` in blocks of at most `most` models that can train together.

    A cohort begins only when there is room for it, so that few are in memory at once. Clients with
    a routine train beside those of their own cohort only.
    """
    waiting: dict[tuple[object, ...], list[_Part]] = {}
    for cohort in cohorts:
        parts = waiting.setdefault(cohort.kind, [])
        first, clients = 0, len(cohort.clients)
        if cohort.instructions.routine is not None:
            for first in range(0, clients, most):
                yield [_Part(cohort, slice(first, min(first + most, clients)))]
            continue
        while first < clients:
            end = min(clients, first + most - sum(map(len, parts)))
            parts.append(_Part(cohort, slice(first, end)))
            first = end
            if sum(map(len, parts)) == most:
                yield parts.copy()
                parts.clear()
    yield from filter(None, waiting.values())


def _train(parts: list[_Part], engine: Engine) -> None:
    """Train the models of some parts as one stack."""
    if parts[0].cohort.instructions.routine is not None:
        parts[0].run(engine)
        return
    task = LocalTask.concat([part.task(engine) for part in parts])
    losses = engine.train(task)
    first = 0
    for part in parts:
        rows = slice(first, first + len(part))
        part.take(task.select(rows), losses[rows])
        first = rows.stop
