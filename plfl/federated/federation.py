"""The state of one federation: its clients' models, its server, its channel and its clock.

The method decides what is sent and how the server steps; `plfl.federated.round` runs the rounds.
Many federations (cells) of the same clients run side by side, so that an engine can train all their
models together. They do not influence each other.
"""

from dataclasses import InitVar, dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from plfl.config.channel import ChannelSettings
from plfl.config.federation import FederationSettings, OptState
from plfl.federated.calibration import calibrate
from plfl.federated.channel import Channel
from plfl.federated.client_data import ClientData
from plfl.federated.clock import Clock
from plfl.federated.codecs.coder import Coder
from plfl.federated.participation import RULES, Selection
from plfl.federated.privacy.mechanism import Privacy
from plfl.federated.secure import check_installed
from plfl.federated.secure.encryption import SimulatedSecrets
from plfl.federated.secure.updates import Crowd, UpdateGrid
from plfl.interfaces.method import Method, MethodState
from plfl.layout import ParameterLayout, head_mask
from plfl.networks.network import Network
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt, ServerState
from plfl.training.work import Average, Moments


class KeptMoments:
    """The state of the clients' local optimisers between rounds. It is kept for all parameters, for
    the personal ones, or not at all; a method may change that `mode` before round 1."""

    def __init__(self, mode: OptState, optimiser: ClientOpt, models: Tensor):
        self.mode = mode
        self.rows = {} if mode == "reset" else optimiser.init(models)
        """The optimiser's state, (N, P) each."""
        self.steps = torch.zeros(len(models), 1, device=models.device).double()
        """Local steps (N, 1) that each client has taken with this state."""

    def copy_of(self, clients: Tensor, shared_mask: Tensor) -> Moments:
        """A copy of the state of `clients` (n,) for a round. With `reset` it is empty, because
        every round begins afresh; with `keep_personal` it is 0 for the parameters of the
        `shared_mask` (P,)."""
        steps = self.steps[clients]
        if self.mode == "reset":
            return Moments({}, steps)
        state = {name: rows[clients] for name, rows in self.rows.items()}
        if self.mode == "keep_personal":
            for rows in state.values():
                rows[:, shared_mask] = 0
            steps = torch.where(shared_mask, 0, steps)
        return Moments(state, steps)

    def keep(self, clients: Tensor, state: dict[str, Tensor], steps: Tensor) -> None:
        """Keep the `state` of `clients` (n,) after `steps` (n,) further steps."""
        if self.mode != "reset":
            self.steps[clients] += steps[:, None]
            for name, rows in self.rows.items():
                rows[clients] = state[name]


class Best:
    """Each client's model with the least validation error so far; at first `models` (N, P)."""

    def __init__(self, models: Tensor):
        self.rows = models.clone()
        """The models (N, P); the latest one as long as a client has had no finite error."""
        self.lowest_errors = torch.full((len(models),), torch.inf, dtype=torch.float64).to(
            models.device
        )
        """Their validation errors (N,)."""

    def keep(self, models: Tensor, errors: Tensor) -> None:
        """Keep those of `models` (N, P) whose validation `errors` (N,) are the least so far."""
        errors = errors.to(self.lowest_errors).nan_to_num(nan=torch.inf)
        better = (errors < self.lowest_errors) | self.lowest_errors.isinf()
        self.rows[better] = models[better]
        self.lowest_errors[better] = errors[better]


@dataclass(eq=False)
class Federation:
    """One cell while it runs: N clients around one server."""

    method: Method
    client_opt: ClientOpt
    """The local optimiser, which has the learning rate of a round while that is in progress."""
    server_opt: InitVar[ServerOpt]
    study_mask: Tensor
    """Mask (P,) of the parameters that the study shares."""
    client_data: ClientData
    """What the clients can compute from their data. Methods ask for it here."""
    network: Network
    """The model: the names of its P parameters, and their initial values."""
    channel_settings: InitVar[ChannelSettings | None] = None
    """The section `channel` of the study; None: nothing is coded or masked."""
    start: Tensor | None = None
    """Parameters (P,) that replace every draw of initial ones."""
    size: InitVar[int | None] = None
    """Number of clients of the federation, if only some are here."""

    initial: Tensor = field(init=False)
    """Parameters (P,) that the server and, but for `federation.initial: local`, every client start
    from."""
    shared_mask: Tensor = field(init=False)
    """Mask (P,) of the parameters that cross the channel: see `Method.shared_mask`."""
    local: Tensor = field(init=False)
    """Models (N, P) as the clients last left them. Personal parameters exist only here."""
    server: ServerState = field(init=False)
    state: MethodState = field(init=False, default_factory=MethodState)
    """What the method keeps between rounds. Its functions get it, typed, as an argument."""
    channel: Channel = field(init=False)
    clock: Clock = field(init=False)
    selection: Selection = field(init=False)
    """Chooses who takes part in a round."""
    adds_masked: bool = field(init=False, default=False)
    """Whether the server gets the sum of the updates only, of which single ones are masked."""
    privacy: Privacy | None = field(init=False, default=None)
    """With `federation.privacy.clip`, it clips the updates and adds noise to their sum."""
    moments: KeptMoments = field(init=False)
    """What the local optimisers keep between rounds."""
    average: Average | None = field(init=False, default=None)
    """With `federation.ema`, the average of each client's model over its local steps; models that
    the server sends are not averaged."""
    server_average: Average | None = field(init=False, default=None)
    """With `federation.server_ema`, the average of the server's parameters over the rounds."""
    best: Best | None = field(init=False, default=None)
    """With `federation.keep: best`, each client's best model so far."""

    def __post_init__(
        self, server_opt: ServerOpt, channel_settings: ChannelSettings | None, size: int | None
    ) -> None:
        settings, names = self.settings, self.client_data.names
        self._client_opt = self.client_opt
        self.initial = self.draw(self.seed)
        self.shared_mask = self.method.shared_mask(self.study_mask, self.layout).clone()
        self.shared_mask[self.layout.buffer_columns] = False  # whatever a method says
        self.local = self._draw_local()
        self.server = ServerState(server_opt, self.x0, len(names))
        self.channel = self._make_channel(channel_settings)
        self.clock = Clock(settings.simulation, names, self.seed)
        rule = RULES[settings.selection if self.channel.shared_count else "uniform"]
        self.selection = Selection(
            self.seed, names, settings.participation, rule, rounds=settings.rounds
        )
        self._protect_updates(size)
        self.moments = KeptMoments(settings.opt_state, self.client_opt, self.local)
        if self.channel.shared_count:
            self.state = self.method.init(self)
            if rule.needs_labels:
                self._tell_labels()
            self.clock.wait_for_all(self.channel.traffic)
        self._make_averages()
        if settings.keep == "best":
            self.best = Best(self.local)

    def _make_channel(self, channel_settings: ChannelSettings | None) -> Channel:
        """The channel, with its codecs and the secrets of its masks, if the study has them."""
        client_count = len(self.client_data.names)
        shared_mask = self.shared_mask.cpu()
        lengths = [int(shared_mask[columns].sum()) for columns in self.layout.slices.values()]
        coder = None
        if channel_settings and channel_settings.is_coded and any(lengths):
            coder = Coder(
                channel_settings,
                filter(None, lengths),
                self.x0,
                client_count,
                self.client_data.streams,
            )
        secrets = None
        if channel_settings and channel_settings.secure:
            check_installed()
            secrets = SimulatedSecrets(self.seed)
        return Channel(sum(lengths), client_count, coder, secrets)

    def _protect_updates(self, size: int | None) -> None:
        """Set what bounds and hides single updates: noise on their sum, and masks."""
        settings, names = self.settings, self.client_data.names
        if self.channel.shared_count and settings.privacy.clip is not None:
            self.privacy = Privacy(settings, len(names), self.seed, self.x0, size)
        self.adds_masked = self.channel.secrets is not None and not self.method.adds_numbers
        if self.adds_masked and self.privacy is not None:
            # Too little noise is reported before training.
            crowd = Crowd(int(self.privacy.participants), self.privacy.clients)
            UpdateGrid(self.privacy.noise_of_sum(1, names)).check(crowd)

    def _tell_labels(self) -> None:
        """Tell the server which labels each client has, by which it selects participants."""
        has_label = torch.from_numpy(self.client_data.histograms(bins=0) > 0)
        (received_labels,) = self.channel.send_extras("up", self.everyone, [has_label])
        self.selection.labels = received_labels.cpu().numpy()
        self.selection.draw(0)  # an impossible selection is reported before training

    def _make_averages(self) -> None:
        """Begin the averages of the clients' models and of the server's parameters."""
        settings = self.settings
        if settings.ema is not None:
            no_steps = torch.zeros_like(self.moments.steps)
            self.average = Average(self.local.clone(), no_steps, settings.ema)
        if settings.server_ema is not None and self.channel.shared_count:
            steps = self.initial.new_zeros(1).double()
            self.server_average = Average(self.server.x.clone(), steps, settings.server_ema)

    @property
    def settings(self) -> FederationSettings:
        """The section `federation` of the study."""
        return self.client_data.settings

    @property
    def seed(self) -> int:
        """The cell's seed."""
        return self.client_data.seed

    @property
    def layout(self) -> ParameterLayout:
        """Names of the P parameters."""
        return self.network.layout

    def draw(self, seed: int) -> Tensor:
        """Initial parameters (P,) of any seed; the same of all, if there is a `start`."""
        engine = self.client_data.engine
        row = self.network.initial(seed) if self.start is None else self.start
        return row.to(engine.device, engine.dtype)

    def _draw_local(self) -> Tensor:
        """The clients' models (N, P) before round 1."""
        common = self.initial.expand(len(self.client_data.names), -1)
        if self.settings.initial == "common":
            return common.clone()
        streams = self.client_data.streams("initial", range(len(common)), 0)
        single = torch.stack([self.draw(int(random.integers(2**32))) for random in streams])
        return torch.where(self.study_mask, common, single)

    @cached_property
    def columns(self) -> slice | Tensor:
        """Columns of the parameters that cross the channel: a slice, not a copy, if adjacent."""
        numbers = self.shared_mask.nonzero()[:, 0]
        if not len(numbers):
            return slice(0)
        first, end = int(numbers[0]), int(numbers[-1]) + 1
        return slice(first, end) if end - first == len(numbers) else numbers

    @property
    def x0(self) -> Tensor:
        """Shared parameters (d_s,) that the server starts from."""
        return self.initial[self.columns]

    @property
    def everyone(self) -> Tensor:
        """Indices (N,) of all clients."""
        return torch.arange(len(self.local), device=self.local.device)

    @property
    def local_differs_from_global(self) -> bool:
        """Whether the models that the clients forecast with may differ from `global_models`."""
        return bool(self.channel.shared_count) or self.method.ignores_sharing

    def weights_of(self, clients: Tensor) -> Tensor:
        """Weights (n,) of `clients` in a mean over them; they sum to one."""
        weights = self.client_weights[clients]
        return weights / weights.sum()

    @property
    def client_weights(self) -> Tensor:
        """Weights (N,) of all clients, which need not sum to one. NaN: a deployed server does not
        know how many windows a client has that has never joined."""
        windows = self.client_data.window_counts
        return windows if self.settings.weighting == "samples" else torch.ones_like(windows)

    def weights_of_all(self) -> Tensor:
        """`client_weights` (N,) for a mean over all clients: one that has never joined gets the
        mean weight of the others."""
        weights = self.client_weights
        return torch.where(weights.isnan(), weights.nanmean(), weights)

    def models(self, clients: Tensor, shared_values: Tensor) -> Tensor:
        """Models (n, P) of `clients`: the given shared part (n, d_s) and their own personal one."""
        rows = self.local[clients]
        if self.channel.shared_count:
            rows[:, self.columns] = shared_values
        return rows

    def full(self, values: Tensor | float) -> Tensor:
        """Values of the shared parameters, (d_s,) or (n, d_s), padded to (P,) or (n, P) with 0
        elsewhere."""
        values = torch.as_tensor(values, dtype=self.initial.dtype, device=self.initial.device)
        if values.shape[-1:] == self.shared_mask.shape:
            return values
        rows = values.new_zeros(*values.shape[:-1], len(self.shared_mask))
        rows[..., self.columns] = values
        return rows

    def charge(self, clients: Tensor, work: Tensor | float) -> None:
        """Charge `clients` (n,) for further `work` (n,), in local steps, on the clock."""
        steps = np.broadcast_to(torch.as_tensor(work).cpu().double().numpy(), len(clients))
        self.clock.charge_work(clients.cpu().numpy(), steps)

    def begin_round(self, t: int) -> None:
        """Give the local optimiser its learning rate of round `t`; until `end_round`."""
        schedule, rounds = self.settings.schedule, self.settings.rounds
        multiple = schedule.compute_multiple(t, rounds)
        self.client_opt = self._client_opt.scale_rate(multiple)
        ratio = multiple / schedule.compute_multiple(t - 1, rounds) if t > 1 else 1
        if ratio != 1:
            self.server.opt.follow_rate(self.server.state, ratio)

    def end_round(self) -> None:
        """Give the local optimiser its own learning rate, and average the server's parameters."""
        self.client_opt = self._client_opt
        if self.server_average is not None:
            self.server_average.advance(self.server.x, 1, None)
            self.server_average.steps.add_(1)

    def send_parameters(self, clients: Tensor) -> Tensor:
        """Send `clients` (n,) the server's parameters, and the clipping bound if there is one;
        return the parameters (n, d_s) as received."""
        bounds = [] if self.privacy is None else self.privacy.announced_bounds(clients)
        x, bounds = self.channel.send("down", clients, self.server.send(clients), bounds)
        if self.privacy is not None:
            self.privacy.receive_bounds(clients, bounds)
        return x

    @property
    def global_parameters(self) -> Tensor:
        """Shared parameters (N, d_s) that each client would receive from the server now, or those
        of the average."""
        if self.server_average is None:
            return self.method.global_parameters(self, self.state)
        with self.server.substitute(self.server_average.rows):
            return self.method.global_parameters(self, self.state)

    @property
    def global_models(self) -> Tensor:
        """The models [x; p_i] (N, P) that the clients would have if the server sent its own now. Do
        not modify them: if all parameters are shared, they may be one row in memory."""
        if not self.channel.shared_count:
            return self.local.clone()
        if self.shared_mask.all():
            return self.global_parameters.expand(self.local.shape)
        return self.models(self.everyone, self.global_parameters)

    def own_models(self, global_models: Tensor | None = None) -> Tensor:
        """Models (N, P) that the clients forecast with, as the method defines them. Give
        `global_models` if they are known already."""
        rows = self.global_models if global_models is None else global_models
        if self.channel.shared_count and self.settings.calibrates:
            options = self.settings.calibration
            head = torch.from_numpy(head_mask(self.layout, options.head)).to(rows.device)
            return calibrate(rows, self.client_data, head, self.client_opt, options)
        adapted = self.method.adapt(self, self.state, rows)
        return self.method.scored_models(self, self.state) if adapted is None else adapted
