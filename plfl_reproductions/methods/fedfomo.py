"""FedFomo lets each client choose the models from which it learns. A client downloads models of
other clients, evaluates them on its own data, and starts from a mixture of those that fit better
than its own did.

Source: Michael Zhang, Karan Sapra, Sanja Fidler, Serena Yeung and Jose M. Alvarez, "Personalized
Federated Learning with First Order Model Optimization", ICLR 2021,
https://arxiv.org/abs/2012.08565; authors' code: https://github.com/NVlabs/FedFomo.

The server keeps the last model θ_n of every client and, for each client i, affinities p_ij, 0 at
first. Client i keeps its last two models, θ_i and θ'_i before it, at first the initial model.

down: θ_n of M other clients, chosen one after the other: of those left, the one with the largest
    p_in or, with probability ε (which falls by `epsilon_decay` in every round), a random one
client: w_n = (F_i(θ'_i) − F_i(θ_n)) / ‖θ_n − θ'_i‖ of these and of θ_i itself
    θ'_i + Σ_n max(w_n, 0) (θ_n − θ'_i) / Σ_n max(w_n, 0), from which K steps of its ClientOpt
    start; if no w_n is positive, from θ'_i
up: D = y − θ_i, and w_n / |Σ w_n| of the M models;  server: θ_i ← θ_i + D, p_in ← p_in + w_n

`global` is the mixture with p_i alone deciding what is sent; `local` is y. Norms are over the
shared parameters, and models are evaluated with the client's own personal part.

Deviations: the paper evaluates models on a client's validation data. Here these choose
hyperparameters, so the client uses `probe` training windows, drawn anew in every round. All clients
count as available, also those that are not in the round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.errors import ConfigError
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Method, MethodState, Sizes


@dataclass
class FedFomoState(MethodState):
    models: Tensor
    """θ_n (N, d_s) of every client, as the server knows them."""
    affinity: Tensor
    """p (N, N): how much others' models have helped each client."""
    own: Tensor
    """θ_i (N, d_s), each client's last model."""
    before: Tensor
    """θ'_i (N, d_s), each client's last model but one."""


@dataclass
class Instructions(TrainInstructions):
    """The models that n clients were sent, and how much these were worth to them."""

    sent: Tensor | None = None
    """The M clients (n, M) whose models each received."""
    worth: Tensor | None = None
    """w_n / |Σ w_n| (n, M) of these models."""


class FedFomo(Method):
    """A mixture of those models of other clients that fit a client's data."""

    name = "fedfomo"
    label = "FedFomo"
    sends = Sizes("models d_s", "d_s + models")
    own_server = "its server keeps the clients' own models"
    no_server_average = "has no model of the server's that could be averaged"
    no_codec = "the server sends several models, of which only one would be coded"
    simulation_only = "every client has to evaluate models before its mixture can be scored"

    models: int = Field(8, ge=1)
    """Number M of models that a client downloads in a round (authors' code: 8); at most one of each
    other client.
    """
    epsilon: float = Field(0.3, ge=0, le=1)
    """Probability ε in the first round that one of them is drawn at random (authors' code: 0.3)."""
    epsilon_decay: float = Field(0.05, ge=0)
    """The amount by which ε falls in every round (authors' code: 0.05)."""
    probe: int | None = Field(256, ge=1)
    """Training windows on which a client evaluates the models (ours); null: all."""

    def init(self, f: Federation) -> FedFomoState:
        if len(f.local) < 2:
            text = "there are no others' models to send to a single client"
            raise ConfigError.at_key("grid.method", text, "remove the method")
        rows = f.x0.expand(len(f.local), -1)
        affinity = f.x0.double().new_zeros(len(rows), len(rows))
        return FedFomoState(rows.clone(), affinity, rows.clone(), rows.clone())

    def broadcast(
        self, f: Federation, state: FedFomoState, t: int, clients: Tensor
    ) -> Instructions:
        epsilon = max(0.0, self.epsilon - self.epsilon_decay * (t - 1))
        model_numbers = self._draw_models(f, state, t, clients, epsilon)
        first, *other_models = state.models[model_numbers].unbind(1)
        first, other_models = f.channel.send("down", clients, first, other_models)
        start, worth = self._mixture(f, state, t, clients, [first, *other_models])
        # The received models, its own, and its last but one.
        tried_models = len(other_models) + 3
        work = f.client_data.work_of_losses(clients, tried_models, self.probe)
        return Instructions(start, before=work, sent=model_numbers, worth=worth)

    def aggregate(
        self, f: Federation, state: FedFomoState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        instructions = result.instructions
        assert isinstance(instructions, Instructions)
        assert instructions.sent is not None
        assert instructions.worth is not None
        y, personal = f.local[clients][:, f.columns], state.own[clients]
        state.before[clients], state.own[clients] = personal, y
        D, (worth,) = f.channel.send("up", clients, y - personal, [instructions.worth])
        state.models[clients] += D
        state.affinity[clients[:, None], instructions.sent] += worth.double()

    def global_parameters(self, f: Federation, state: FedFomoState) -> Tensor:
        models = state.models[self._draw_models(f, state, 0, f.everyone, 0.0)]
        return self._mixture(f, state, 0, f.everyone, models.unbind(1))[0]

    def _draw_models(
        self, f: Federation, state: FedFomoState, t: int, clients: Tensor, epsilon: float
    ) -> Tensor:
        """The clients (n, M) whose models each of `clients` receives in round `t`."""
        affinity, model_numbers = state.affinity.cpu().numpy(), []
        # In the order of their names: results must not depend on the order of the clients.
        clients_by_name = np.argsort(f.client_data.names)
        streams = f.client_data.streams("fedfomo", clients.tolist(), t)
        for i, random in zip(clients.tolist(), streams, strict=True):
            other_clients = clients_by_name[clients_by_name != i]
            model_numbers.append(
                rank_clients(
                    other_clients, affinity[i, other_clients], self.models, epsilon, random
                )
            )
        return torch.from_numpy(np.stack(model_numbers)).to(clients)

    def _mixture(
        self,
        f: Federation,
        state: FedFomoState,
        t: int,
        clients: Tensor,
        models: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor]:
        """The mixture (n, d_s) of each client, and the worth (n, M) of the received `models`."""
        previous, own_models = state.before[clients], [state.own[clients], *models]

        def loss(x: Tensor) -> Tensor:
            rows = f.models(clients, x)
            return f.client_data.losses(rows, clients, t, self.probe).double()

        baseline, gains = loss(previous), []
        for x in own_models:
            length = (x - previous).double().square().sum(1).sqrt()
            gains.append((baseline - loss(x)) / length)
        # 0 for a model that is θ'_i itself, and for one that has diverged.
        w = torch.stack(gains, 1).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        shares = w.clamp(min=0)
        shares = shares / shares.sum(1, keepdim=True).clamp(min=torch.finfo(w.dtype).tiny)
        start = previous.double()
        for share, x in zip(shares.unbind(1), own_models, strict=True):
            # A model without a share may have diverged, and 0 · ∞ is NaN.
            start = start + torch.where(share[:, None] > 0, share[:, None] * (x - previous), 0.0)
        worth = w[:, 1:] / w.sum(1, keepdim=True).abs().clamp(min=1e-9)
        return start.to(previous), worth.to(previous)


def rank_clients(
    other_clients: NDArray[np.int64],
    affinity: NDArray[np.float64],
    models: int,
    epsilon: float,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """At most `models` of the `other_clients`, in descending order of `affinity`, ties at random.

    With probability `epsilon`, each is replaced by a random one of those that are left.
    """
    remaining_clients = other_clients[
        np.lexsort((random.random(len(other_clients)), -affinity))
    ].tolist()
    explores = random.random(min(models, len(remaining_clients))) < epsilon
    order = [
        remaining_clients.pop(int(random.integers(len(remaining_clients))) if is_random else 0)
        for is_random in explores
    ]
    return np.array(order, dtype=np.int64)
