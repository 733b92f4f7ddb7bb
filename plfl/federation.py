"""The round: parameters go down, clients train, displacements come up, the server steps.

What exactly goes down and comes up, and how the server steps, is the method's. Many federations
(cells) of one fleet run side by side, so that an engine can train the models of all of them
together. None of them knows of the others.
"""

import itertools
from collections.abc import Callable
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
from plfl.methods import Method
from plfl.servers import ServerOpt
from plfl.study import Federation as Settings
from plfl.study import Simulation
from plfl.training import Engine, batches
from plfl.turns import Turn, train_turns


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
        if values.shape[-1:] == self.shared.shape:
            return values
        rows = values.new_zeros(*values.shape[:-1], len(self.shared))
        rows[..., self.columns] = values
        return rows

    def open_moments(self, present: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Optimiser state of the clients `present` for a round, and the steps it has behind it."""
        steps = self.steps[present]
        if self.opt_state == "reset":
            return self.client_opt.init(self.local[: len(present)]), steps
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


def _columns(mask: Tensor) -> slice | Tensor:
    """The columns of `mask` as an index."""
    found = mask.nonzero()[:, 0]
    if not len(found):
        return slice(0)
    first, end = int(found[0]), int(found[-1]) + 1
    return slice(first, end) if end - first == len(found) else found
