"""The round: parameters go down, clients train, displacements come up, the server steps.

What exactly goes down and comes up, and how the server steps, is the method's. Many federations
(cells) of one fleet run side by side, so that an engine can train the models of all of them
together. None of them knows of the others.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.channel import Channel
from plfl.clients import ClientOpt
from plfl.clock import Clock, Times
from plfl.fleet import Fleet
from plfl.forecaster import ParameterLayout
from plfl.methods import Done, Local, Method
from plfl.servers import ServerOpt
from plfl.study import Federation as Settings
from plfl.study import Simulation
from plfl.training import Engine, LocalTask, batches


@dataclass(eq=False)
class Federation:
    """One cell while it runs: N clients around one server."""

    method: Method
    client_opt: ClientOpt
    server_opt: ServerOpt
    split: Tensor
    """Mask (P,) of the parameters that the study shares."""
    seed: int
    initial: Tensor
    """Parameters (P,) that the server and every client start from."""
    fleet: Fleet
    """The clients' data, as far as a method may ask the clients about them."""
    weighting: str
    """What a client weighs in the server's mean: the same as any other, or its training windows."""
    opt_state: str
    """What becomes of the local optimisers' state between rounds (`federation.opt_state`)."""

    draw: Callable[[int], Tensor]
    """Initial parameters (P,) of any seed."""
    layout: ParameterLayout
    """Which of the P parameters is which."""
    simulation: Simulation = field(default_factory=Simulation)
    """Who can be reached, who drops out, and how fast clients and links are."""

    clock: Clock = field(init=False)
    shared: Tensor = field(init=False)
    """Mask (P,) of the parameters that go through the channel: the split, but for an audit."""
    columns: slice | Tensor = field(init=False)
    """Those parameters as an index of columns; a slice, which copies nothing, where they adjoin."""
    local: Tensor = field(init=False)
    """Models (N, P) as the clients last left them; a personal part is nowhere else."""
    channel: Channel = field(init=False)
    server_state: dict[str, Tensor] = field(init=False)
    memory: dict[str, Tensor] = field(init=False, default_factory=dict)
    """What the method keeps: a row for each client, or what the server has."""
    moments: dict[str, Tensor] = field(init=False, default_factory=dict)
    steps: Tensor = field(init=False)
    """Local steps (N, 1) that each client's kept moments have behind them."""

    def __post_init__(self) -> None:
        clients = len(self.fleet.names)
        self.clock = Clock(self.simulation, self.fleet)
        self.shared = self.method.crosses(self.split)
        self.columns = _columns(self.shared)
        self.local = self.initial.expand(clients, -1).clone()
        self.channel = Channel(int(self.shared.sum()), clients)
        self.server_state = self.server_opt.init(self.x0, clients)
        self.steps = torch.zeros(clients, 1, device=self.initial.device).double()
        if self.opt_state != "reset":
            self.moments = self.client_opt.init(self.local)
        if self.channel.shared:
            self.method.begin(self)

    @property
    def x0(self) -> Tensor:
        """Shared parameters (d_s,) that the server starts from."""
        return self.initial[self.columns]

    @property
    def everyone(self) -> Tensor:
        """Indices (N,) of all clients."""
        return torch.arange(len(self.local), device=self.local.device)

    def weights_of(self, clients: Tensor) -> Tensor:
        """Weights (n,) of `clients` in a mean over them; they sum to one."""
        windows = self.fleet.windows[clients]
        weights = windows if self.weighting == "samples" else torch.ones_like(windows)
        return weights / weights.sum()

    def models(self, clients: Tensor, shared: Tensor) -> Tensor:
        """Models (n, P) of `clients`: the given shared part (n, d_s) and their own personal one."""
        rows = self.local[clients]
        if self.channel.shared:
            rows[:, self.columns] = shared
        return rows

    def full(self, values: "Tensor | float") -> Tensor:
        """Numbers for the shared parameters, (d_s,) or (n, d_s), as such for all: 0 elsewhere."""
        values = torch.as_tensor(values, dtype=self.initial.dtype, device=self.initial.device)
        rows = values.new_zeros(*values.shape[:-1], len(self.shared))
        rows[..., self.columns] = values
        return rows

    def open_moments(self, present: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Optimiser state of the clients `present` for a round, and the steps it has behind it."""
        steps = self.steps[present]
        if self.opt_state == "reset":
            return self.client_opt.init(self.local[present]), steps
        state = {name: rows[present] for name, rows in self.moments.items()}
        if self.opt_state == "keep_personal":
            for rows in state.values():
                rows[:, self.columns] = 0
            steps = torch.where(self.shared, 0, steps)
        return state, steps

    def keep_moments(self, present: Tensor, state: dict[str, Tensor], steps: Tensor) -> None:
        """Keep the optimiser state of the clients `present` after `steps` (n,) further steps."""
        if self.opt_state != "reset":
            self.steps[present] += steps[:, None]
            for name, rows in self.moments.items():
                rows[present] = state[name]

    @property
    def global_models(self) -> Tensor:
        """What each client would hold if it asked the server now, [x; p_i]: (N, P)."""
        if not self.channel.shared:
            return self.local.clone()
        return self.models(self.everyone, self.method.held(self))


@dataclass(frozen=True)
class Round:
    """What a finished round leaves for the records."""

    t: int
    present: list[NDArray[np.int64]]
    """Clients that took part in each federation."""
    losses: list[NDArray[np.float64]]
    """Mean minibatch loss (n,) of the participants of each federation."""
    bytes: list[dict[str, NDArray[np.int64]]]
    """Bytes (N,) by kind, for each federation."""
    times: list[Times]
    """Simulated seconds of each federation."""


def run(
    federations: list[Federation],
    engine: Engine,
    settings: Settings,
    rounds: range,
    report: Callable[[Round], None],
) -> None:
    """Run some `rounds` of `federations`, reporting each one."""
    alike = _alike(federations)
    for t in rounds:
        present = [present_in(f, t, settings) for f in federations]
        turns = [cycles_of(f, t, p) for f, p in zip(federations, present, strict=True)]
        losses = {f: torch.zeros(len(f.local), dtype=torch.float64) for f in federations}
        for cycle, indices in itertools.product(range(max(map(len, turns))), alike):
            cells = [i for i in indices if cycle < len(turns[i])]
            begun = (
                Turn(federations[i], t, clients, settings, stay)
                for i in cells
                for clients, stay in _outcomes(federations[i], t, turns[i][cycle])
            )
            for turn in train_turns(begun, engine):
                turn.close()
                losses[turn.f][turn.clients.cpu()] = turn.losses.cpu()
        pages = [f.channel.close_round() for f in federations]
        times = [
            f.clock.close_round(page, [clients.cpu().numpy() for clients in groups])
            for f, page, groups in zip(federations, pages, turns, strict=True)
        ]
        report(
            Round(
                t,
                [p.cpu().numpy() for p in present],
                [losses[f][p.cpu()].numpy() for f, p in zip(federations, present, strict=True)],
                pages,
                times,
            )
        )


def _alike(federations: list[Federation]) -> list[list[int]]:
    """Indices of the federations whose models may train together."""
    kinds: dict[tuple[ClientOpt, bytes], list[int]] = {}
    for i, f in enumerate(federations):
        kinds.setdefault((f.client_opt, f.shared.cpu().numpy().tobytes()), []).append(i)
    return list(kinds.values())


def present_in(f: Federation, t: int, settings: Settings) -> Tensor:
    """Clients (n,) that take part in round `t`."""
    drawn = batches.participants(f.seed, t, f.fleet.names, settings.participation)
    reached = drawn[f.clock.available(t)[drawn]]
    clients = torch.from_numpy(reached).to(f.local.device)
    return f.method.present(f, t, clients) if f.channel.shared else clients


def cycles_of(f: Federation, t: int, present: Tensor) -> list[Tensor]:
    """The clients `present` in the groups that train one after the other in round `t`."""
    grouped = f.channel.shared and len(present)
    return f.method.cycles(f, t, present) if grouped else [present]


def _outcomes(f: Federation, t: int, clients: Tensor) -> list[tuple[Tensor, bool]]:
    """Those of `clients` that drop out of round `t`, then those that stay to its end (True)."""
    stays = torch.from_numpy(f.clock.progress(t) == 1).to(clients.device)[clients]
    split = [(clients[~stays], False), (clients[stays], True)]
    return [(some, stay) for some, stay in split if len(some)]


class Turn:
    """The clients of one federation that train at the same time.

    Of those that drop out nothing remains but what they were sent and the time it took.
    """

    def __init__(self, f: Federation, t: int, clients: Tensor, settings: Settings, stay: bool):
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

    @property
    def kind(self) -> tuple[object, ...]:
        """What turns that train together have in common."""
        local, f = self.local, self.f
        pull = local.pull if isinstance(local.pull, float) else local.pull.cpu().numpy().tobytes()
        given = (local.constant, local.displacement, local.steps, local.retarget)
        terms = (local.displaced_first, *(x is not None for x in given))
        mask = f.shared.cpu().numpy().tobytes()
        loss = (local.loss_scale, local.contrast, local.gradients)
        # Steps of a method's own are those of one federation.
        own = None if local.own_steps is None else f
        return (f.client_opt, mask, pull, *terms, *loss, own, self.most)

    def close(self) -> None:
        """Hand what the clients did to the method."""
        clients = self.clients.cpu().numpy()
        steps = (self.steps + self.local.skip).cpu().double().numpy()
        self.f.clock.work(clients, steps * self.f.clock.progress(self.t)[clients])
        if self.stay and self.f.channel.shared:
            done = Done(self.local, self.steps, self.displacement, self.gradients)
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
        # A start that all have in common comes as one row for each all the same.
        self.start = f.models(self.clients, self._of(local.start))
        self.state, behind = f.open_moments(self.clients)
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
        """Of a method's `values` for the turn those for these clients; one row may be for all."""
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
        turn.displacement[self.index] = trained[:, columns] - self.start[:, columns]
        if turn.gradients is not None:
            if task.gradients is not None:
                means = task.gradients[index] / steps[:, None]
            else:
                means = f.fleet.gradients(self.start, self.clients, turn.t, turn.most)
            turn.gradients[self.index] = means[:, columns]


def _columns(mask: Tensor) -> slice | Tensor:
    """The columns of `mask` as an index."""
    found = mask.nonzero()[:, 0]
    if not len(found):
        return slice(0)
    first, end = int(found[0]), int(found[-1]) + 1
    return slice(first, end) if end - first == len(found) else found


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
    task = LocalTask(
        optimiser=f.client_opt,
        shared=f.shared,
        state={name: _joined([p.state[name] for p in parts]) for name in parts[0].state},  # type: ignore[misc]
        pull=None if isinstance(local.pull, float) and not local.pull else _pull(f, local),
        loss_scale=local.loss_scale,
        contrast=local.contrast,
        **joined,  # type: ignore[arg-type]
    )
    if local.own_steps is None:
        losses = engine.train(task)
    else:
        losses = local.own_steps(task, torch.cat([part.clients for part in parts]))
    first = 0
    for part in parts:
        part.take(task, slice(first, first + len(part)), losses)
        first += len(part)


def _joined(rows: list[Tensor | None]) -> Tensor | None:
    """The rows of all, of which there are some for each or for none."""
    return rows[0] if len(rows) == 1 or rows[0] is None else torch.cat(rows)  # type: ignore[arg-type]


def _pull(f: Federation, local: Local) -> Tensor:
    return f.full(local.pull * torch.ones_like(f.x0))
