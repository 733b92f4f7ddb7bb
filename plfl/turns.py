"""The clients' side of a round: what a method asks of some of them, and how they train.

The models of many turns, of one federation and of others, train together in blocks: few enough to
stay in memory, enough for every core.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from plfl.methods import Done, Local
from plfl.training import Engine, LocalTask

if TYPE_CHECKING:
    from plfl.federation import Federation
    from plfl.study import Federation as Settings


class Turn:
    """The clients of one federation that train at the same time.

    Of those that drop out nothing remains but what they were sent and the time it took.
    """

    def __init__(self, f: "Federation", t: int, clients: Tensor, settings: "Settings", stay: bool):
        self.f, self.t, self.clients, self.stay = f, t, clients, stay
        self.local = f.method.down(f, t, clients) if f.channel.shared else Local(f.x0[None])
        steps = self.local.steps
        full = torch.full((len(clients),), settings.local_steps, device=clients.device)
        self.steps = (full if steps is None else steps) - self.local.skip
        self.most = int(self.steps.max())
        self.losses = torch.zeros(len(clients), dtype=torch.float64, device=clients.device)
        width = (len(clients), f.channel.shared if stay else 0)
        self.displacement = f.initial.new_empty(width)
        self.gradients = None if self.local.gradients == "none" else f.initial.new_empty(width)
        recursion = self.local.recursion
        self.recursion = recursion and recursion.map(torch.clone)

    @property
    def kind(self) -> tuple[object, ...]:
        """What turns that train together have in common."""
        local, f = self.local, self.f
        pull = local.pull if isinstance(local.pull, float) else local.pull.cpu().numpy().tobytes()
        given = (local.constant, local.displacement, local.steps, local.retarget)
        terms = (local.displaced_first, *(x is not None for x in given))
        mask = f.shared.cpu().numpy().tobytes()
        loss = (local.loss_scale, local.contrast, local.gradients)
        recursion = local.recursion and (local.recursion.a, local.recursion.beta)
        return (f.client_opt, mask, pull, *terms, *loss, recursion, self.most)

    def close(self) -> None:
        """Hand what the clients did to the method."""
        clients = self.clients.cpu().numpy()
        steps = (self.steps + self.local.skip).cpu().double().numpy()
        self.f.clock.work(clients, steps * self.f.clock.progress(self.t)[clients])
        if self.stay and self.f.channel.shared:
            done = Done(self.local, self.steps, self.displacement, self.gradients, self.recursion)
            self.f.method.up(self.f, self.t, self.clients, done)


class _Part:
    """Some of the clients of a turn, while they train."""

    def __init__(self, turn: Turn, index: slice):
        self.turn, self.index = turn, index
        self.clients = turn.clients[index]

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def is_last(self) -> bool:
        """Whether its turn ends with it."""
        return bool(self.index.stop == len(self.turn.clients))

    def terms(self, engine: Engine) -> dict[str, Tensor | None]:
        """The clients' models, their optimisers' state and the method's terms for all of it."""
        f, local, steps = self.turn.f, self.turn.local, self.turn.steps[self.index]
        self.start = f.models(self.clients, self._of(local.start))
        self.state, behind = f.open_moments(self.clients)
        self.recursion = local.recursion and local.recursion.map(lambda x: f.full(x[self.index]))
        skip = local.skip
        batches = f.fleet.minibatches(self.clients, self.turn.t, skip + self.turn.most)[:, skip:]
        rows = self.start.clone()
        constant, displacement = (
            None if x is None else f.full(self._of(x)) for x in (local.constant, local.displacement)
        )
        if displacement is not None and local.displaced_first:
            # Displacing first is displacing last from a displaced start. Terms that draw to the
            # start still mean where it was.
            rows += displacement
            drawn = local.pull + f.client_opt.proximal
            if isinstance(drawn, Tensor) or drawn:
                back = f.full(drawn * torch.ones_like(f.x0)) * displacement
                constant = back if constant is None else constant + back
        previous = None if local.previous is None else self._of(local.previous)
        return {
            "rows": rows,
            "batches": batches,
            "constant": constant,
            "displacement": displacement,
            "steps": None if local.steps is None else steps,
            "steps_taken": behind,
            "targets": self._targets(engine, batches),
            "previous": None if previous is None else f.models(self.clients, previous),
            "gradients": torch.zeros_like(rows) if local.gradients == "steps" else None,
        }

    def _of(self, values: Tensor) -> Tensor:
        """Those of a method's `values` that are for these clients; a single row is for all."""
        return values if len(values) == 1 else values[self.index]

    def _targets(self, engine: Engine, batches: Tensor) -> Tensor | None:
        f, local = self.turn.f, self.turn.local
        if local.retarget is None or local.teacher is None:
            return None
        teachers = f.models(self.clients, self._of(local.teacher))
        taught = torch.stack(engine.predict(teachers, list(batches.flatten(1)))).view(batches.shape)
        return local.retarget(taught, f.fleet.targets(batches), self.clients)

    def take(self, task: LocalTask, index: slice, losses: Tensor) -> None:
        """Take back what was trained as the rows `index` of a task."""
        turn, f, local = self.turn, self.turn.f, self.turn.local
        turn.losses[self.index] = losses[index]
        if not turn.stay:
            return
        trained, steps = task.rows[index], turn.steps[self.index]
        if local.displacement is not None and local.displaced_first:
            trained = trained - f.full(self._of(local.displacement))
        f.local[self.clients] = trained
        f.keep_moments(self.clients, {n: r[index] for n, r in task.state.items()}, steps)
        columns = f.columns
        torch.sub(trained[:, columns], self.start[:, columns], out=turn.displacement[self.index])
        if turn.gradients is not None:
            if task.gradients is not None:
                means = task.gradients[index] / steps[:, None]
            else:
                means = f.fleet.gradients(self.start, self.clients, turn.t, turn.most)
            turn.gradients[self.index] = means[:, columns]
        if turn.recursion is not None and task.recursion is not None:
            turn.recursion.momentum[self.index] = task.recursion.momentum[index, columns]
            turn.recursion.square[self.index] = task.recursion.square[index, columns]


def train_turns(turns: Iterable[Turn], engine: Engine) -> Iterator[Turn]:
    """Train the clients of `turns`, and yield every turn when its last client is done."""
    for block in _blocks(turns, engine.block):
        _train(block, engine)
        yield from (part.turn for part in block if part.is_last)


def _blocks(turns: Iterable[Turn], most: int) -> Iterator[list[_Part]]:
    """The clients of `turns` in blocks of at most `most` models that can train together.

    A turn begins only when there is room for it, so that few are in memory at a time.
    """
    waiting: dict[tuple[object, ...], list[_Part]] = {}
    for turn in turns:
        parts = waiting.setdefault(turn.kind, [])
        first, clients = 0, len(turn.clients)
        while first < clients:
            end = min(clients, first + most - sum(map(len, parts)))
            parts.append(_Part(turn, slice(first, end)))
            first = end
            if sum(map(len, parts)) == most:
                yield parts.copy()
                parts.clear()
    yield from filter(None, waiting.values())


def _train(parts: list[_Part], engine: Engine) -> None:
    """Train the models of some parts as one stack."""
    f, local = parts[0].turn.f, parts[0].turn.local
    terms = [part.terms(engine) for part in parts]
    joined = {name: _joined([t[name] for t in terms]) for name in terms[0]}
    recursions = [part.recursion for part in parts if part.recursion is not None]
    task = LocalTask(
        optimiser=f.client_opt,
        shared=f.shared,
        state={name: _joined([p.state[name] for p in parts]) for name in parts[0].state},  # type: ignore[misc]
        pull=None if isinstance(local.pull, float) and not local.pull else _pull(f, local),
        loss_scale=local.loss_scale,
        contrast=local.contrast,
        recursion=None if not recursions else recursions[0].map(_cat, *recursions[1:]),
        **joined,  # type: ignore[arg-type]
    )
    losses = engine.train(task)
    first = 0
    for part in parts:
        part.take(task, slice(first, first + len(part)), losses)
        first += len(part)


def _joined(rows: list[Tensor | None]) -> Tensor | None:
    """The rows of all, of which there are some for each or for none."""
    return rows[0] if len(rows) == 1 or rows[0] is None else torch.cat(rows)  # type: ignore[arg-type]


def _cat(*rows: Tensor) -> Tensor:
    return torch.cat(rows)


def _pull(f: "Federation", local: Local) -> Tensor:
    return f.full(local.pull * torch.ones_like(f.x0))
