"""The clients' side of a round: the method's instructions, and how the clients train.

The models of many cohorts, of one or several federations, train together in blocks: small enough
for memory, large enough to use every core.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.config.channel import FEWEST_MASKED
from plfl.federated.federation import Federation
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.federated.secure.updates import Crowd, UpdateGrid
from plfl.federated.session import Session
from plfl.training.work import Engine, LocalWork, Minibatches, StepChanges, TrackedRows

log = logging.getLogger(__name__)


class Cohort:
    """The clients of one federation that train at the same time, by the `instructions` of a round.
    Of clients that drop out (`are_staying` is False), only time and received bytes count."""

    def __init__(
        self,
        f: Federation,
        t: int,
        clients: Tensor,
        are_staying: bool,
        instructions: TrainInstructions,
    ):
        self.f, self.t, self.clients, self.are_staying = f, t, clients, are_staying
        self.instructions, data = instructions, f.client_data
        self.has_equal_steps = instructions.steps is None and data.has_equal_steps
        steps = (
            data.steps(clients)
            if instructions.steps is None
            else torch.as_tensor(instructions.steps)
        )
        self.steps = steps.to(clients.device).expand(len(clients)) - instructions.skip
        self.most_steps = int(self.steps.max())
        self.objective = data.task.objective(data.settings.loss, instructions.term)
        # What the clients have after their steps, filled in slice by slice.
        width = (len(clients), f.channel.shared_count if are_staying else 0)
        self.losses = torch.zeros(len(clients), dtype=torch.float64, device=clients.device)
        self.update = f.initial.new_empty(width)
        self.gradients = None if instructions.gradients == "none" else f.initial.new_empty(width)

    @property
    def kind(self) -> tuple[object, ...]:
        """A key that is equal for cohorts whose models can train as one stack."""
        instructions, f = self.instructions, self.f
        keeps = f.moments.mode != "reset"
        pulls = instructions.pulls or bool(f.client_opt.proximal)
        conditions = (
            f.shared_mask if keeps or pulls else None,
            instructions.frozen,
            instructions.pull,
        )
        per_client = (instructions.constant, instructions.step_offset, instructions.term)
        return (
            f.client_opt,
            f.moments.mode == "reset",
            *map(_by_value, conditions),
            *(values is not None for values in per_client),
            instructions.offset_first,
            self.has_equal_steps,
            self.objective,
            instructions.gradients,
            self.most_steps,
        )

    @property
    def steps_taken(self) -> NDArray[np.float64]:
        """Local steps (n,) that the clients took, including those that the method took itself."""
        steps_asked = (self.steps + self.instructions.skip).cpu().double().numpy()
        progress = self.f.clock.share_before_dropout(self.t)[self.clients.cpu().numpy()]
        return np.asarray(steps_asked * progress, dtype=np.float64)

    def close(self) -> None:
        """Report the clients' work to the clock and their results to the method."""
        instructions, clients = self.instructions, self.clients.cpu().numpy()
        work_before = torch.as_tensor(instructions.before).cpu().numpy()
        self.f.clock.charge_work(
            clients, work_before + self.steps_taken * instructions.work_per_step
        )
        if self.are_staying:
            result = TrainResult(instructions, self.steps, self.update, self.gradients)
            aggregate(self.f, self.t, self.clients, result)


def broadcast(f: Federation, t: int, clients: Tensor) -> TrainInstructions:
    """What `clients` (n,) do in round `t`, after the server has sent them what they need."""
    if not f.channel.shared_count:
        return f.method.without_server(f, clients) or TrainInstructions(f.x0[None])
    if f.channel.coder is not None:
        f.channel.coder.begin(t)
    return f.method.broadcast(f, f.state, t, clients)


def aggregate(f: Federation, t: int, clients: Tensor, result: TrainResult) -> None:
    """Let `clients` (n,) send the `result` of round `t`, and the server step."""
    if f.adds_masked and f.channel.shared_count:
        _aggregate_masked(f, t, clients, result.update)
    elif f.privacy is not None:
        f.privacy.aggregate(f.channel, f.server, t, clients, result.update)
    elif f.channel.shared_count:
        f.method.aggregate(f, f.state, t, clients, result)


def _aggregate_masked(f: Federation, t: int, clients: Tensor, updates: Tensor) -> None:
    """Let `clients` (n,) send their `updates` (n, d_s), masked, and the server step along the mean
    of those whose numbers arrive."""
    private, indices = f.privacy, clients.tolist()
    if f.channel.count_exchanging(indices) < FEWEST_MASKED:
        log.info("round %d: fewer than %d clients are left", t, FEWEST_MASKED)
        return
    grid = UpdateGrid(None if private is None else private.noise_of_sum(t, f.client_data.names))
    if private is not None:
        updates = private.clip_own(clients, updates)
    weights = f.client_weights

    def numbers(crowd: Crowd) -> NDArray[np.int64]:
        random = f.client_data.streams("secure/rounding", indices, t)
        client_arrays = updates.detach().cpu().double().numpy(), weights[clients].cpu().numpy()
        return grid.round(crowd, indices, *client_arrays, random)

    all_weights = float(weights.nansum())
    masked_sum = f.channel.add_masked(f"update/{t}", clients, all_weights, numbers, len(f.x0))
    weight = float(weights[masked_sum.clients].sum()) if private is None else private.participants
    f.server.step(grid.mean(masked_sum.crowd, masked_sum.numbers, weight).to(f.server.x))


def _by_value(values: Tensor | float | None) -> bytes | float | None:
    """A key that is equal for equal values, even if they are in different tensors."""
    return values.cpu().numpy().tobytes() if isinstance(values, Tensor) else values


class _CohortSlice:
    """Some of the clients of a cohort, which train in one block."""

    def __init__(self, cohort: Cohort, index: slice):
        self.cohort, self.index = cohort, index
        self.f, self.instructions = cohort.f, cohort.instructions
        self.clients = cohort.clients[index]

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def is_last(self) -> bool:
        """Whether it holds the last clients of its cohort."""
        return bool(self.index.stop == len(self.cohort.clients))

    @cached_property
    def start(self) -> Tensor:
        """The models (n, P) that the clients begin with."""
        return self.f.models(self.clients, self._rows_of(self.instructions.start))

    def make_work(self, engine: Engine) -> LocalWork:
        """The work of these clients, according to the method's instructions."""
        f, cohort, instructions = self.f, self.cohort, self.instructions
        average = f.average and f.average.map(lambda rows: rows[self.clients])
        summed = torch.zeros_like(self.start) if instructions.gradients == "steps" else None
        work = LocalWork(
            optimiser=f.client_opt,
            rows=self.start.clone(),
            minibatches=self._minibatches(engine),
            moments=f.moments.copy_of(self.clients, f.shared_mask),
            shared_mask=f.shared_mask,
            objective=cohort.objective,
            clip=f.settings.clip,
            steps=None if cohort.has_equal_steps else cohort.steps[self.index],
            changes=self._changes(),
            tracked_rows=TrackedRows(average, summed),
        )
        return _with_offset_first(work) if instructions.offset_first else work

    def _minibatches(self, engine: Engine) -> Minibatches:
        """The minibatches of the round, without the first ones that the method skips."""
        skip, cohort = self.instructions.skip, self.cohort
        minibatches = self.f.client_data.minibatches(
            self.clients, cohort.t, skip + cohort.most_steps
        )
        used_minibatches = minibatches.map(lambda x: x[:, skip:])
        return replace(used_minibatches, targets=self._targets(engine, used_minibatches.starts))

    def _changes(self) -> StepChanges:
        """The terms of the instructions, as values of all P parameters."""
        f, instructions = self.f, self.instructions
        return StepChanges(
            pull=f.full(instructions.pull * torch.ones_like(f.x0)) if instructions.pulls else None,
            constant=self._full(instructions.constant),
            step_offset=self._full(instructions.step_offset),
            frozen=instructions.frozen,
        )

    def _rows_of(self, values: Tensor) -> Tensor:
        """The rows of a method's `values` for these clients; a single row applies to all."""
        return values if len(values) == 1 else values[self.index]

    def _full(self, values: Tensor | None) -> Tensor | None:
        """A method's `values` for these clients, 0 where a parameter is personal."""
        return None if values is None else self.f.full(self._rows_of(values))

    def _targets(self, engine: Engine, starts: Tensor) -> Tensor | None:
        """Targets in place of those of the windows, if a term asks for them."""
        f, instructions = self.f, self.instructions
        if instructions.term is None:
            return None
        teacher_outputs = None
        if instructions.teacher is not None:
            teachers = f.models(self.clients, self._rows_of(instructions.teacher))
            outputs = torch.stack(engine.predict(teachers, list(starts.flatten(1))))
            teacher_outputs = outputs.unflatten(1, starts.shape[1:])
        targets = f.client_data.targets(starts)
        return f.client_data.task.mix_teacher(
            instructions.term, teacher_outputs, targets, self.clients
        )

    def take(self, work: LocalWork, losses: Tensor) -> None:
        """Store what the clients have after the `work`, and their mean losses (n,)."""
        cohort, f, rows = self.cohort, self.f, self.index
        cohort.losses[rows] = losses
        if not cohort.are_staying:
            return
        if self.instructions.offset_first:
            _shift(work, -1)
        steps, average = cohort.steps[rows], work.tracked_rows.average
        self._keep(work.rows, work.rows[:, f.columns])
        f.moments.keep(self.clients, work.moments.state, steps)
        if f.average and average:
            f.average.rows[self.clients] = average.rows
            f.average.steps[self.clients] += steps[:, None]
        if cohort.gradients is not None:
            cohort.gradients[rows] = self._gradients(work)[:, f.columns]

    def _gradients(self, work: LocalWork) -> Tensor:
        """Mean gradients (n, P): of the steps of the `work`, or else all at the start."""
        cohort, steps = self.cohort, self.cohort.steps[self.index]
        if work.tracked_rows.gradients is not None:
            return work.tracked_rows.gradients / steps[:, None]
        first = cohort.most_steps if cohort.has_equal_steps else steps
        skip = self.instructions.skip
        return self.f.client_data.gradients(self.start, self.clients, cohort.t, first, skip)

    def _keep(self, rows: Tensor, shared_values: Tensor) -> None:
        """Keep the models `rows` (n, P), and the change to their `shared_values` (n, d_s)."""
        self.f.local[self.clients] = rows
        start_values = self.start[:, self.f.columns]
        torch.sub(shared_values, start_values, out=self.cohort.update[self.index])

    def run(self, engine: Engine) -> None:
        """Let the method's routine train these clients, and store the results."""
        cohort, f, routine = self.cohort, self.f, self.instructions.routine
        assert routine is not None
        session = Session(
            f,
            engine,
            cohort.t,
            self.clients,
            self.start,
            routine.minibatches,
            self.index,
            cohort.are_staying,
        )
        result = routine.run(session)
        cohort.losses[self.index] = session.loss
        cohort.steps[self.index] = session.steps
        if not cohort.are_staying:
            return
        shared_values = result.shared_values
        self._keep(
            result.rows, result.rows[:, f.columns] if shared_values is None else shared_values
        )
        for name, rows in result.kept.items():
            getattr(f.state, name)[self.clients] = rows


def _with_offset_first(work: LocalWork) -> LocalWork:
    """The same work, with each step's offset added before the step although engines add it
    afterwards.

    The models start at y + offset, so each gradient is taken at a shifted point. The offset after
    the last step is one too many: `take` subtracts it. A constant corrects the terms that pull
    towards the start, because the start has moved by the offset.
    """
    offset, pull, constant = work.changes.step_offset, work.changes.pull, work.changes.constant
    assert offset is not None
    _shift(work, 1)
    pulls = work.optimiser.proximal * work.shared_mask.to(work.rows.dtype)
    pulls = pulls if pull is None else pulls + pull
    if not pulls.any():
        return work
    pull_back = pulls * offset
    return work.with_changes(constant=pull_back if constant is None else constant + pull_back)


def _shift(work: LocalWork, times: int) -> None:
    """Add `times` offsets of a step to the models and to their averages."""
    offset, average = work.changes.step_offset, work.tracked_rows.average
    assert offset is not None
    work.rows.add_(offset, alpha=times)
    if average is not None:
        average.rows.add_(offset, alpha=times)


def train_cohorts(cohorts: Iterable[Cohort], engine: Engine) -> Iterator[Cohort]:
    """Train the clients of `cohorts`; yield each cohort when its last client is done."""
    for block in _blocks(cohorts, engine):
        _train(block, engine)
        yield from (cohort_slice.cohort for cohort_slice in block if cohort_slice.is_last)


def _blocks(cohorts: Iterable[Cohort], engine: Engine) -> Iterator[list[_CohortSlice]]:
    """The clients of `cohorts` in blocks of models that can train together, each as large as the
    engine can take. A cohort begins only when there is room for it, so that few are in memory at
    once. Clients with a routine train only together with those of their own cohort."""
    waiting: dict[tuple[object, ...], tuple[int, list[_CohortSlice]]] = {}
    for cohort in cohorts:
        routine = cohort.instructions.routine
        if routine is not None and routine.trains_together:
            yield [_CohortSlice(cohort, slice(len(cohort.clients)))]
            continue
        if (kind := cohort.kind) not in waiting:
            waiting[kind] = (
                engine.most_models(partial(_CohortSlice(cohort, slice(1)).make_work, engine)),
                [],
            )
        capacity, cohort_slices = waiting[kind]
        first, clients = 0, len(cohort.clients)
        if routine is not None:
            for first in range(0, clients, capacity):
                yield [_CohortSlice(cohort, slice(first, min(first + capacity, clients)))]
            continue
        while first < clients:
            end = min(clients, first + capacity - sum(map(len, cohort_slices)))
            cohort_slices.append(_CohortSlice(cohort, slice(first, end)))
            first = end
            if sum(map(len, cohort_slices)) == capacity:
                yield cohort_slices.copy()
                cohort_slices.clear()
    yield from (cohort_slices for _, cohort_slices in waiting.values() if cohort_slices)


def _train(cohort_slices: list[_CohortSlice], engine: Engine) -> None:
    """Train the models of some slices as one stack."""
    if cohort_slices[0].cohort.instructions.routine is not None:
        cohort_slices[0].run(engine)
        return
    work = LocalWork.concat([cohort_slice.make_work(engine) for cohort_slice in cohort_slices])
    losses = engine.train(work)
    first = 0
    for cohort_slice in cohort_slices:
        rows = slice(first, first + len(cohort_slice))
        cohort_slice.take(work.select(rows), losses[rows])
        first = rows.stop
