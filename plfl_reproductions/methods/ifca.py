"""IFCA, the iterative federated clustering algorithm, keeps several models. In each round every
client picks the one that fits its data best and trains it; the server averages the updates of each
model separately. Clients with similar data thus find each other without sending their data.

Source: Avishek Ghosh, Jichan Chung, Dong Yin and Kannan Ramchandran, "An Efficient Framework for
Clustered Federated Learning", NeurIPS 2020, https://arxiv.org/abs/2006.04088.

down: θ_1 … θ_k;  client: ĵ = argmin_j F_i([θ_j; p_i]) over its training windows
`model`:    K steps of its ClientOpt from θ_ĵ;  up: D, ĵ;  server: θ_j ← ServerOpt_j(θ_j, D̄_j),
            the mean over the participants that chose j
`gradient`: one step of `sgd` with rate γ, so that D = −γ g;  the sum over the participants that
            chose j is divided by all participants, so that small clusters learn more slowly
`gradient_by_all`: the same, divided by all m clients, as line 14 of Algorithm 2 prints it: γ/m

A model that nobody chose stays as it is. θ_1 is the study's initial model. The others are drawn
from the same distribution with other seeds, because equal models would never separate.

Deviations: of the two forms with gradients, `gradient` is ours: line 14's γ/m makes the steps
smaller where few clients take part. The paper evaluates F_i on all of a client's data, which for
small models costs many times the work of a round. By default a client uses a sample of its windows,
drawn anew in every round.
"""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.interfaces.annotations import Federation, FederationSettings
from plfl.interfaces.method import ClusterState, Sizes
from plfl.interfaces.model import Model
from plfl.interfaces.task import Task
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server import ServerOpt
from plfl.training.batches import stream
from plfl_reproductions.methods.clusters import ClusterMethod


class Ifca(ClusterMethod):
    """Each client trains the one of k models that fits its data best."""

    name = "ifca"
    label = "IFCA"
    sends = Sizes("clusters d_s", "d_s + 1")
    no_codec = "the server sends several models, of which only one would be coded"
    simulation_only = "every client has to evaluate all models before they can be scored"

    clusters: int = Field(2, ge=1)
    """Number of models k (Ghosh et al.: 2 and 4)."""
    averaging: Literal["model", "gradient", "gradient_by_all"] = "model"
    """What is averaged: models after K local steps, or gradients, of which the sum is divided by
    the participants (`gradient`) or by all clients (`gradient_by_all`, Ghosh et al.)."""
    probe: int | None = Field(256, ge=1)
    """Training windows on which a client compares the models (ours); null: all (Ghosh et al.)."""

    def reasons_against_optimizers(
        self, client_opt: ClientOpt, server_opt: ServerOpt
    ) -> Iterator[str]:
        if self._has_gradients and type(client_opt) is not Sgd:
            yield f"with averaging {self.averaging!r} D has to be −γ g; use sgd, or 'model'"
        if self._has_gradients and client_opt.weight_decay:
            yield f"with averaging {self.averaging!r} D has no weight decay; set that of sgd to 0"
        yield from super().reasons_against_optimizers(client_opt, server_opt)

    def reasons_against_settings(
        self, model: Model, task: Task, federation: FederationSettings
    ) -> Iterator[str]:
        if federation.start is not None and self.clusters > 1:
            yield (
                "draws its other models, which would all be that of federation.start and never "
                "separate; remove one of them"
            )

    @property
    def _has_gradients(self) -> bool:
        """Whether clients send a gradient instead of the change by K steps."""
        return self.averaging != "model"

    def init(self, f: Federation) -> ClusterState:
        seeds = stream(f.seed, "/ifca", 0).integers(2**32, size=self.clusters - 1).tolist()
        other_starts = [f.draw(seed)[f.shared_mask] for seed in seeds]
        self.open(f, torch.stack([f.x0, *other_starts]))
        return ClusterState(torch.full_like(f.everyone, -1))

    def broadcast(
        self, f: Federation, state: ClusterState, t: int, clients: Tensor
    ) -> TrainInstructions:
        first, other_models = f.channel.send("down", clients, *self._server_rows(f, clients))
        cluster, start = self._best(f, t, clients, [first, *other_models])
        state.cluster[clients] = cluster
        single_steps = torch.ones_like(clients) if self._has_gradients else None
        work = f.client_data.work_of_losses(clients, self.clusters, self.probe)
        return TrainInstructions(start, steps=single_steps, before=work)

    def _server_rows(self, f: Federation, clients: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The first model and the other ones, each with one row per client: (n, d_s)."""
        first, *other_models = (x.expand(len(clients), -1) for x in f.server.x)
        return first, other_models

    def _best(
        self, f: Federation, t: int, clients: Tensor, models: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Index (n,) of the model with the least loss for each client, and that model (n, d_s).

        Of equally good models, it is the first. Clients use the windows that they draw for round
        `t`.
        """
        losses = [
            f.client_data.losses(f.models(clients, x), clients, t, self.probe) for x in models
        ]
        best = torch.from_numpy(torch.stack(losses).cpu().numpy().argmin(0)).to(clients.device)
        return best, torch.stack(models)[best, torch.arange(len(clients), device=clients.device)]

    def aggregate(
        self, f: Federation, state: ClusterState, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        cluster = state.cluster[clients].int()
        D, (cluster,) = f.channel.send("up", clients, result.update, [cluster])
        self.receive(f, t, clients, cluster, D, self._find_weights(f, clients))

    def _find_weights(self, f: Federation, clients: Tensor) -> Tensor | None:
        """Weights (n,) of the gradients of `clients` in the sum; None: models are averaged."""
        match self.averaging:
            case "gradient":
                return f.weights_of(clients)
            case "gradient_by_all":
                weights = f.weights_of_all()
                return weights[clients] / weights.sum()
        return None

    def global_parameters(self, f: Federation, state: ClusterState) -> Tensor:
        first, other_models = self._server_rows(f, f.everyone)
        return self._best(f, 0, f.everyone, [first, *other_models])[1]
