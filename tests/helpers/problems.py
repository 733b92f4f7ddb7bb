"""Small federated problems with known answers: engines that train rows on plain quadratics."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from plfl.config.channel import ChannelSettings
from plfl.config.federation import FederationSettings, Simulation
from plfl.federated.client_data import ClientData
from plfl.federated.clock import Clock
from plfl.federated.federation import Federation
from plfl.federated.round import Round, run_rounds
from plfl.interfaces.method import Method, MethodState
from plfl.layout import ParameterLayout
from plfl.methods.fedopt import FedOpt
from plfl.networks.network import PassState
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server import ServerOpt
from plfl.optimizers.server.fedavg import FedAvg
from plfl.tasks.forecast import Forecast
from plfl.training.stacked import Stacked
from plfl.training.work import LocalWork, Minibatches

SGD, AVG = Sgd(lr=0.1), FedAvg()


class Quadratic(Stacked):
    """Client i minimises ½ a_i (u − c_i)², u the sum of its row's coordinates times `mix`.

    The engine is that of trainings, whose network forecasts u. A minibatch is the client's number,
    since every batch is the full batch here.
    """

    is_random = has_buffers = False

    def __init__(self, a: list[float], c: list[float], mix: list[float]):
        self.a, self.c, self.mix = (torch.tensor(x, dtype=torch.float64) for x in (a, c, mix))
        self.device, self.dtype = torch.device("cpu"), torch.float64
        self.network: Any = self
        self.repeat = None

    def most_models(self, task: Any) -> int:
        return 1000

    def stack_sizes(self, task: LocalWork) -> tuple[int, ...]:
        return (len(task.rows),)

    def inputs(self, starts: Tensor) -> Any:
        return (starts,)

    def targets_of(self, starts: Tensor) -> Tensor:
        return self.c[starts]

    def forward_pass(
        self, rows: Tensor, clients: Tensor, features: bool = False, keys: Tensor | None = None
    ) -> tuple[Tensor, PassState]:
        """Forecasts (S, B); the features are the same for all models."""
        forecasts = (rows * self.mix).sum(1, keepdim=True).expand(clients.shape)
        return forecasts, PassState(
            self.network, [clients], torch.ones(len(rows), 1, clients.shape[1])
        )

    def backward_pass(
        self, rows: Tensor, kept: PassState, forecast: Tensor, features: Any, out: Tensor
    ) -> None:
        """Half of the slope of (u − c)², times a."""
        out.copy_((self.a[kept.tensors[0]] / 2 * forecast).sum(1, keepdim=True) * self.mix)

    def predict(self, rows: Tensor, starts: list[Tensor]) -> list[Tensor]:
        """Each client forecasts u."""
        return [(y * self.mix).sum().expand(len(own)) for y, own in zip(rows, starts, strict=True)]

    def losses(self, y: Tensor, client: Tensor) -> Tensor:
        """Each client's own loss at its row."""
        return self.a[client] * ((y * self.mix).sum(1) - self.c[client]) ** 2 / 2


class QuadraticData(ClientData):
    """The clients of a `Quadratic`: their data are their numbers."""

    def __init__(
        self,
        problem: Quadratic,
        settings: FederationSettings,
        seed: int,
        window_counts: Sequence[float],
    ):
        self.problem, self.engine = problem, problem
        self.settings, self.seed = settings, seed
        self.task = Forecast()
        self.names = [f"client {i}" for i in range(len(problem.a))]
        self.window_counts = torch.tensor(window_counts, dtype=torch.float64)

    def targets(self, starts: Tensor) -> Tensor:
        return self.problem.c[starts]

    def training_targets(self, client: int) -> Tensor:
        return self.problem.c[client].expand(5)

    def minibatch_starts(self, clients: Tensor, t: int, steps: int) -> Tensor:
        return clients[:, None, None].expand(-1, steps, 1)

    def passes(
        self, purpose: str, clients: Tensor, epochs: float, most: int | None = None
    ) -> tuple[Minibatches, Tensor]:
        epochs = max(1, int(epochs))
        steps = epochs if most is None else min(epochs, most)
        windows = self.minibatch_starts(clients, 0, steps)
        return Minibatches(windows), torch.full((len(clients),), steps)

    def losses(
        self, rows: Tensor, clients: Tensor, t: int = 0, most_windows: int | None = None
    ) -> Tensor:
        return self.problem.losses(rows, clients)


Q2 = Quadratic([1, 4], [0, 1], [1])
"""f₁ = ½x², f₂ = 2(x − 1)², started at 2 with η = 0.1 and two local steps."""


def trajectory(
    client_opt: ClientOpt,
    server_opt: ServerOpt,
    method: Method | None = None,
    *,
    problem: Quadratic = Q2,
    shared: tuple[bool, ...] = (True,),
    start: tuple[float, ...] = (2.0,),
    rounds: int = 3,
    steps: int = 2,
    weights: tuple[float, ...] | None = None,
    participation: float = 1.0,
    opt_state: str = "reset",
    seed: int = 0,
    made: Callable[[Federation], None] = lambda f: None,
    codecs: dict[str, Any] | None = None,
    **further: Any,
) -> list[Any]:
    """The federation before round 1 and after every round, each a snapshot of its models.

    `further` are keys of `federation`. `f` of every snapshot is the federation itself, at the end.
    """
    clients = len(problem.a)
    settings = FederationSettings(
        rounds=rounds,
        local_steps=steps,
        batch_size=1,
        participation=participation,
        weighting="samples" if weights else "uniform",
        opt_state=opt_state,
        **further,
    )
    layout: dict[str, tuple[int, ...]] = {f"w{j}": (1,) for j in range(len(start))}
    network: Any = SimpleNamespace(
        layout=ParameterLayout(layout, head=(f"w{len(start) - 1}",)),
        initial=lambda other: torch.tensor(start, dtype=torch.float64) + (other - seed),
    )
    f = Federation(
        method=method or FedOpt(),
        client_opt=client_opt,
        server_opt=server_opt,
        study_mask=torch.tensor(shared),
        client_data=QuadraticData(problem, settings, seed, weights or (1.0,) * clients),
        network=network,
        channel_settings=ChannelSettings(**codecs) if codecs else None,
    )
    made(f)
    seen = [_snapshot(f, None)]
    run_rounds([f], problem, range(1, rounds + 1), lambda r: seen.append(_snapshot(f, r[0])))
    return seen


def _snapshot(f: Federation, report: Round | None) -> SimpleNamespace:
    state = {name: value.clone() for name, value in f.server.state.items()}
    return SimpleNamespace(
        f=f,
        x=state["x"],
        state=state,
        local=f.local.clone(),
        moments={name: rows.clone() for name, rows in f.moments.rows.items()},
        global_models=f.global_models.clone(),
        scored=f.own_models().clone(),
        report=report,
    )


Uploads = list[tuple[Tensor, Tensor]]
"""The rows that clients sent, and those that arrived."""


def uploads(into: Uploads) -> Callable[[Federation], None]:
    """A `made` that adds all uploads."""

    def made(f: Federation) -> None:
        send = f.channel.send

        def sending(direction: Any, clients: Tensor, rows: Tensor, extras: Any = ()) -> Any:
            arrived, others = send(direction, clients, rows, extras)
            if direction == "up":
                into.append((rows.clone(), arrived))
            return arrived, others

        f.channel.send = sending  # type: ignore[method-assign, assignment]

    return made


def in_turns(method: Method, *turns: list[int]) -> Method:
    """The method where round t is for the clients `turns[t - 1]`."""

    class InTurns(type(method)):  # type: ignore[misc]
        def select(self, f: Federation, state: MethodState, t: int, drawn: Tensor) -> Tensor:
            return torch.tensor(turns[t - 1], dtype=torch.int64)

    turned: Method = InTurns(**method.model_dump())
    return turned


def clock(names: list[str], seed: int = 0, **keys: Any) -> Clock:
    """The clock of these clients, given the keys of `federation.simulation`."""
    return Clock(Simulation(**keys), names, seed)


def simulated(**keys: Any) -> Callable[[Federation], None]:
    """A `made` that simulates participation and time; `keys` as for `clock`."""
    return lambda f: setattr(f, "clock", clock(f.client_data.names, f.seed, **keys))


def server_path(*args: object, **kwargs: object) -> list[float]:
    """The server's single parameter x₀, x₁, … of a `trajectory`."""
    return [s.x.item() for s in trajectory(*args, **kwargs)]  # type: ignore[arg-type]
