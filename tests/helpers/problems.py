"""Small federated problems with known answers: engines that train rows on plain quadratics."""

from collections.abc import Callable, Sequence
from copy import copy
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from plfl.config.sections import Channel
from plfl.config.sections import Federation as Settings
from plfl.federated.client_data import ClientData
from plfl.federated.federation import Federation
from plfl.federated.round import Round, run
from plfl.layout import ParameterLayout
from plfl.methods import Method, MethodState
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.tasks.forecast import Forecast
from plfl.training.task import LocalTask, Minibatches


class Quadratic:
    """Client i minimises 1/2 Σ_j a_ij (u_j − c_ij)², u = the row's coordinates mapped by `mix`.

    Minibatches carry the client's number, since every batch is the full batch here.
    """

    device = torch.device("cpu")
    dtype = torch.float64

    def __init__(self, a: list[float], c: list[float], mix: list[float]):
        self.a, self.c, self.mix = (torch.tensor(x, dtype=torch.float64) for x in (a, c, mix))

    def block(self, task: Any) -> int:
        return 1000

    def train(self, task: LocalTask) -> Tensor:
        task = task.with_state()
        terms, starts, gradients = task.terms, task.minibatches.starts, task.tracked.gradients
        client, values = starts[:, 0, 0], task.moments.state
        taught = self._taught(client, task.minibatches.targets)
        start = task.rows.clone()
        steps = torch.full(client.shape, starts.shape[1]) if task.steps is None else task.steps
        pull = task.optimiser.proximal * task.shared + (0 if terms.pull is None else terms.pull)
        storm = terms.storm
        if storm is not None:
            before = start + task.shared * storm.scale * storm.momentum
        for k in range(1, int(steps.max()) + 1):
            on = steps >= k
            y = task.rows[on]
            point, look, mixture = y, terms.lookahead, terms.mixture
            if look is not None:
                point = y - look.rate * taught.gradients(y, look.minibatches.starts[on, 0, 0])
            g = task.objective.scale * taught.gradients(point, client[on])
            if mixture is not None:
                v, share = mixture.rows[on], mixture.share[on]
                mean = share[:, None] * v + (1 - share[:, None]) * y
                slope = taught.gradients(mean, client[on])
                if k <= mixture.learns:
                    moved = share - mixture.rate * ((v - y) * slope).sum(1)
                    mixture.share[on] = moved.clamp(0, 1)
                moments = {name: rows[on] for name, rows in mixture.state.items()}
                task.optimiser.step(v, share[:, None] * slope, moments, task.moments.steps[on] + k)
                mixture.rows[on] = v
                for name, rows in mixture.state.items():
                    rows[on] = moments[name]
            if storm is not None:
                old = task.objective.scale * taught.gradients(before[on], client[on])
                m, v = storm.momentum[on], storm.square[on]
                m = g + (1 - storm.a) * (m - old)
                v = storm.beta * v + (1 - storm.beta) * g**2
                ahead = y - (steps[on] > k)[:, None] * storm.scale[on] * m
                storm.momentum[on], storm.square[on], before[on] = m, v, y
            if gradients is not None:
                gradients[on] += g
            g = g + pull * (y - (start if terms.anchor is None else terms.anchor.rows)[on])
            if terms.constant is not None:
                g = g + terms.constant[on]
            state = {name: rows[on] for name, rows in values.items()}
            task.optimiser.step(y, g, state, task.moments.steps[on] + task.since(k))
            for name, rows in values.items():
                rows[on] = state[name]
            if storm is not None:
                y = torch.where(task.shared, ahead, y)
            y = y if terms.step_offset is None else y + terms.step_offset[on]
            task.rows[on] = y if terms.frozen is None else torch.where(terms.frozen, start[on], y)
            if terms.anchor is not None:
                terms.anchor.advance(task.rows, values, k, on)
        return torch.zeros(len(client), dtype=torch.float64)

    def _taught(self, client: Tensor, targets: Tensor | None) -> "Quadratic":
        """The same clients, who learn `targets` (S, K, 1) instead of c, the same in each step."""
        if targets is None:
            return self
        taught = copy(self)
        taught.c = self.c.clone()
        taught.c[client] = targets[:, 0, 0]
        return taught

    def predict(self, rows: Tensor, starts: Sequence[Tensor]) -> list[Tensor]:
        """Each client forecasts u."""
        return [(y * self.mix).sum().expand(len(own)) for y, own in zip(rows, starts, strict=True)]

    def gradients(self, y: Tensor, client: Tensor) -> Tensor:
        """Gradient of each client's own loss at its row."""
        return (self.a[client] * ((y * self.mix).sum(1) - self.c[client]))[:, None] * self.mix

    def losses(self, y: Tensor, client: Tensor) -> Tensor:
        """Each client's own loss at its row."""
        return self.a[client] * ((y * self.mix).sum(1) - self.c[client]) ** 2 / 2


class QuadraticData(ClientData):
    """The clients of a `Quadratic`: their data are their numbers."""

    def __init__(self, problem: Quadratic, settings: Settings, seed: int, windows: Sequence[float]):
        self.problem, self.engine = problem, problem
        self.settings, self.seed = settings, seed
        self.task = Forecast()
        self.names = [f"client {i}" for i in range(len(problem.a))]
        self.windows = torch.tensor(windows, dtype=torch.float64)

    def targets(self, starts: Tensor) -> Tensor:
        return self.problem.c[starts]

    def training_targets(self, client: int) -> Tensor:
        return self.problem.c[client].expand(5)

    def minibatches(self, clients: Tensor, t: int, steps: int) -> Tensor:
        return clients[:, None, None].expand(-1, steps, 1)

    def passes(
        self, purpose: str, clients: Tensor, epochs: float, most: int | None = None
    ) -> tuple[Minibatches, Tensor]:
        epochs = max(1, int(epochs))
        steps = epochs if most is None else min(epochs, most)
        windows = self.minibatches(clients, 0, steps)
        keys = torch.zeros_like(windows[..., 0])
        return Minibatches(windows, keys), torch.full((len(clients),), steps)

    def losses(
        self, rows: Tensor, clients: Tensor, t: int = 0, windows: int | None = None
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
    settings = Settings(
        rounds=rounds,
        local_steps=steps,
        batch_size=1,
        participation=participation,
        weighting="samples" if weights else "uniform",
        opt_state=opt_state,
        **further,
    )
    layout = {f"w{j}": (1,) for j in range(len(start))}
    network: Any = SimpleNamespace(
        layout=ParameterLayout(layout, head=(f"w{len(start) - 1}",)),
        initial=lambda other: torch.tensor(start, dtype=torch.float64) + (other - seed),
    )
    f = Federation(
        method=method or FedOpt(),
        client_opt=client_opt,
        server_opt=server_opt,
        sharing=torch.tensor(shared),
        client_data=QuadraticData(problem, settings, seed, weights or (1.0,) * clients),
        network=network,
        codecs=Channel(**codecs) if codecs else None,
    )
    made(f)
    seen = [_snapshot(f, None)]
    run([f], problem, range(1, rounds + 1), lambda r: seen.append(_snapshot(f, r[0])))
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


def in_turns(method: Method, *turns: list[int]) -> Method:
    """The method where round t is for the clients `turns[t - 1]`."""

    class InTurns(type(method)):  # type: ignore[misc]
        def select(self, f: Federation, state: MethodState, t: int, drawn: Tensor) -> Tensor:
            return torch.tensor(turns[t - 1], dtype=torch.int64)

    turned: Method = InTurns(**method.model_dump())
    return turned


def server_path(*args: object, **kwargs: object) -> list[float]:
    """The server's single parameter x₀, x₁, … of a `trajectory`."""
    return [s.x.item() for s in trajectory(*args, **kwargs)]  # type: ignore[arg-type]
