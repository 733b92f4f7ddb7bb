"""IFCA, the iterative federated clustering algorithm (Ghosh et al., NeurIPS 2020).

down: θ_1 … θ_k;  client: ĵ = argmin_j F_i([θ_j; p_i]) over its training windows
`model`:    K steps of its ClientOpt from θ_ĵ;  up: D, ĵ;  server: θ_j ← ServerOpt_j(θ_j, D̄_j),
            the mean over the participants that chose j
`gradient`: one step, so that D = −γ g under SGD with rate γ;  the sum over the participants that
            chose j is divided by all participants, so that small clusters learn more slowly

A model that nobody chose stays as it is. θ_1 is the study's initial model, the others are drawn as
that one, from seeds of their own: equal ones would never part.

The source takes F_i over all of a client's data, which for small models is many times the work of
a round. By default each client looks at some of its windows, drawn anew in every round.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from plfl.methods import Done, Local
from plfl.methods.clusters import Clustered

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation


class Ifca(Clustered):
    """Each client trains the one of k models that fits its data best."""

    name = "ifca"
    label = "IFCA"

    clusters: int = Field(2, ge=1)
    """Number of models k (Ghosh et al.: 2 and 4)."""
    averaging: Literal["model", "gradient"] = "model"
    """What is averaged: models after K local steps, or gradients."""

    probe: int | None = Field(256, ge=1)
    """Training windows that a client compares the models on (ours); none: all (Ghosh et al.)."""

    @property
    def simulation_only(self) -> str | None:
        return "to score its models every client has to try all of them"

    def begin(self, f: "Federation") -> None:
        import torch

        from plfl.training.batches import stream

        seeds = stream(f.seed, "/ifca", 0).integers(2**32, size=self.clusters - 1).tolist()
        others = [f.draw(seed)[f.shared] for seed in seeds]
        self.open(f, torch.stack([f.x0, *others]))
        f.memory["cluster"] = torch.full_like(f.everyone, -1)

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        import torch

        first, further = f.channel.send("down", clients, *self._offered(f, clients))
        cluster, start = self._best(f, t, clients, [first, *further])
        f.memory["cluster"][clients] = cluster
        one = torch.ones_like(clients) if self.averaging == "gradient" else None
        return Local(start, steps=one)

    def _offered(self, f: "Federation", clients: "Tensor") -> "tuple[Tensor, list[Tensor]]":
        """The first model and the further ones, a row (n, d_s) of each for every client."""
        first, *further = (x.expand(len(clients), -1) for x in f.server_state["x"])
        return first, further

    def _best(
        self, f: "Federation", t: int, clients: "Tensor", models: "list[Tensor]"
    ) -> "tuple[Tensor, Tensor]":
        """Which of the `models` has the least loss for each of `clients` (n,), and it (n, d_s).

        It is the first of equals. Clients look at the windows that they draw for round `t`.
        """
        import torch

        losses = [f.fleet.losses(f.models(clients, x), clients, t, self.probe) for x in models]
        best = torch.from_numpy(torch.stack(losses).cpu().numpy().argmin(0)).to(clients.device)
        return best, torch.stack(models)[best, torch.arange(len(clients), device=clients.device)]

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        cluster = f.memory["cluster"][clients].int()
        D, (cluster,) = f.channel.send("up", clients, done.displacement, [cluster])
        weights = f.weights_of(clients)
        for j in cluster.unique().tolist():
            chose = cluster == j
            mine = clients[chose]
            share = weights[chose] if self.averaging == "gradient" else f.weights_of(mine)
            self.receive(f, j, mine, D[chose], share, t)

    def held(self, f: "Federation") -> "Tensor":
        first, further = self._offered(f, f.everyone)
        return self._best(f, 0, f.everyone, [first, *further])[1]
