"""FedAMP gives every client a model of its own on the server: a mean of all clients' models in
which similar models weigh more. Clients with similar data thereby learn from each other, and nobody
has to know in advance which clients are similar.

Source: Yutao Huang, Lingyang Chu, Zirui Zhou, Lanjun Wang, Jiangchuan Liu, Jian Pei and Yong Zhang,
"Personalized Cross-Silo Federated Learning on Non-IID Data", AAAI 2021,
https://arxiv.org/abs/2007.03797.

The server keeps every client's w_i, at first the initial model.

server: u_i = (1 − Σ_j ξ_ij) w_i + Σ_j ξ_ij w_j, over all j ≠ i
    `cosine`: ξ_ij = (1 − ξ_ii) softmax_{j ≠ i}(σ cos(w_i, w_j))
    `distance`: ξ_ij = α e^(−‖w_i − w_j‖²/σ) / σ
down: u_i;  client: K steps of its ClientOpt from its own w_i along g + (λ/α) (y − u_i)
up: D = y − w_i;  server: w_i ← w_i + D

`global` is [u_i; p_i]; `local` is [w_i; p_i]. Clients start from w_i: a start at u_i has another
fixed point. The server only keeps the clients' own models, so a server optimiser has no effect.

Deviations: ‖·‖² grows with the number of parameters, and so must σ. Before round 1 all w_i are
equal, so that the first u_i are the initial model.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.base.errors import ConfigError
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Method, MethodState, Sizes


@dataclass
class FedAMPState(MethodState):
    w: Tensor
    """Shared parameters w_i (N, d_s) of every client, as the server knows them."""


class FedAMP(Method):
    """A mean of all models for each client, in which similar ones weigh more."""

    name = "fedamp"
    sends = Sizes()
    no_proximal = "it pulls the models towards u_i itself"
    no_coded_update = (
        "client and server stay at the same w_i only as long as they add the same updates"
    )
    own_server = "its server keeps the clients' own models"
    no_server_average = "has no model of the server's that could be averaged"

    attention: Literal["distance", "cosine"] = "cosine"
    """The basis of the weights: distances between models, or, as in the paper for deep networks
    (HeurFedAMP), their cosines."""
    sigma: float = Field(1.0, gt=0)
    """σ, the scale of squared distances, or of cosines."""
    alpha: float = Field(1.0, gt=0)
    """α (paper: α_k), the size of the server's step, and 1/α that of the clients' pull."""
    lam: float = Field(1.0, ge=0)
    """λ of the term that pulls a client's model towards u_i, its mean of similar models."""
    self_weight: float = Field(0.5, ge=0, le=1)
    """ξ_ii of the heuristic, the weight of a client's own model."""

    def init(self, f: Federation) -> FedAMPState:
        clients = len(f.local)
        if self.attention == "distance" and (clients - 1) * self.alpha > self.sigma:
            raise ConfigError.at_key(
                "hyperparameters.method.fedamp.sigma",
                f"({clients} clients − 1) · alpha {self.alpha:g} / sigma {self.sigma:g} is "
                "more than 1, so that a client's own model could have a negative weight",
                f"raise sigma to at least {(clients - 1) * self.alpha:g}, or lower alpha",
            )
        return FedAMPState(w=f.x0.expand(clients, -1).clone())

    def broadcast(
        self, f: Federation, state: FedAMPState, t: int, clients: Tensor
    ) -> TrainInstructions:
        u, _ = f.channel.send("down", clients, self.global_parameters(f, state)[clients])
        w = f.local[clients][:, f.columns]
        pull = self.lam / self.alpha
        return TrainInstructions(start=w, pull=pull, constant=pull * (w - u))

    def aggregate(
        self, f: Federation, state: FedAMPState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        D, _ = f.channel.send("up", clients, result.update)
        state.w[clients] += D

    def global_parameters(self, f: Federation, state: FedAMPState) -> Tensor:
        w = state.w
        attention = self._weights(w.double())
        u = (1 - attention.sum(1, keepdim=True)) * w.double() + attention @ w.double()
        return u.to(w.dtype)

    def _weights(self, w: Tensor) -> Tensor:
        """Weights ξ (N, N) of the other clients' models; 0 on the diagonal."""
        if self.attention == "cosine":
            unit = torch.nn.functional.normalize(w, dim=1)
            cosines = (self.sigma * unit @ unit.T).fill_diagonal_(-torch.inf)
            weights = (1 - self.self_weight) * cosines.softmax(1)
            return weights.nan_to_num(nan=0.0) if len(w) == 1 else weights
        squares = torch.stack([(w - row).square().sum(1) for row in w])
        return (self.alpha / self.sigma * (-squares / self.sigma).exp()).fill_diagonal_(0.0)
