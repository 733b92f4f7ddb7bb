"""The round: parameters go down, clients train, displacements come up, the server steps.

Many federations (cells) of one dataset run side by side, so that an engine can train the models of
all of them together. None of them knows of the others.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.channel import Channel
from plfl.clients import ClientOpt
from plfl.data.windows import Dataset
from plfl.errors import DataError
from plfl.servers import ServerOpt
from plfl.study import Federation as Settings
from plfl.training import Engine, LocalTask, batches


@dataclass
class Federation:
    """One cell while it runs: N clients around one server."""

    client_opt: ClientOpt
    server_opt: ServerOpt
    shared: Tensor
    """Mask (P,) of the parameters that are shared through the server."""
    seed: int
    initial: Tensor
    """Parameters (P,) that the server and every client start from."""
    weights: Tensor
    """Weight (N,) of each client in the server's mean; those present share the whole."""
    opt_state: str
    """What becomes of the local optimisers' state between rounds (`federation.opt_state`)."""

    local: Tensor = field(init=False)
    """Models (N, P) as the clients last left them; a personal part is nowhere else."""
    channel: Channel = field(init=False)
    server_state: dict[str, Tensor] = field(init=False)
    moments: dict[str, Tensor] = field(init=False, default_factory=dict)
    steps: Tensor = field(init=False)
    """Local steps (N, 1) that each client's kept moments have behind them."""

    def __post_init__(self) -> None:
        clients = len(self.weights)
        self.local = self.initial.expand(clients, -1).clone()
        self.channel = Channel(int(self.shared.sum()), clients)
        self.server_state = self.server_opt.init(self.initial[self.shared], clients)
        self.steps = torch.zeros(clients, 1, device=self.initial.device).double()
        if self.opt_state != "reset":
            self.moments = self.client_opt.init(self.local)

    def open_round(self, present: Tensor) -> Tensor:
        """Send the shared parameters to the clients `present` (n,); returns their models (n, P)."""
        rows = self.local[present]
        if self.channel.shared:
            x = self.server_opt.send(self.server_state, present)
            rows[:, self.shared] = self.channel.send("down", present, x)
        return rows

    def open_moments(self, present: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Optimiser state of the clients `present` for a round, and the steps it has behind it."""
        steps = self.steps[present]
        if self.opt_state == "reset":
            return self.client_opt.init(self.local[present]), steps
        state = {name: rows[present] for name, rows in self.moments.items()}
        if self.opt_state == "keep_personal":
            for rows in state.values():
                rows[:, self.shared] = 0
            steps = torch.where(self.shared, 0, steps)
        return state, steps

    def close_round(
        self,
        t: int,
        present: Tensor,
        start: Tensor,
        trained: Tensor,
        state: dict[str, Tensor],
        steps: int,
    ) -> None:
        """Take back the models (n, P), `steps` steps from `start`, and let the server step."""
        self.local[present] = trained
        if self.opt_state != "reset":
            self.steps[present] += steps
            for name, rows in self.moments.items():
                rows[present] = state[name]
        if self.channel.shared:
            D = self.channel.send("up", present, trained[:, self.shared] - start[:, self.shared])
            weights = self.weights[present]
            self.server_opt.receive(self.server_state, present, D, weights / weights.sum(), t)

    @property
    def global_models(self) -> Tensor:
        """What each client would hold if it asked the server now, [x; p_i]: (N, P)."""
        rows = self.local.clone()
        if self.channel.shared:
            everyone = torch.arange(len(rows), device=rows.device)
            rows[:, self.shared] = self.server_opt.send(self.server_state, everyone)
        return rows


@dataclass(frozen=True)
class Round:
    """What a finished round leaves for the records."""

    t: int
    present: dict[int, NDArray[np.int64]]
    """Clients that took part, by seed."""
    losses: list[NDArray[np.float64]]
    """Mean minibatch loss (n,) of the participants of each federation."""
    bytes: list[dict[str, NDArray[np.int64]]]
    """Bytes (N,) by kind, for each federation."""


def run(
    federations: list[Federation],
    dataset: Dataset,
    engine: Engine,
    settings: Settings,
    report: Callable[[Round], None],
) -> None:
    """Run all rounds of `federations` on `dataset`, calling `report` after each one.

    Raises:
        DataError: a client has fewer training windows than a minibatch.
    """
    names = dataset.clients.tolist()
    train = [dataset.starts(i, "train") for i in range(len(names))]
    pick = {"draw": batches.draw, "epoch": batches.epoch}[settings.batches]
    K, B = settings.local_steps, settings.batch_size
    for name, windows_of_client in zip(names, train, strict=True):
        if len(windows_of_client) < B:
            raise DataError(
                f"client {name}: {len(windows_of_client)} training windows are fewer than "
                f"federation.batch_size {B}; lower it or give a longer series"
            )
    for t in range(1, settings.rounds + 1):
        present, windows = {}, {}
        for seed in sorted({f.seed for f in federations}):
            clients = batches.participants(seed, t, names, settings.participation)
            drawn = [train[i][pick(seed, names[i], t, len(train[i]), K, B)] for i in clients]
            present[seed] = clients
            windows[seed] = torch.from_numpy(np.stack(drawn)).to(engine.device)
        losses: dict[int, NDArray[np.float64]] = {}
        for stack in _stacks(federations):
            members = [federations[index] for index in stack]
            trained = _train_round(members, t, present, windows, engine)
            losses |= dict(zip(stack, trained, strict=True))
        pages = [f.channel.close_round() for f in federations]
        report(Round(t, present, [losses[i] for i in range(len(federations))], pages))


def _stacks(federations: list[Federation]) -> Iterable[list[int]]:
    """Indices of the federations whose models can train together."""
    stacks: dict[tuple[ClientOpt, bytes], list[int]] = {}
    for index, federation in enumerate(federations):
        mask = federation.shared.cpu().numpy().tobytes()
        stacks.setdefault((federation.client_opt, mask), []).append(index)
    return stacks.values()


def _train_round(
    members: list[Federation],
    t: int,
    present: dict[int, NDArray[np.int64]],
    windows: dict[int, Tensor],
    engine: Engine,
) -> list[NDArray[np.float64]]:
    """One round of federations that train as one stack; returns the losses of each."""
    clients = [torch.from_numpy(present[f.seed]).to(engine.device) for f in members]
    starts = [f.open_round(c) for f, c in zip(members, clients, strict=True)]
    states, steps = zip(
        *(f.open_moments(c) for f, c in zip(members, clients, strict=True)), strict=True
    )
    task = LocalTask(
        optimiser=members[0].client_opt,
        rows=torch.cat(starts),
        batches=torch.cat([windows[f.seed] for f in members]),
        shared=members[0].shared,
        state={name: torch.cat([s[name] for s in states]) for name in states[0]},
        steps_taken=torch.cat(steps),
    )
    losses = engine.train(task).cpu().numpy()
    sizes = [len(c) for c in clients]
    trained = task.rows.split(sizes)
    moments = {name: rows.split(sizes) for name, rows in task.state.items()}
    for i, (federation, c) in enumerate(zip(members, clients, strict=True)):
        state = {name: rows[i] for name, rows in moments.items()}
        federation.close_round(t, c, starts[i], trained[i], state, task.batches.shape[1])
    return np.split(losses, np.cumsum(sizes)[:-1])
