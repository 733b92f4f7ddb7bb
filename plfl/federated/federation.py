"""The state of one federation: its clients' models, its server, its channel and its clock.

The method decides what is sent and how the server steps; `plfl.federated.round` runs the rounds.
Many federations (cells) of the same clients run side by side, so that an engine can train all their
models together. They do not influence each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.config.sections import Federation as Settings
from plfl.federated import participation
from plfl.federated.calibration import calibrate
from plfl.federated.channel import Channel
from plfl.federated.client_data import ClientData
from plfl.federated.clock import Clock
from plfl.layout import ParameterLayout, head_mask
from plfl.methods import Method, MethodState
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.training.task import Average, decay_at


@dataclass(eq=False)
class Federation:
    """One cell while it runs: N clients around one server."""

    method: Method
    client_opt: ClientOpt
    server_opt: ServerOpt
    sharing: Tensor
    """Mask (P,) of the parameters that the study shares."""
    seed: int
    initial: Tensor
    """Parameters (P,) that the server and every client start from."""
    client_data: ClientData
    """The clients' data. A method asks the clients for what they compute from these."""
    draw: Callable[[int], Tensor]
    """Initial parameters (P,) of any seed."""
    layout: ParameterLayout
    """Names of the P parameters."""

    opt_state: str = field(init=False)
    """How the local optimisers' state continues between rounds: as `federation.opt_state` says,
    unless the method changes it before round 1."""
    cycle: int = field(init=False, default=0)
    """Number of the current cycle of the round, from 0; see `Method.groups`."""
    clock: Clock = field(init=False)
    shared: Tensor = field(init=False)
    """Mask (P,) of the parameters that cross the channel: the shared ones, except in an audit."""
    columns: slice | Tensor = field(init=False)
    """Columns of these parameters; a slice, which copies nothing, if they are adjacent."""
    local: Tensor = field(init=False)
    """Models (N, P) as the clients last left them. Personal parameters exist only here."""
    channel: Channel = field(init=False)
    server_state: dict[str, Tensor] = field(init=False)
    state: MethodState = field(init=False, default_factory=MethodState)
    """What the method keeps between rounds; methods read it by `MethodState.of`."""
    moments: dict[str, Tensor] = field(init=False, default_factory=dict)
    held: NDArray[np.bool_] | None = field(init=False, default=None)
    """Labels (N, classes) that each client has, if `federation.selection` needs them: the clients
    tell the server before round 1."""
    steps: Tensor = field(init=False)
    """Local steps (N, 1) that each client's kept moments have behind them."""
    average: dict[str, Tensor] = field(init=False, default_factory=dict)
    """With `federation.ema`, averages `rows` (N, P) of `local` over each client's steps, and their
    number `steps` (N, 1). A client's own steps alone change its average, not what the server
    sends."""
    ensemble: dict[str, Tensor] = field(init=False, default_factory=dict)
    """With `federation.server_ema`, the average of the shared parameters `rows` (1, d_s) that the
    server had after each round, or (N, d_s) where it has one model for each client."""
    best: dict[str, Tensor] = field(init=False, default_factory=dict)
    """With `keeps_best`, each client's best model so far as `rows` (N, P), and its validation error
    `least` (N,)."""

    def __post_init__(self) -> None:
        clients, settings = len(self.client_data.names), self.settings
        self.opt_state = settings.opt_state
        self.clock = Clock(settings.simulation, self.client_data.names, self.seed)
        self.shared = self.method.shared_mask(self.sharing, self.layout)
        self.columns = _columns(self.shared)
        self.local = self.initial.expand(clients, -1).clone()
        self.channel = Channel(int(self.shared.sum()), clients)
        self.server_state = self.server_opt.init(self.x0, clients)
        self.steps = torch.zeros(clients, 1, device=self.initial.device).double()
        if self.opt_state != "reset":
            self.moments = self.client_opt.init(self.local)
        if self.channel.shared:
            self.state = self.method.init(self)
            self._learn_labels()
            self.clock.wait_for_all(self.channel.traffic)
        if settings.ema is not None:
            self.average = {"rows": self.local.clone(), "steps": torch.zeros_like(self.steps)}
        if self.keeps_best:
            least = torch.full((clients,), torch.inf, dtype=torch.float64)
            self.best = {"rows": self.local.clone(), "least": least.to(self.local.device)}

    def _learn_labels(self) -> None:
        """Let the clients tell the server their labels if it selects by them; try a selection."""
        rule = participation.RULES[self.settings.selection]
        if not rule.needs_labels:
            return
        told = torch.from_numpy(self.client_data.histograms(bins=0) > 0)
        (told,) = self.channel.send_extras("up", self.everyone, [told])
        self.held, names = told.cpu().numpy(), self.client_data.names
        # An impossible selection is reported before anything trains.
        participation.participants(
            self.seed, 0, names, self.settings.participation, None, rule, self.held
        )

    @property
    def settings(self) -> Settings:
        """The section `federation` of the study."""
        return self.client_data.settings

    @property
    def keeps_best(self) -> bool:
        """Whether each client keeps its best local model."""
        return self.settings.keep == "best"

    @property
    def x0(self) -> Tensor:
        """Shared parameters (d_s,) that the server starts from."""
        return self.initial[self.columns]

    @property
    def has_global(self) -> bool:
        """Whether what the clients forecast with may differ from `global_models`."""
        return bool(self.channel.shared) or self.method.ignores_sharing

    @property
    def everyone(self) -> Tensor:
        """Indices (N,) of all clients."""
        return torch.arange(len(self.local), device=self.local.device)

    def weights_of(self, clients: Tensor) -> Tensor:
        """Weights (n,) of `clients` in a mean over them; they sum to one."""
        windows = self.client_data.windows[clients]
        weights = windows if self.settings.weighting == "samples" else torch.ones_like(windows)
        return weights / weights.sum()

    def weights_of_all(self) -> Tensor:
        """Weights (N,) of all clients in a mean over them, before it is divided by their sum.

        A deployed server does not know the windows of a client that has never joined; it counts as
        much as the average of those that have.
        """
        windows = self.client_data.windows
        if self.settings.weighting != "samples":
            return torch.ones_like(windows)
        return torch.where(windows.isnan(), windows.nanmean(), windows)

    def models(self, clients: Tensor, shared: Tensor) -> Tensor:
        """Models (n, P) of `clients`: the given shared part (n, d_s) and their own personal one."""
        rows = self.local[clients]
        if self.channel.shared:
            rows[:, self.columns] = shared
        return rows

    def full(self, values: Tensor | float) -> Tensor:
        """Numbers for the shared parameters, (d_s,) or (n, d_s), as (P,) or (n, P): 0 elsewhere."""
        values = torch.as_tensor(values, dtype=self.initial.dtype, device=self.initial.device)
        if values.shape[-1:] == self.shared.shape:
            return values
        rows = values.new_zeros(*values.shape[:-1], len(self.shared))
        rows[..., self.columns] = values
        return rows

    def open_moments(self, present: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Optimiser state of the clients `present` for a round, and the steps it has behind it.

        A state that each round begins with afresh is empty, see `LocalTask.state`.
        """
        steps = self.steps[present]
        if self.opt_state == "reset":
            return {}, steps
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

    def open_average(self, present: Tensor) -> Average | None:
        """Averages of the clients `present`, as copies; None without `federation.ema`."""
        if self.settings.ema is None:
            return None
        rows, steps = self.average["rows"][present], self.average["steps"][present]
        return Average(rows, steps, self.settings.ema)

    def keep_average(self, present: Tensor, rows: Tensor, steps: Tensor) -> None:
        """Keep the averages `rows` of the clients `present` after `steps` (n,) further steps."""
        self.average["rows"][present] = rows
        self.average["steps"][present] += steps[:, None]

    def average_server(self, t: int) -> None:
        """Take the server's models after round `t` into their average."""
        limit = self.settings.server_ema
        if limit is None or not self.channel.shared:
            return
        now = self.method.global_parameters(self)
        if now.stride(0) == 0:  # the same for all clients
            now = now[:1]
        before = self.ensemble.get("rows", self.x0[None])
        decay = decay_at(torch.tensor(t, dtype=torch.float64), limit).item()
        self.ensemble = {"rows": decay * before + (1 - decay) * now}

    def restart(self, clients: Tensor, rows: Tensor) -> None:
        """Let `clients` continue from the models `rows` (n, P) as if they had taken no step."""
        self.local[clients] = rows
        if self.average:
            self.average["rows"][clients] = rows
            self.average["steps"][clients] = 0

    def own_models(self, received: Tensor | None = None) -> Tensor:
        """Models (N, P) that the clients forecast with, as the method says.

        Args:
            received: the `global_models`, if they are known already.
        """
        rows = self.global_models if received is None else received
        if self.channel.shared and self.settings.calibrates:
            return self._calibrated(rows)
        adapted = self.method.adapt(self, rows)
        return self.method.scored(self) if adapted is None else adapted

    def _calibrated(self, rows: Tensor) -> Tensor:
        """The models `rows` (N, P) with heads that the clients have trained."""
        options = self.settings.calibration
        head = torch.from_numpy(head_mask(self.layout, options.head)).to(rows.device)
        return calibrate(rows, self.client_data, head, self.client_opt, options)

    def keep_best(self, models: Tensor, errors: Tensor) -> None:
        """Keep those of `models` (N, P) whose validation errors (N,) are the clients' least so far.

        Until a client has a finite error, its latest model is kept.
        """
        errors = errors.to(self.best["least"]).nan_to_num(nan=torch.inf)
        better = (errors < self.best["least"]) | self.best["least"].isinf()
        self.best["rows"][better] = models[better]
        self.best["least"][better] = errors[better]

    def charge(self, clients: Tensor, work: Tensor | float) -> None:
        """Let `clients` (n,) spend time on `work` (n,), in local steps, outside of their steps."""
        steps = np.broadcast_to(torch.as_tensor(work).cpu().double().numpy(), len(clients))
        self.clock.work(clients.cpu().numpy(), steps)

    @property
    def global_models(self) -> Tensor:
        """The models [x; p_i] (N, P) that the clients would have if the server sent its own now.

        With `federation.server_ema`, x is the average over the rounds. Without personal parameters
        and with one x for all clients, all rows are one in memory: do not modify them.
        """
        if not self.channel.shared:
            return self.local.clone()
        averaged = self.ensemble.get("rows")
        shared = self.method.global_parameters(self) if averaged is None else averaged
        if self.shared.all():
            return shared.expand(self.local.shape)
        return self.models(self.everyone, shared)


def _columns(mask: Tensor) -> slice | Tensor:
    """The columns of `mask` as an index."""
    numbers = mask.nonzero()[:, 0]
    if not len(numbers):
        return slice(0)
    first, end = int(numbers[0]), int(numbers[-1]) + 1
    return slice(first, end) if end - first == len(numbers) else numbers
