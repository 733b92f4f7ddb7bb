"""Small federated problems with known answers: engines that train rows on plain quadratics."""

from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from plfl import federation
from plfl.clients import ClientOpt
from plfl.federation import Federation
from plfl.servers import ServerOpt
from plfl.study import Federation as Settings
from plfl.training import LocalTask


class Quadratic:
    """Client i minimises 1/2 Σ_j a_ij (u_j − c_ij)², u = the row's coordinates mapped by `mix`.

    Minibatches carry the client's number, since every batch is the full batch here.
    """

    device = torch.device("cpu")
    dtype = torch.float64

    def __init__(self, a: list[float], c: list[float], mix: list[float]):
        self.a, self.c = torch.tensor(a).double(), torch.tensor(c).double()
        self.mix = torch.tensor(mix).double()

    def train(self, task: LocalTask) -> Tensor:
        client = task.batches[:, 0, 0]
        anchor = task.rows.clone()
        for k in range(1, task.batches.shape[1] + 1):
            y = task.rows
            slope = self.a[client] * ((y * self.mix).sum(1) - self.c[client])
            g = slope[:, None] * self.mix
            g = g + task.optimiser.proximal * task.shared * (y - anchor)
            task.optimiser.step(y, g, task.state, task.steps_taken + k)
        return torch.zeros(len(client), dtype=torch.float64)


Q2 = Quadratic([1, 4], [0, 1], [1])
"""f₁ = ½x², f₂ = 2(x − 1)², started at 2 with η = 0.1 and two local steps."""


def trajectory(
    client_opt: ClientOpt,
    server_opt: ServerOpt,
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
) -> list[Federation]:
    """The federation before round 1 and after every round, each a snapshot of its models."""
    clients = len(problem.a)
    f = Federation(
        client_opt=client_opt,
        server_opt=server_opt,
        shared=torch.tensor(shared),
        seed=seed,
        initial=torch.tensor(start).double(),
        weights=torch.tensor(weights or (1.0,) * clients).double(),
        opt_state=opt_state,
    )
    dataset = SimpleNamespace(
        clients=np.array([f"client {i}" for i in range(clients)]),
        starts=lambda i, split: np.full(1, i),
    )
    settings = Settings(
        rounds=rounds,
        local_steps=steps,
        batch_size=1,
        participation=participation,
        opt_state=opt_state,
    )
    seen = [_snapshot(f, None)]
    federation.run([f], dataset, problem, settings, lambda r: seen.append(_snapshot(f, r)))
    return seen


def _snapshot(f: Federation, report: federation.Round | None) -> SimpleNamespace:
    state = {name: value.clone() for name, value in f.server_state.items()}
    return SimpleNamespace(
        x=state["x"],
        state=state,
        local=f.local.clone(),
        global_models=f.global_models,
        report=report,
    )


def server_path(*args: object, **kwargs: object) -> list[float]:
    """The server's single parameter x₀, x₁, … of a `trajectory`."""
    return [s.x.item() for s in trajectory(*args, **kwargs)]  # type: ignore[arg-type]
